"""Read paths as people type them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath, PureWindowsPath

from gradgate.errors import UsageError

_MODES = ("auto", "off")
_SWITCHES = ("on", "yes", "true", "no", "false", "none")
_ALIKE = 0.75
"""How alike a word and a mode are, by difflib, if it was meant: ``atuo`` is like ``auto``, a folder ``out`` is not."""


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


def check_folder(name: str, text: str, modes: Sequence[str] = ()) -> None:
    """Refuse a word that is meant as a mode and would become the name of a folder, such as ``on`` or ``atuo``.

    What has a separator is a path, and what is there already is a folder.

    Args:
        name: of the setting.
        modes: words that the setting takes in place of a folder.

    Raises:
        UsageError: for such a word.
    """
    if text in modes or {"/", os.sep} & set(text) or Path(text).exists():
        return
    if text.lower() in _SWITCHES or get_close_matches(text.lower(), _MODES, cutoff=_ALIKE):
        expected = " or ".join((*modes, "a folder"))
        raise UsageError(f"{name}={text!r}: expected {expected}; write './{text}' for a folder of that name.")


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
