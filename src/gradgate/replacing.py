"""Replace files in one step, and only files: what is not a regular file stays as it is."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST_START = 40  # characters of a file's name in that of a temporary one
_TRIES = 100
_FRESH = re.compile(r"\..+\.[0-9a-f]{8}\.part", re.DOTALL)
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a fresh file next to ``path``, which takes its place once it is complete and on disk.

    If the body fails, ``path`` is as it was before.

    Raises:
        OSError: if it cannot be written, or ``path`` is not a regular file.
    """
    part = fresh_file(path)
    mode = stat.S_IMODE(part.stat().st_mode)
    try:
        yield part
        part.chmod(mode)  # the body may have replaced it, as safetensors does with a file for its owner alone
        sync(part)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()


def fresh_file(path: Path) -> Path:
    """Create an empty file next to ``path``, under a name that nothing has, and return it.

    Raises:
        OSError: if it cannot be made, or ``path`` cannot be replaced.
    """
    check_replaceable(path)
    for part in _fresh_names(path):
        with suppress(FileExistsError), part.open("xb"):
            return part
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def fresh_folder(path: Path) -> Path:
    """Create a folder next to ``path``, under a name that nothing has, and return it; OSError if that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for part in _fresh_names(path):
        with suppress(FileExistsError):
            part.mkdir()
            return part
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield a fresh folder next to ``path``, which takes the place of an absent or empty one once it is complete.

    If the body fails, nothing of it stays.

    Raises:
        OSError: if it cannot be written.
    """
    path = path.resolve()  # an empty folder may be a link to one on another disk
    part = fresh_folder(path)
    try:
        yield part
        if path.is_dir():
            path.rmdir()
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_replaceable(path: Path) -> None:
    """Refuse what is neither absent nor a regular file: a link is neither followed nor replaced.

    Raises:
        OSError: if it is; the reason fits after the file's name.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    kind = next((name for fits, name in _KINDS if fits(mode)), None)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind is not None:
        raise FileExistsError(errno.EEXIST, f"it is {kind}, and only files are replaced", str(path))


def check_inside(root: Path, place: Path) -> None:
    """Refuse a place in a folder that a link leads out of it: what belongs into the folder is not written elsewhere.

    Args:
        root: the folder; it may be a link itself.
        place: below it; it may be absent.

    Raises:
        OSError: if a part of the path below ``root`` is a link.
    """
    for part in (place, *place.parents):
        if part == root:
            return
        if part.is_symlink():
            raise FileExistsError(
                errno.EEXIST,
                f"{part.name} is a link, and nothing is written out of {root}; remove the link",
                str(place),
            )


def sync(path: Path) -> None:
    """Wait until a file is on disk; else a crash may leave the one that it replaces empty."""
    with path.open("r+b") as file:  # Windows syncs no file that is open for reading alone
        os.fsync(file.fileno())


def share(files: Iterable[Path]) -> None:
    """Give files the mode of any other file in their folder: safetensors writes for the owner alone."""
    modes: dict[Path, int] = {}
    for file in files:
        if file.parent not in modes:
            part = fresh_file(file.with_name("mode"))
            modes[file.parent] = stat.S_IMODE(part.stat().st_mode)
            part.unlink()
        file.chmod(modes[file.parent])


def is_part(path: Path) -> bool:
    """Return True if a file has the name of a half-written one."""
    return path.name.startswith(".") and path.name.endswith(".part")


def remove_parts(folder: Path) -> None:
    """Remove the half-written files of processes that were killed; nothing may write into the folder meanwhile.

    Only names that :func:`fresh_file` makes are removed, and only those directly in the folder.
    """
    for path in folder.glob(".*.part"):
        if _FRESH.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
            path.unlink(missing_ok=True)


def _fresh_names(path: Path) -> Iterator[Path]:
    for _ in range(_TRIES):
        yield path.with_name(f".{path.name[:_LONGEST_START]}.{os.urandom(4).hex()}.part")
