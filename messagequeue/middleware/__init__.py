"""
Behaviour around handlers and around publishing, one to a file; not what the runtime guarantees without it.

Around handlers, for `new_consumer(middleware=[...])` or `compose()`: `concurrency()`, `deadline()`, `logging()`,
`rate_limit()`, `retry()`, `timeout()`.

Around publishing, for `with_middleware()`: `default_attributes()`, `publish_logging()`, `publish_retry()`,
`publish_timeout()`.
"""

from ._compose import compose
from ._concurrency import concurrency
from ._deadline import deadline
from ._default_attributes import default_attributes
from ._logging import logging
from ._publish_logging import publish_logging
from ._publish_retry import publish_retry
from ._publish_timeout import publish_timeout
from ._publishing import compose_publish, current_topic, with_middleware
from ._rate_limit import RateLimit, rate_limit
from ._retry import retry
from ._timeout import timeout

__all__ = [
    "RateLimit",
    "compose",
    "compose_publish",
    "concurrency",
    "current_topic",
    "deadline",
    "default_attributes",
    "logging",
    "publish_logging",
    "publish_retry",
    "publish_timeout",
    "rate_limit",
    "retry",
    "timeout",
    "with_middleware",
]
