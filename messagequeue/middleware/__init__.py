"""
Behaviour around handlers and around publishing, one to a file; not what the runtime guarantees without it.

Each function returns a `Middleware`, to be given to `new_consumer(middleware=[...])` or `compose()`.
"""

from ._compose import compose
from ._concurrency import concurrency
from ._deadline import deadline
from ._logging import logging
from ._rate_limit import RateLimit, rate_limit
from ._retry import retry
from ._timeout import timeout

__all__ = ["RateLimit", "compose", "concurrency", "deadline", "logging", "rate_limit", "retry", "timeout"]
