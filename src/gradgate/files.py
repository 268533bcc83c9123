"""A lock between processes that ends with the process that holds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class NoLocksError(OSError):
    """A file system without locks."""


class Lock:
    """The right to write to one file or folder."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """The lock, or None if another process (or another holder in this one) has it. The file stays.

        Raises:
            OSError: if the file cannot be made.
            NoLocksError: if its file system has no locks.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise NoLocksError(error.errno, error.strerror, str(path)) from error
        return cls(descriptor)

    def release(self) -> None:
        """Give it up, also where a forked process still has the file open."""
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
