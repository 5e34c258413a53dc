"""What tests of several areas share: LocalStack, a scripted SQS stub, snippets of the documentation."""
