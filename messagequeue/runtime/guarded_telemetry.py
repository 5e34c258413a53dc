"""
Telemetry whose faults do no harm: what it raises is logged once for each kind of call, and the message goes on.

A span processor, a sampler or a `Telemetry` of the application's may raise anything anywhere.  What is asked of
telemetry while a topic is opened still raises: a set-up that is wrong should be seen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from .. import _log_events as events
from .._errors import PublishError
from .._message import Message, Receipt
from ..driver import EncodedMessage
from ..telemetry import (
    ConsumerTelemetry,
    Destination,
    Processing,
    PublisherTelemetry,
    Readings,
    Received,
    Receiving,
    Sending,
    Settling,
    Telemetry,
    TraceContext,
)

T = TypeVar("T")


class Faults:
    """Tells of what one telemetry raised."""

    __slots__ = ("_name", "_told")

    def __init__(self, telemetry: Telemetry) -> None:
        self._name = type(telemetry).__name__
        self._told: set[str] = set()

    def tell(self, call: str, error: Exception) -> None:
        """Log that *call* raised *error*, where that is the first time."""
        if call in self._told:
            return
        self._told.add(call)
        kind = type(error).__name__
        events.TELEMETRY_RAISED.log(
            "the telemetry %s raised %s in %s, and perhaps will again; messages go on without it",
            self._name,
            kind,
            call,
            exc_info=error,
            telemetry=self._name,
            call=call,
            error_type=kind,
        )


class Guarded(Generic[T]):
    """One operation that telemetry is told of; *inner* is None where telemetry failed to begin it."""

    __slots__ = ("_faults", "_inner", "_name")

    def __init__(self, faults: Faults, name: str, begin: Callable[[], T]) -> None:
        self._faults = faults
        self._name = name
        self._inner: T | None = None
        try:
            self._inner = begin()
        except Exception as error:
            faults.tell(name, error)

    def _tell(self, part: str, error: Exception) -> None:
        self._faults.tell(f"{self._name}().{part}", error)


class GuardedBlock(Guarded[AbstractContextManager[None]]):
    """What surrounds a piece of the runtime's work; it neither adds an exception to the work's nor swallows one."""

    __slots__ = ("_entered",)

    def __enter__(self) -> None:
        self._entered = False
        if self._inner is not None:
            try:
                self._inner.__enter__()
                self._entered = True
            except Exception as error:
                self._tell("__enter__", error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._entered and self._inner is not None:
            try:
                self._inner.__exit__(kind, error, traceback)
            except Exception as raised:
                if raised is not error:  # a generator's block lets it through by raising it
                    self._tell("__exit__", raised)


class _Ends(Protocol):
    """What is told of the end of an operation."""

    def end(self, result: Any, /) -> None: ...


class _Surrounds(_Ends, Protocol):
    """What also surrounds it."""

    def current(self) -> AbstractContextManager[None]: ...


E = TypeVar("E", bound=_Ends)


class GuardedOperation(Guarded[E]):
    """A `Receiving` or a `Settling`."""

    __slots__ = ()

    def end(self, result: object, /) -> None:
        if self._inner is not None:
            try:
                self._inner.end(result)
            except Exception as error:
                self._tell("end", error)


class GuardedSurrounding(GuardedOperation[_Surrounds]):
    """A `Sending` or a `Processing`."""

    __slots__ = ()

    def current(self) -> AbstractContextManager[None]:
        inner = self._inner
        return _NOTHING if inner is None else GuardedBlock(self._faults, f"{self._name}().current", inner.current)


class _Nothing:
    """Surrounds work that telemetry does not know of."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, *details: object) -> None: ...


_NOTHING = _Nothing()


class GuardedPublisher:
    """See `PublisherTelemetry`."""

    __slots__ = ("_faults", "_inner")

    def __init__(self, faults: Faults, inner: PublisherTelemetry) -> None:
        self._faults = faults
        self._inner = inner

    def sending(self) -> Sending:
        return GuardedSurrounding(self._faults, "sending", self._inner.sending)

    def sending_many(self) -> Sending:
        return GuardedSurrounding(self._faults, "sending_many", self._inner.sending_many)

    def context(self, message: EncodedMessage, /) -> TraceContext | None:
        try:
            found = self._inner.context(message)
            if found is not None:
                _check(found)
        except Exception as error:
            self._faults.tell("context", error)
            return None
        return found

    def skipped(self, message: EncodedMessage, /) -> None:
        try:
            self._inner.skipped(message)
        except Exception as error:
            self._faults.tell("skipped", error)

    def request(self, messages: Sequence[EncodedMessage], /) -> AbstractContextManager[None]:
        return GuardedBlock(self._faults, "request", lambda: self._inner.request(messages))

    def sent(self, results: Sequence[Receipt | PublishError], /) -> None:
        try:
            self._inner.sent(results)
        except Exception as error:
            self._faults.tell("sent", error)


def _check(context: object) -> None:
    """Raise `TypeError` where *context* would make a message one that no broker takes."""
    if not isinstance(context, TraceContext):
        raise TypeError(f"context() returned {type(context).__name__}: it must be TraceContext or None")
    if not all(type(name) is str and type(value) is str for name, value in context.attributes.items()):
        raise TypeError("context() returned attributes that are not text")
    if context.traceparent is not None and not isinstance(context.traceparent, str):
        raise TypeError(f"context() returned a traceparent that is {type(context.traceparent).__name__}")


class GuardedConsumer:
    """See `ConsumerTelemetry`."""

    __slots__ = ("_faults", "_inner")

    def __init__(self, faults: Faults, inner: ConsumerTelemetry) -> None:
        self._faults = faults
        self._inner = inner

    def receiving(self) -> Receiving:
        return GuardedOperation(self._faults, "receiving", self._inner.receiving)

    def origin(self, message: Message, /) -> object:
        try:
            return self._inner.origin(message)
        except Exception as error:
            self._faults.tell("origin", error)
            return None

    def settling(self, operation: str, messages: Sequence[Received], /) -> Settling:
        return GuardedOperation(self._faults, "settling", lambda: self._inner.settling(operation, messages))

    def processing(self, messages: Sequence[Received], /) -> Processing:
        return GuardedSurrounding(self._faults, "processing", lambda: self._inner.processing(messages))


class GuardedTelemetry:
    """A `Telemetry` over another one, for `readings.Watches`."""

    __slots__ = ("_faults", "_inner")

    def __init__(self, inner: Telemetry) -> None:
        self._inner = inner
        self._faults = Faults(inner)

    def publisher(self, destination: Destination, /) -> PublisherTelemetry:
        return GuardedPublisher(self._faults, self._inner.publisher(destination))

    def consumer(
        self, destination: Destination, /, *, carried: Callable[[Message], str | None] = lambda message: None
    ) -> ConsumerTelemetry:
        return GuardedConsumer(self._faults, self._inner.consumer(destination, carried=carried))

    def watch(self, destination: Destination, read: Readings, /) -> Callable[[], None]:
        stop = self._inner.watch(destination, read)

        def stopped() -> None:
            try:
                stop()
            except Exception as error:
                self._faults.tell("watch().stop", error)

        return stopped
