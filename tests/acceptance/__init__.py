"""Whole processes against LocalStack: what a crash, a deploy and a signal do to messages."""
