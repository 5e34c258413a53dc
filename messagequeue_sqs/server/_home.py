"""
Where a server's queues are: in a broker of its own, in that of the `memory` providers, or in a data folder.

The last two are shared with the providers of the same name or folder in this process, through the hub that they meet
in.  What the queues are is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from messagequeue import ConfigurationError
from messagequeue.broker import Broker

from ._clock import Alarm, Clock, RealClock
from ._service import Commits

if TYPE_CHECKING:
    from messagequeue.embedded._hub import Hub

#: Brokers that a server of this process answers for.
_served: Final[WeakSet[Broker]] = WeakSet()


@dataclass(frozen=True, slots=True)
class Home:
    """
    Attributes:
        broker: Has the queues.
        clock: The broker's.
        commits: What answers wait for; None: nothing outlives the process.
        path: The data folder; None: there is none.
        leave: Gives the home back.  Raises `StorageError` where what is left could not be committed.
    """

    broker: Broker
    clock: Clock
    commits: Commits | None
    path: str | None
    leave: Callable[[], Awaitable[None]]


class OwnHome:
    """A broker that nobody else has; it stays what it was when the server is started again."""

    def __init__(self, new_id: Callable[[], str], clock: Clock | None) -> None:
        self._broker = Broker(new_id=new_id)
        self._clock = clock or RealClock()

    async def enter(self) -> Home:
        return _served_by_one(Home(self._broker, self._clock, None, None, _nothing))


class MemoryHome:
    """The broker of the `memory` providers of one name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def enter(self) -> Home:
        """Raises `ConfigurationError`: another loop, or another server, uses it."""
        from messagequeue.embedded._hub import hub

        shared = hub(self._name)
        return _served_by_one(Home(shared.broker, HubClock(shared), None, None, _nothing))


class FolderHome:
    """The broker of a data folder, which the `embedded` providers of this process may have open, too."""

    def __init__(self, path: str | os.PathLike[str], fsync: str) -> None:
        self._path = path
        self._fsync = fsync

    async def enter(self) -> Home:
        """
        Open the folder, made where it is missing.

        Raises:
            FolderInUseError: another process has it.
            ConfigurationError: it cannot be used, or another loop or server of this process uses it.
        """
        from messagequeue.embedded._folders import close_hub, open_hub

        hub = await open_hub(self._path, fsync=self._fsync)

        async def leave() -> None:
            await close_hub(hub)

        try:
            return _served_by_one(Home(hub.broker, HubClock(hub), hub, os.fspath(self._path), leave))
        except BaseException:
            await leave()
            raise


class HubClock:
    """The clock of a hub, on the loop that runs now."""

    def __init__(self, hub: Hub) -> None:
        hub.now()  # from now on it belongs to this loop
        self.now = hub.seconds
        self._hub = hub

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        return self._hub.call_at(when, callback)


def _served_by_one(home: Home) -> Home:
    """Two servers would not see each other's attributes and tags."""
    broker = home.broker
    if broker in _served:
        raise ConfigurationError("a server of this process answers for these queues already: use that one")
    _served.add(broker)

    async def leave() -> None:
        _served.discard(broker)
        await home.leave()

    return replace(home, leave=leave)


async def _nothing() -> None:
    """There is nothing to give back."""
