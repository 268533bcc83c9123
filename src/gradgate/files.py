"""Read and write files safely: atomic writes, JSON with limits, digests, and locks between processes."""

from __future__ import annotations

import errno
import json
import math
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gradgate.errors import RunError, UsageError
from gradgate.replacing import check_inside, check_replaceable, fresh_file, is_part, sync

if TYPE_CHECKING:
    from filelock import FileLock

_MOST_BYTES = 256 << 20  # of a text file; the longest contain the seconds of each step
_LONGEST_NAME = 60  # characters of a name that is made of a text
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
_LONG_NUMBER = "integer string conversion"  # as Python says of too many digits
_WRITABLE = "Choose a file in a writable folder, or free space on its disk."


def read_json(path: Path, *, finite: bool = True) -> dict[str, Any]:
    """Read a JSON object from a file of at most 256 MiB.

    Args:
        path: of the file.
        finite: reject NaN and infinity; without it the caller checks numbers, and can name the field.

    Raises:
        RunError: if the file cannot be read, or is not a JSON object.
    """
    try:
        return parse_json(read_bytes(path), finite=finite)
    except OSError as error:
        raise RunError(f"Cannot read {path}: {error.strerror or error}. Expected a file that can be read.") from error
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}. {remedy(path)}") from None


def read_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """Read a file; reject devices, pipes and files of more than ``most`` bytes.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is rejected; the message fits after the file's name.
    """
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise ValueError("expected a file, got a device or a pipe")
    if status.st_size > most:
        raise ValueError(f"it has {status.st_size:,} bytes; expected at most {most >> 20} MiB")
    return path.read_bytes()


def parse_json(content: bytes | str, *, finite: bool = True) -> dict[str, Any]:
    """Parse a JSON object; ``finite`` as for :func:`read_json`.

    Raises:
        ValueError: if it is anything else; the message says what, and fits after the file's name.
    """
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        checks: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": _finite} if finite else {}
        value = json.loads(text, **checks)
    except RecursionError:
        raise ValueError("its values are nested too deeply; expected a few levels") from None
    except ValueError as error:
        if _LONG_NUMBER in str(error):
            raise ValueError("a whole number has thousands of digits") from None
        raise
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def remedy(path: Path) -> str:
    """Return the advice for a damaged file in a folder of results."""
    return f"Restore a good copy, or remove {path.parent} to start over."


def from_here(path: str) -> str:
    """Return where a relative path counts from, as a sentence behind others; an empty text for an absolute one."""
    return "" if Path(path).is_absolute() else f" A relative path counts from the current folder, {Path.cwd()}."


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"expected a finite number, got {text}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse_constant(text)
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically: on failure, the file is as it was before.

    Raises:
        RunError: if the file cannot be written.
    """
    write_files(path.parent, {path.name: json.dumps(value, indent=2) + "\n"})


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically: on failure, it is as it was before.

    Raises:
        RunError: if the file cannot be written.
    """
    write_files(path.parent, {path.name: text})


def write_files(folder: Path, contents: Mapping[str, str | bytes], *, inside: Path | None = None) -> None:
    """Write several files of one folder: none is replaced before all are on disk.

    Args:
        folder: created if absent.
        contents: by file name. Text is written as UTF-8; surrogates, which UTF-8 cannot encode, become escapes as in
            JSON and Python.
        inside: a folder that ``folder`` belongs to, and no link may lead out of.

    Raises:
        RunError: if one cannot be written; then all are as they were before.
    """
    parts: dict[Path, Path] = {}
    path = folder
    try:
        if inside is not None:
            check_inside(inside, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder / name for name in contents):
            content = contents[path.name]
            parts[path] = fresh_file(path)
            parts[path].write_bytes(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
            sync(parts[path])
        for path, part in parts.items():
            part.replace(path)
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot write {path}: {getattr(error, 'strerror', None) or error}. {_WRITABLE}") from error
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def check_name(folder: Path) -> None:
    """Refuse a folder for results whose name is not UTF-8, as the libraries that write weights do.

    Raises:
        RunError: for such a name.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise RunError(
            f"The name {str(folder)!r} is not UTF-8, so no weights can be written there. Pass another out=."
        ) from None


def below(root: Path, *names: str) -> Path:
    """Return a path below a folder.

    Raises:
        RunError: if a link leads out of the folder there.
    """
    place = root.joinpath(*names)
    try:
        check_inside(root, place)
    except OSError as error:
        raise RunError(f"Cannot write {place}: {error.strerror}.") from None
    return place


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before long work whose result it is for.

    Raises:
        RunError: if it cannot be.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh_file(path).unlink()
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}. {_WRITABLE}") from error


def append_text(path: Path, text: str) -> None:
    """Append to a UTF-8 text file.

    Raises:
        RunError: if it cannot be written.
    """
    try:
        check_replaceable(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}. {_WRITABLE}") from error


def in_use(path: Path, besides: Collection[str] = ()) -> bool:
    """Return True if a path is a file, or a folder with more than locks, half-written files, and names ``besides``."""
    if not path.is_dir():
        return path.is_file()
    return not all(is_part(p) or p.suffix == ".lock" or p.name in besides for p in path.iterdir())


def refuse_used(path: Path, what: str, besides: Collection[str] = ()) -> None:
    """Refuse a place for new files that is in use.

    Args:
        path: what ``out=`` names.
        what: is wrong with a folder that is in use, such as ``holds no run``.
        besides: names that it may have.

    Raises:
        UsageError: for a file.
        RunError: for a folder as :func:`in_use`.
    """
    _refuse_file(path)
    if in_use(path, besides):
        raise RunError(f"{path} is not empty and {what}. Pass another out=.")


def refuse_nonempty(path: Path) -> None:
    """Refuse a place for a new folder that is neither absent nor an empty folder.

    Raises:
        UsageError: for a file.
        RunError: for a folder with anything in it, locks too.
    """
    _refuse_file(path)
    if path.is_dir() and any(path.iterdir()):
        raise RunError(f"{path} is not empty. Pass a new folder as out=.")


def _refuse_file(path: Path) -> None:
    if path.is_file():
        raise UsageError(f"out={path} is a file. Expected a folder, which need not exist; pass another name.")


def portable_name(text: str) -> str:
    """Return a file name that every file system takes, different for different texts."""
    name = re.sub(r"[:,]", "-", text)
    if re.fullmatch(rf"[\w.=-]{{1,{_LONGEST_NAME}}}", name):
        return name
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]', '-', name)[: _LONGEST_NAME - 10]}-{digest}"


def digests(folder: Path, leave_out: Iterable[str] = ()) -> dict[str, str]:
    """Return the digest of every file below a folder by its relative path, without half-written files.

    Args:
        folder: to walk through.
        leave_out: file names to skip.
    """
    skipped = frozenset(leave_out)
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in skipped)
    return {str(path.relative_to(folder)): digest(path) for path in files if not is_part(path)}


def digest(path: Path) -> str:
    """Return the BLAKE2b digest of a file, as 32 hexadecimal digits."""
    state = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


class NoLocksError(OSError):
    """Raised on a file system without locks."""


def take_lock(path: Path, wait: float = 0) -> FileLock | None:
    """Lock a file between processes. It stays where it is once it is released.

    Args:
        path: of the file; made if it is absent.
        wait: seconds to wait for another holder.

    Returns:
        The lock, to be released; None if another process, or another holder in this one, has it.

    Raises:
        OSError: if the file cannot be made, or something else than a file has its name.
        NoLocksError: if its file system has no locks.
    """
    from filelock import FileLock, Timeout  # takes a moment, which commands without locks need not wait for

    check_replaceable(path)
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=wait, blocking=wait > 0)
    except Timeout:
        return None
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            raise NoLocksError(error.errno, error.strerror, str(path)) from error
        raise
    return lock
