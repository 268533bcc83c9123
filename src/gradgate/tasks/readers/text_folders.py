"""Read folders of text files, one folder per class: ``pos/1.txt`` and ``neg/7.txt``."""

from __future__ import annotations

import re
from pathlib import Path

from gradgate.errors import DataError, counted, some_of
from gradgate.tasks.readers.decoding import decode
from gradgate.tasks.readers.rows import SourceTable

UNLABELLED = ("unsup", "unlabeled", "unlabelled")
"""Names of folders whose texts have no class, as in the film reviews of Maas et al. (2011)."""
_TEXTS = "*.[tT][xX][tT]"


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the entries of a folder in order, without hidden ones: macOS writes a ``._1.txt`` for each ``1.txt``."""
    found = folder.iterdir() if pattern == "*" else folder.glob(pattern)  # glob is silent on folders it may not read
    return sorted(path for path in found if not path.name.startswith("."))


def class_folders(folder: Path) -> list[Path]:
    """Return the folders that each hold the texts of one class; empty if the folder has none or only one."""
    if not folder.is_dir():
        return []
    found = [sub for sub in visible(folder) if sub.is_dir() and sub.name not in UNLABELLED and visible(sub, _TEXTS)]
    return found if len(found) > 1 else []


def read_folders(folder: Path, encoding: str | None = None, most: int | None = None) -> SourceTable:
    """Read the columns ``text`` and ``label``, one row per file, in the order of the files' names.

    Raises:
        DataError: fewer than two folders with text files, or a file that is not text.
    """
    classes = class_folders(folder)
    if not classes:
        raise DataError(
            f"{folder} has fewer than two folders with .txt files; expected one folder per class, as in pos/1.txt"
        )
    files = [(file, sub.name) for sub in classes for file in sorted(visible(sub, _TEXTS), key=_by_number)[:most]]
    notes: list[str] = []
    texts = []
    for file, _ in files:
        text, said = decode(file, encoding)
        texts.append(text.rstrip("\r\n"))
        notes += said[:1] if not notes else []
    left_out = [name for name in UNLABELLED if (folder / name).is_dir()]
    notes += [f"{folder.name}/{name} is left out: its texts have no class" for name in left_out]
    notes += [note for sub in classes if (note := _left_out(sub))]
    sources = [str(file) for file, _ in files]
    return SourceTable(
        str(folder),
        {"text": texts, "label": [name for _, name in files]},
        lines=[1] * len(files),
        sources=sources,
        notes=tuple(notes),
    )


def _left_out(folder: Path) -> str:
    """Return a note on what else is in the folder of a class; empty without anything."""
    others = sorted({path.name for path in visible(folder)} - {path.name for path in visible(folder, _TEXTS)})
    if not others:
        return ""
    inside, found = f"{folder.parent.name}/{folder.name}", counted(len(others), "other entry")
    return f"{inside} has {found} that no row is read from, as texts are .txt files: {some_of(others, 3)}"


def _by_number(file: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", file.name)]
