"""Find a column that names the split of each row of one file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, as_text
from gradgate.tasks.types import SPLIT_WORDS

NAMES = ("split", "set", "subset", "partition", "fold", "data_split", "dataset_split", "phase", "dataset")
"""Common names of the column, in lower case."""
_NEARLY_ALL = 0.9  # of the rows
_HELP = "Give each row train, dev or test, or rename the column if it should not count"


def find_split_column(table: SourceTable) -> tuple[str, dict[str, str]] | None:
    """Return the column, and our splits -> what the rows of each have in it; None without a column that has train.

    Raises:
        DataError: two names for one split, or a row without a split where nearly all have one.
    """
    for name, cells in table.columns.items():
        words = [as_text(cell) for cell in cells] if name.lower() in NAMES else []
        known = [word for word in dict.fromkeys(words) if word.lower() in SPLIT_WORDS]
        found = {SPLIT_WORDS[word.lower()]: word for word in known}
        if "train" not in found or len(known) < 2 or _share(words, known) < _NEARLY_ALL:
            continue
        if len(found) < len(known):
            raise DataError(
                f"{table.source}: {name!r} has {', '.join(map(repr, known))}, two of which mean the same split. {_HELP}"
            )
        row = next((row for row, word in enumerate(words) if word not in known), None)
        if row is not None:
            raise DataError(
                f"{table.place(row)}: {name!r} is {words[row]!r:.60}, but other rows have "
                f"{', '.join(map(repr, known))}. {_HELP}"
            )
        return name, found
    return None


def _share(words: Sequence[str], known: Sequence[Any]) -> float:
    return sum(word in known for word in words) / max(1, len(words))
