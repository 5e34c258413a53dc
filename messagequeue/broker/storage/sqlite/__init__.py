"""
The broker's state in one SQLite file of a folder that one process owns; not when to write (the faces decide that).

    store = SqliteStore.open("./queues")
    store.load(broker)          # the broker is as it was; from now on the store records its changes
    ...
    store.write(now)            # what was recorded is committed: answers may leave

The tables hold the state, not its history: what is settled is deleted, and its pages are used again, so that the file
grows with what is queued and not with what passed through.

*What is promised* depends on `Fsync`.  A commit always survives the end of the process, `kill -9` included.  *What it
cannot promise:* anything on a file system without working locks (most network mounts), or when the disk lies.
"""

from __future__ import annotations

from ._folder import FolderInUseError
from ._store import Fsync, SqliteStore

__all__ = ["FolderInUseError", "Fsync", "SqliteStore"]
