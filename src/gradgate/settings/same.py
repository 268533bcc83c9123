"""Compare settings with those of an existing run or study: other words for the same files are the same settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gradgate.errors import UsageError
from gradgate.files import digest, digests
from gradgate.places import typed_place
from gradgate.settings.forgetting import read_forgetting
from gradgate.settings.identity import NOT_IN_IDENTITY

_PLACES = ("model", "task", "data", "train_file", "dev_file", "test_file", "language_adapters", "language_data")
_OF_FILES = ("plan:", "axolotl:")  # methods that a file describes


def differing(there: Mapping[str, Any], here: Mapping[str, Any], near: Path) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ, each as it is there and here.

    Files and folders are equal if they are the same place, or have the same content.

    Args:
        there: of the existing run or study.
        here: that were passed.
        near: the folder of that run or study; relative paths there may begin in a folder above it.
    """
    return {
        name: (there.get(name), here[name])
        for name in here
        if name not in NOT_IN_IDENTITY and not _is_same(name, there.get(name), here[name], near)
    }


def worded_as(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the places of a record that are written otherwise here, where they can be found from here as well.

    Runs are distinguished by their settings as text, so a study continues with the words that it was started with.
    """
    found = {}
    for name in _PLACES:
        text = there.get(name)
        if isinstance(text, str) and isinstance(here.get(name), str) and text != here[name] and Path(text).exists():
            found[name] = text
    return found


def _is_same(name: str, there: Any, here: Any, near: Path) -> bool:
    if there == here:
        return True
    if not (isinstance(there, str) and isinstance(here, str)):
        return False
    try:
        if name in _PLACES:
            return same_place(there, here, near)
        if name == "method":
            prefix = next((each for each in _OF_FILES if there.startswith(each) and here.startswith(each)), None)
            return prefix is not None and same_place(there.removeprefix(prefix), here.removeprefix(prefix), near)
        return name == "forgetting" and _is_same_forgetting(there, here, near)
    except (OSError, ValueError):
        return False


def _is_same_forgetting(there: str, here: str, near: Path) -> bool:
    one, other = read_forgetting(there), read_forgetting(here)
    return one.options == other.options and same_place(one.place, other.place, near)


def same_place(there: str, here: str, near: Path) -> bool:
    """Return True if two texts name one file or folder, or two with the same content.

    Args:
        there: in a record, which may have been written from another folder.
        here: as it was passed.
        near: the folder of the record.
    """
    try:
        place = Path(typed_place(here))
        recorded = Path(typed_place(there))
    except UsageError:
        return False
    if place.absolute() == recorded.absolute():
        return True
    return place.exists() and any(_has_same_content(each, place) for each in _found(recorded, near))


def _found(recorded: Path, near: Path) -> Iterator[Path]:
    """Yield what a recorded path may be: from this folder, and from those above the record."""
    starts = [Path(), *near.absolute().parents]
    yield from (start / recorded for start in starts if (start / recorded).exists())


def _has_same_content(one: Path, other: Path) -> bool:
    if one.samefile(other):
        return True
    if one.is_dir() and other.is_dir():
        return _sizes(one) == _sizes(other) and digests(one) == digests(other)
    return (
        one.is_file()
        and other.is_file()
        and one.suffix == other.suffix
        and one.stat().st_size == other.stat().st_size
        and digest(one) == digest(other)
    )


def _sizes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
