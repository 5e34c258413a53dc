"""
The data folders that this process owns, each with one hub, shared by all that name it; not what happens inside.

A folder is opened by the first who asks for it and closed by the last who gives it back.  Both are done on threads: to
open it reads every message, to close it waits for the disk.
"""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .._errors import ConfigurationError
from ..broker import Broker
from ._durable import DurableHub
from ._hub import new_broker


@dataclass(slots=True, eq=False)
class _Open:
    hub: DurableHub
    fsync: str
    users: int = 0
    closing: bool = False
    closed: threading.Event = field(default_factory=threading.Event)


_folders: dict[Path, _Open] = {}
_lock = threading.Lock()


async def open_hub(path: str | os.PathLike[str], *, fsync: str = "second") -> DurableHub:
    """
    Return the hub of the folder *path*, opened where this process has not yet.  `close_hub()` it once, afterwards.

    Args:
        fsync: `second` or `always`; see `broker.storage.sqlite.Fsync`.

    Raises:
        FolderInUseError: another process has it.
        ConfigurationError: it cannot be used; or it is open here with another *fsync*.
    """
    loop = asyncio.get_running_loop()
    opening = loop.run_in_executor(None, _acquire, _resolved(path), fsync)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_not_wanted)
        raise


async def close_hub(hub: DurableHub) -> None:
    """
    Give back what `open_hub()` returned; the last to do so closes the folder.

    Raises:
        StorageError: what was not committed yet could not be.
    """
    with _lock:
        path, entry = _entry(hub)
        entry.users -= 1
        if entry.users:
            return
        entry.closing = True

    def closed() -> None:
        with _lock:
            del _folders[path]
        entry.closed.set()

    await hub.close(closed)


def embedded_broker(path: str | os.PathLike[str]) -> Broker:
    """
    Return the broker of a folder that this process has open, to look into: see `memory_broker()`.

    Raises:
        ConfigurationError: this process does not have it open.
    """
    return _found(path).broker


def embedded_now(path: str | os.PathLike[str]) -> float:
    """Return the seconds of that broker's clock, since the epoch.  There must be a running event loop."""
    return _found(path).now()


def _found(path: str | os.PathLike[str]) -> DurableHub:
    entry = _folders.get(_resolved(path))
    if entry is None:
        raise ConfigurationError(f"the data folder {str(path)!r} is not open in this process")
    return entry.hub


def _resolved(path: str | os.PathLike[str]) -> Path:
    return Path(path).expanduser().resolve()


def _acquire(path: Path, fsync: str) -> DurableHub:
    while True:
        with _lock:
            entry = _folders.get(path)
            if entry is None:
                entry = _folders[path] = _opened(path, fsync)
            if not entry.closing:
                if entry.fsync != fsync:
                    raise ConfigurationError(
                        f"the data folder {str(path)!r} is open with fsync={entry.fsync!r} in this process: "
                        f"give every half the same, not {fsync!r}"
                    )
                entry.users += 1
                return entry.hub
        entry.closed.wait()


def _opened(path: Path, fsync: str) -> _Open:
    from ..broker.storage.sqlite import Fsync, SqliteStore  # the provider `memory` needs no SQLite

    store = SqliteStore.open(path, fsync=fsync)
    try:
        broker = new_broker()
        store.load(broker)
    except BaseException:
        store.close()
        raise
    return _Open(DurableHub(broker, store, clock=store.clock, waits=store.fsync is Fsync.ALWAYS), fsync)


def _not_wanted(opening: asyncio.Future[DurableHub]) -> None:
    """Give back what was opened for somebody who was cancelled meanwhile."""
    if opening.cancelled() or opening.exception() is not None:
        return
    with _lock:
        path, entry = _entry(opening.result())
        entry.users -= 1
        if not entry.users:
            del _folders[path]
            entry.hub.abandon()


def _entry(hub: DurableHub) -> tuple[Path, _Open]:
    return next((path, entry) for path, entry in _folders.items() if entry.hub is hub)
