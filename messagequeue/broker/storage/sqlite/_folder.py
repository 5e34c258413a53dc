"""The folder that holds a store, and the lock that makes it one process's own; not what is in its files."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from ...._errors import ConfigurationError

DATABASE, LOCK = "queues.sqlite3", "lock"


class FolderInUseError(ConfigurationError):
    """Another process, or this one already, has the data folder open.  The message says which, where it is known."""


class Folder:
    """
    A data folder, made where it is missing, and owned until `close()` or the end of the process, however it ends.

    The lock is the kernel's: it cannot be left behind by a crash.  The number in the lock file is for people only.

    Raises:
        FolderInUseError: it is in use.
        ConfigurationError: it cannot be made, read or written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(
                f"the data folder {str(self.path)!r} cannot be used ({error.strerror}): "
                "give a folder that this user may write to"
            ) from error
        try:
            self._own()
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def _own(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUseError(
                f"the data folder {str(self.path)!r} is in use by {self._owner()}: "
                "one process owns a folder; stop that one, or give this one a folder of its own"
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"the data folder {str(self.path)!r} cannot be locked ({error.strerror}): give a folder on a local disk"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _owner(self) -> str:
        text = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
        if not text.isdigit():
            return "another process"
        return "this process already" if int(text) == os.getpid() else f"process {text}"

    def sync(self) -> None:
        """Force the names of the files in it to the disk."""
        folder = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Give the folder free."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._lock, 0)
        os.close(self._lock)
