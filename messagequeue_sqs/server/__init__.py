"""An SQS-compatible server: actions (`engine`), protocols (`wire`), and the process around them (`app`)."""
