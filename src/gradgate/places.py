"""Read paths as people type them."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from gradgate.errors import UsageError


def typed_path(place: str | os.PathLike[str]) -> Path:
    """Return a typed path with ``~`` or ``~user`` at its start replaced by that home folder, as a shell does.

    Environment variables are not replaced.

    Raises:
        UsageError: as :func:`typed_place`.
    """
    return Path(typed_place(place))


def typed_place(place: str | os.PathLike[str]) -> str:
    """Return the text of a path, or of a name such as that of a model, with its home folder in place of ``~``.

    Raises:
        UsageError: if there is no such home folder, or no file can have that name.
    """
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"{place!r:.120} is of type {type(place).__name__}; expected a path as str or pathlib.Path.")
    if "\0" in text or not _is_encodable(text):
        raise UsageError(f"{text!r:.120} cannot be the name of a file: it has a character that no file name can have.")
    if not text.startswith("~"):
        return text
    try:
        return str(Path(text).expanduser())
    except RuntimeError:
        user = Path(text).parts[0]
        raise UsageError(
            f"The home folder {user!r} of {text!r:.120} is not known. Expected ~ for your own home folder, or ~name of "
            f"a user of this machine; write the whole path, or './{text:.120}' for a file with that name."
        ) from None


def short_name(place: str) -> str:
    """Return the last part of an absolute path, which does not depend on the machine; return other texts unchanged."""
    for kind in (PurePosixPath, PureWindowsPath):
        if kind(place).is_absolute():
            return kind(place).name or place
    return place


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
