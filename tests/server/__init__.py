"""The SQS-compatible server: its rules in both protocols without a socket, and its transport with one."""
