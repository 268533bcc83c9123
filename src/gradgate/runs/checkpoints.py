"""Check which checkpoints can be trusted, and explain why one cannot be written."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradgate.errors import GradgateError, RunError
from gradgate.files import digests, read_json, write_json

SEAL_FILE = "seal.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
# torch and safetensors have errors of their own for a file that cannot be written
_FULL_DISK = re.compile(r"No space left|PytorchStreamWriter|inline_container|unexpected pos")
_OS_ERROR = re.compile(r"os error (\d+)")
_NO_FOLDER = re.compile(r"os error 2\b|No such file or directory|Parent directory .* does not exist")


def seal(folder: Path) -> None:
    """Write the digest of every file, as the last thing: a folder without its seal is not whole."""
    write_json(folder / SEAL_FILE, {"files": digests(folder, (SEAL_FILE,))})


def is_whole(folder: Path) -> bool:
    """Return True if every file of a sealed folder is unchanged since it was sealed."""
    try:
        return bool(read_json(folder / SEAL_FILE).get("files") == digests(folder, (SEAL_FILE,)))
    except (RunError, OSError):
        return False


def latest_checkpoint(checkpoints: Path) -> Path | None:
    """Return the newest whole checkpoint in a folder; skip damaged and half-written ones.

    Raises:
        RunError: if there are sealed checkpoints, but every one of them is damaged.
    """
    numbered = [(int(found[1]), path) for path in checkpoints.glob("*") if (found := _CHECKPOINT.fullmatch(path.name))]
    sealed = [path for _, path in sorted(numbered, reverse=True) if (path / SEAL_FILE).is_file()]
    for folder in sealed:
        if is_whole(folder):
            return folder
    if sealed:
        raise RunError(
            f"Every checkpoint in {checkpoints} is damaged: {', '.join(f.name for f in sealed)}. "
            f"Remove {checkpoints} to train from the start."
        )
    return None


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn the errors of the libraries that write into a folder into a RunError that names it and the cause."""
    try:
        yield
    except GradgateError:
        raise
    except Exception as error:
        cause = _cause(error, folder)
        if cause is None:
            raise
        raise RunError(
            f"Cannot write to {folder}: {cause}. What was saved before is still there; free space and run the same "
            f"command again."
        ) from error


def _cause(error: Exception, folder: Path) -> str | None:
    """Return why a file could not be written; None if the error has another cause."""
    if isinstance(error, OSError):
        named = error.filename is not None and Path(str(error.filename)).is_relative_to(folder)
        unwritable = error.errno in _UNWRITABLE or (error.errno in _ABSENT and named)
        return error.strerror if unwritable else None
    number = _OS_ERROR.search(str(error))
    if number is not None and int(number[1]) in _UNWRITABLE:
        return os.strerror(int(number[1]))
    if _FULL_DISK.search(str(error)):
        return "the disk is full"
    removed = _NO_FOLDER.search(str(error)) and type(error).__name__ in ("SafetensorError", "RuntimeError")
    return "a folder in it has been removed" if removed else None
