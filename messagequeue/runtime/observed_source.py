"""A source whose calls are told to telemetry; without telemetry there is none of this, and nothing asks for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from .._errors import ConsumeError
from .._message import Message
from .._protocols import Handler
from ..driver import Capabilities, Delivery, LeaseSource, Limits, OpeningSource
from ..telemetry import ConsumerTelemetry, Received

Results = Sequence[ConsumeError | None]


def observed_source(source: LeaseSource, telemetry: ConsumerTelemetry) -> LeaseSource:
    """Return *source*, its calls told to *telemetry*."""
    if isinstance(source, OpeningSource):
        return ObservedOpeningSource(source, telemetry)
    return ObservedSource(source, telemetry)


class ObservedLease:
    """A lease, and what telemetry is told of its message."""

    __slots__ = ("lease", "received")

    def __init__(self, lease: object, received: Received) -> None:
        self.lease = lease
        self.received = received


class ObservedSource:
    """
    A `LeaseSource` over another one, for `session`.

    Prolongations are not told of one by one: they are many, and a counter has them.
    """

    def __init__(self, source: LeaseSource, telemetry: ConsumerTelemetry) -> None:
        self._source = source
        self._telemetry = telemetry

    @property
    def capabilities(self) -> Capabilities:
        return self._source.capabilities

    @property
    def limits(self) -> Limits:
        return self._source.limits

    async def start(self) -> float:
        return await self._source.start()

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        receiving = self._telemetry.receiving()
        try:
            deliveries = await self._source.receive(max_messages, wait=wait)
        except BaseException as error:
            receiving.end(error)
            raise
        origin = self._telemetry.origin
        received = [Received(each.message, origin(each.message)) for each in deliveries]
        receiving.end(received)
        return [
            Delivery(each.message, ObservedLease(each.lease, known), each.fault)
            for each, known in zip(deliveries, received, strict=True)
        ]

    async def settle(self, leases: Sequence[object], /) -> Results:
        return await self._told("settle", leases, self._source.settle)

    async def release(self, leases: Sequence[object], /, *, after: float) -> Results:
        return await self._told("release", leases, lambda own: self._source.release(own, after=after))

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Results:
        return await self._source.extend([cast(ObservedLease, lease).lease for lease in leases], by=by)

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        async def bury(own: Sequence[object]) -> Results:
            return [await self._source.dead_letter(own[0], message, reason=reason, error=error)]

        return (await self._told("dead_letter", [lease], bury))[0]

    async def close(self) -> None:
        await self._source.close()

    async def _told(
        self,
        operation: str,
        leases: Sequence[object],
        call: Callable[[Sequence[object]], Coroutine[Any, Any, Results]],
    ) -> Results:
        observed = [cast(ObservedLease, lease) for lease in leases]
        settling = self._telemetry.settling(operation, [each.received for each in observed])
        try:
            results = await call([each.lease for each in observed])
        except BaseException as error:
            settling.end(error)
            raise
        settling.end(results)
        return results


class ObservedOpeningSource(ObservedSource):
    """The same over an `OpeningSource`."""

    def __init__(self, source: OpeningSource, telemetry: ConsumerTelemetry) -> None:
        super().__init__(source, telemetry)
        self._opening = source

    def opening(self, handler: Handler, /) -> Handler:
        return self._opening.opening(handler)
