"""
SQS without a socket: the 23 actions of the service model over `messagequeue.broker`, pure and synchronous.

`Engine.handle()` takes a `Call`, whose members have the service model's types, and returns the members of the answer,
or a `Poll` where a receive may wait.  What is wrong is an `SqsError`.  How either looks on the wire is `server.wire`'s
business, and waiting is the server's.
"""

from __future__ import annotations

from ._call import Answer, Call, Poll, Result
from ._check import TRACE
from ._engine import Engine
from ._errors import Kind, SqsError
from ._options import DEFAULT_ACCOUNT, DEFAULT_REGION, EngineOptions
from ._receive import body_text, user_attributes
from ._send import sequence_text

__all__ = [
    "DEFAULT_ACCOUNT",
    "DEFAULT_REGION",
    "TRACE",
    "Answer",
    "Call",
    "Engine",
    "EngineOptions",
    "Kind",
    "Poll",
    "Result",
    "SqsError",
    "body_text",
    "sequence_text",
    "user_attributes",
]
