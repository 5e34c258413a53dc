"""Publishing once more what failed, where that can neither double a message nor turn two around."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .. import _log_events as events
from .._errors import ConfigurationError, ErrorCode, PublishError
from .._message import Outgoing, Receipt
from .._protocols import Publish, PublishMiddleware
from ._checks import positive, whole
from ._publishing import current_topic

#: The broker has refused it, or never got it: sending it again cannot make two of it.
_NOT_STORED = frozenset({ErrorCode.THROTTLED, ErrorCode.FULL, ErrorCode.CREDENTIALS})

#: Seconds: how long SQS, and the brokers built like it, know a deduplication key again.
_DEDUPLICATION_WINDOW = 300.0


def publish_retry(
    *, attempts: int = 3, first: float = 0.2, longest: float = 5.0, within: float = 60.0, duplicates: bool = False
) -> PublishMiddleware:
    """
    Publish again, after a pause, what failed in a way that may heal, where that is safe; else raise the error.

    That a message is not there twice: an error that leaves open whether the broker stored it (`CONNECTION`,
    `UNAVAILABLE`, `NOT_CONFIRMED` and others) is retried only for a message with a `deduplication_key`, by which the
    broker knows it again, or where *duplicates* are allowed.  Throttling and a full publisher are always retried.

    That no message overtakes: one with an ordering key is retried only where no other of its key was under way at the
    same time, as awaiting one `publish()` after another does; later ones of its key wait for the end of its retries.

    Errors that are not `retryable` are raised at once.  The AWS SDK repeats failing calls on its own, and the runtime
    single entries: this is for outages that outlast both.

    Args:
        attempts: Calls at most, the first included.
        first: Seconds of the first pause; each further one doubles, and half of it is random.
        longest: Seconds of a pause at most.
        within: Seconds after the first call's beginning in which another may begin, up to 300 (by then SQS has
            forgotten the deduplication key).
        duplicates: Also retry what may be stored already: consumers may then see it twice.

    Raises:
        ConfigurationError: a number is out of range.
    """
    from ..runtime.backoff import equal_jitter, pause  # it loads tenacity, which `import messagequeue` must not

    most = whole("attempts", attempts, "how often a message is published at most")
    wait = equal_jitter(positive("first", first, "seconds"), positive("longest", longest, "seconds"))
    limit = positive("within", within, "seconds")
    if limit > _DEDUPLICATION_WINDOW:
        raise ConfigurationError(f"within={limit:g} is above {_DEDUPLICATION_WINDOW:g}: deduplication ends by then")

    def wrap(publish: Publish) -> Publish:
        lanes: dict[str, _Lane] = {}

        async def retried(item: Outgoing) -> Receipt:
            lane = await _enter(lanes, item.ordering_key)
            loop = asyncio.get_running_loop()
            began, attempt = loop.time(), 1
            try:
                while True:
                    try:
                        return await publish(item)
                    except PublishError as error:
                        seconds = pause(wait, attempt)
                        late = attempt >= most or loop.time() + seconds > began + limit
                        if late or not is_safe(error, item, duplicates) or not lane.hold():
                            raise
                        _tell(error, attempt, seconds)
                    await asyncio.sleep(seconds)
                    attempt += 1
            finally:
                _leave(lanes, item.ordering_key, lane)

        return retried

    return wrap


def is_safe(error: PublishError, item: Outgoing, duplicates: bool) -> bool:
    """Whether publishing *item* again may help and makes no second one, or *duplicates* are allowed."""
    if error.retryable and error.code in _NOT_STORED:
        return True
    if not error.retryable and error.code is not ErrorCode.NOT_CONFIRMED:
        return False
    return duplicates or item.deduplication_key is not None


@dataclass(slots=True)
class _Lane:
    """
    Messages of one ordering key that are being published here.

    *waiting* and *under_way* count them; the lane ends with the last of them.  *crowded* is set once several were under
    way at the same time, for then the place of each among the others is settled, one way or the other, and a later
    attempt of one could come too late.
    """

    under_way: int = 0
    waiting: int = 0
    crowded: bool = False
    free: asyncio.Event | None = None

    def hold(self) -> bool:
        """Keep others of the key from entering until the one who asks has left; False where others are in already."""
        if self.crowded:
            return False
        if self.free is None:
            self.free = asyncio.Event()
        return True


async def _enter(lanes: dict[str, _Lane], key: str | None) -> _Lane:
    if not isinstance(key, str):
        return _Lane(under_way=1)  # it has no order to keep
    lane = lanes.setdefault(key, _Lane())
    lane.waiting += 1
    try:
        while lane.free is not None:
            await lane.free.wait()
    except BaseException:
        lane.waiting -= 1
        _drop_empty(lanes, key, lane)
        raise
    lane.waiting -= 1
    lane.under_way += 1
    lane.crowded = lane.crowded or lane.under_way > 1
    return lane


def _leave(lanes: dict[str, _Lane], key: str | None, lane: _Lane) -> None:
    lane.under_way -= 1
    if lane.free is not None:
        lane.free.set()
        lane.free = None
    if isinstance(key, str):
        _drop_empty(lanes, key, lane)


def _drop_empty(lanes: dict[str, _Lane], key: str, lane: _Lane) -> None:
    if not lane.under_way and not lane.waiting and lanes.get(key) is lane:
        del lanes[key]


def _tell(error: PublishError, attempt: int, seconds: float) -> None:
    events.PUBLISH_RETRY.log(
        "publishing to %s failed (%s) at attempt %d; again in %.2f s",
        current_topic(),
        error.code,
        attempt,
        seconds,
        topic=current_topic(),
        attempt=attempt,
        error_code=str(error.code),
        pause=seconds,
    )
