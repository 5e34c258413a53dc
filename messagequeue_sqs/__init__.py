"""Amazon SQS for `messagequeue`."""
