"""A session whose handlers run in slots that other topics share; who gets them is `sharing`'s to say."""

from __future__ import annotations

from .._options import ConsumeOptions
from .._protocols import Handler
from ..driver import LeaseSource
from ..telemetry import ConsumerTelemetry
from .backoff import CLOCK_TICK
from .dispatch import Held
from .session import HELD_PER_SLOT, Session
from .sharing import QUIET_AFTER, Share
from .sink import Faults
from .stats import ConsumerStats


class SharedSession(Session):
    """
    A `Session` that is one `sharing.Member` of several.

    It receives what its share has room for, and never ahead of that, whatever `ConsumeOptions.adaptive` says.
    """

    def __init__(
        self,
        share: Share,
        topic: str,
        source: LeaseSource,
        handler: Handler,
        options: ConsumeOptions,
        faults: Faults,
        stats: ConsumerStats,
        telemetry: ConsumerTelemetry | None = None,
    ) -> None:
        super().__init__(topic, source, handler, options, faults, stats, telemetry)
        self._share = share

    async def run(self) -> None:
        self._share.join(self)
        try:
            await super().run()
        finally:
            self._share.leave()

    def stop(self) -> None:
        super().stop()
        self._pump()  # others need not wait for what this one has no more

    # -- what the share asks

    @property
    def ready(self) -> int:
        """See `sharing.Member`."""
        return 0 if self._stopping else self._lanes.ready

    @property
    def receives(self) -> bool:
        """See `sharing.Member`."""
        if self._stopping:
            return False
        space = self._most()
        return (space if self._guard is None else self._guard.room(self._loop.time(), space, self._held)) > 0

    def start_next(self) -> None:
        """See `sharing.Member`."""
        held = self._take()
        assert held is not None, "the share starts only what is ready"
        self._runner.start_one(held)

    def turned(self) -> None:
        """See `sharing.Member`."""
        self._pumped()

    # -- what the share says

    def _pump(self) -> None:
        self._share.turn()

    def _space(self) -> int:
        return min(self._share.room(self._loop.time(), self._options.prefetch), self._most())

    def _most(self) -> int:
        """Messages that may still be taken in, whoever has the slots."""
        held = self._running + self._lanes.ready + self._lanes.behind + self._settling.pending
        return self._slots * HELD_PER_SLOT - held

    def _ended(self, held: Held, raised: BaseException | None) -> None:
        self._share.ended()
        super()._ended(held, raised)

    # -- what others wait for

    def _on_launched(self, now: float) -> None:
        self._share.look.launched(now)
        self._loop.call_later(QUIET_AFTER + CLOCK_TICK, self._pump)  # nothing came until then: others may receive

    def _on_answered(self, brought: int) -> None:
        self._share.look.answered(brought)
        if not brought:
            self._pump()  # so may others
