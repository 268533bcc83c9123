"""Find a column that names the split of each row of one file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gradgate.errors import DataError, some_of
from gradgate.tasks.readers.rows import SourceTable, as_text
from gradgate.tasks.split_names import EXPECTED, by_split
from gradgate.tasks.types import TRAIN

NAMES = (
    "split", "set", "subset", "partition", "fold", "data_split", "dataset_split", "phase", "dataset", "usage",
)  # fmt: skip
"""Common names of the column, in lower case."""
_MARKS = (
    "is_test",
    "is_dev",
    "is_val",
    "is_valid",
    "is_validation",
    "is_eval",
    "is_holdout",
    "is_train",
    "is_training",
)
_HELP = f"Give each row {EXPECTED}, or remove it; if the column should not count, rename it or pass split=80/10/10"
_SHOWN = 6


def find_split_column(table: SourceTable, own: Collection[str] = ()) -> tuple[str, dict[str, str]] | None:
    """Return the column, and our splits -> what the rows of each have in it; None without a column that has train.

    Args:
        table: the rows of one file.
        own: columns that have another part in the task.

    Raises:
        DataError: two names for one split, a row without a split, or two columns that divide the rows differently.
    """
    faults, fit = [], {}
    for name, words in _named(table, own).items():
        found = by_split(words)
        if len(set(words)) < 2 or (TRAIN not in found and len(found) < 2):
            continue
        fault = _fault(table, name, words, found)
        if fault is not None:
            faults.append(fault)
        elif TRAIN in found:
            fit[name] = {split: word for split, (word,) in found.items()}
    if not fit and faults:
        raise DataError(faults[0])
    _agree(table, fit)
    return next(iter(fit.items()), None)


def unused_notes(table: SourceTable, own: Collection[str], why: str) -> list[str]:
    """Return a note on each column that names the splits of rows, of a file whose columns do not divide it.

    Args:
        table: the rows of train, as its file has them.
        own: columns that have another part in the task.
        why: the column does not count.
    """
    notes = []
    for name, words in _named(table, own).items():
        held_out = [word for split, own_words in by_split(words).items() if split != TRAIN for word in own_words]
        if held_out:
            rows = sum(word in held_out for word in words)
            shown = some_of(list(map(repr, held_out)), _SHOWN)
            notes.append(f"the column {name!r} is not used, and {rows:,} rows of train have {shown} there: {why}")
    return notes


def mark_notes(table: SourceTable, own: Collection[str]) -> list[str]:
    """Return a note on each column such as ``is_test`` of a file that is divided at random."""
    return [
        f"the column {name!r} is not used: to divide by it, name what rows have there in a task.yaml, as in "
        f"`formats: {{test: {{rows: {{{name}: VALUE}}}}}}`"
        for name, cells in table.columns.items()
        if name.lower() in _MARKS and name not in own and len({as_text(cell) for cell in cells}) > 1
    ]


def _named(table: SourceTable, own: Collection[str]) -> dict[str, list[str]]:
    """Return the cells, as words, of the columns whose name may be that of a column of splits."""
    return {
        name: [as_text(cell) for cell in cells]
        for name, cells in table.columns.items()
        if name.lower() in NAMES and name not in own
    }


def _fault(table: SourceTable, name: str, words: Sequence[str], found: dict[str, list[str]]) -> str | None:
    known = [word for own in found.values() for word in own]
    shown = some_of(list(map(repr, known)), _SHOWN)
    if len(found) < len(known):
        return f"{table.source}: {name!r} has {shown}, two of which mean the same split. {_HELP}"
    row = next((row for row, word in enumerate(words) if word not in known), None)
    if row is None:
        return None
    odd = f"{name!r} is {words[row]!r:.60}, which names no split, but other rows have {shown}"
    return f"{table.place(row)}: {odd}. {_HELP}"


def _agree(table: SourceTable, fit: dict[str, dict[str, str]]) -> None:
    """Raise DataError unless all columns put each row into the same split."""
    splits = {
        name: [{word: split for split, word in found.items()}[as_text(cell)] for cell in table.columns[name]]
        for name, found in fit.items()
    }
    for first, *others in [list(splits)] if splits else []:
        for other in others:
            pairs = enumerate(zip(splits[first], splits[other], strict=True))
            row = next((row for row, (one, another) in pairs if one != another), None)
            if row is not None:
                raise DataError(
                    f"{table.place(row)} is {splits[first][row]} by its column {first!r}, but {splits[other][row]} by "
                    f"{other!r}. Rename the column that should not count"
                )
