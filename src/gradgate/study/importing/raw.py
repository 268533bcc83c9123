"""Hold results as a source has them: rows of named cells, with the place of each row for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from gradgate.study.importing.number_forms import read_number

PARTS = {
    **{name: name for name in ("arm", "score", "seed", "task", "model", "split", "step", "metric", "rows")},
    "train_size": "rows",
}
"""The columns that readers of known forms make, and the part that each is."""
MISSING_WORDS = frozenset({"", "nan", "none", "null", "n/a", "na", "-"})
UNNAMED = "column "
"""The name of a column that has none begins with it; its number follows."""

_SEED = re.compile(r"[-_. ]*seed[-_=. ]*(?P<seed>\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class RawTable:
    """The rows of one source.

    Attributes:
        source: the file's name, or ``data frame``.
        columns: the names of the columns, in order.
        rows: the cells of each row by column; a column may be absent from a row.
        form: what the source is, such as ``CSV`` or ``lm-evaluation-harness``.
        place: returns the place of a row in words, from its index.
        known: for sources whose columns have a fixed meaning, the part of each column, as
            :class:`gradgate.study.importing.columns.ColumnMapping` names it.
        left_out: rows that the reader left out: the reason, and how many.
        rejected: rows whose scores do not count, such as those of crashed runs: their index, and the reason.
        metrics: the metric that each task is compared on, for sources that say.
        higher: for sources that say, whether higher scores of a metric are better.
    """

    source: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    form: str
    place: Callable[[int], str] = field(compare=False)
    known: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    higher: Mapping[str, bool] = field(default_factory=dict)
    rejected: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of_scores(
        cls,
        source: str,
        rows: Sequence[Mapping[str, Any]],
        form: str,
        place: Callable[[int], str],
        rejected: Mapping[int, str] | None = None,
        metrics: Mapping[str, str] | None = None,
        higher: Mapping[str, bool] | None = None,
    ) -> RawTable:
        """Return the table of a form that is known: a row per score, with columns named as in ``PARTS``."""
        columns = columns_of(rows)
        known = {name: part for name, part in PARTS.items() if name in columns}
        return cls(source, columns, rows, form, place, known, {}, metrics or {}, higher or {}, rejected or {})

    def values(self, column: str) -> list[Any]:
        """Return the cells of a column that are not empty."""
        return [cell for row in self.rows if not is_missing(cell := row.get(column))]

    def words(self, column: str) -> list[str]:
        """Return the different values of a column as texts, in the order of their first row."""
        return list(dict.fromkeys(text_of(cell) for cell in self.values(column)))


def columns_of(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of all cells, in the order in which they are first met."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def is_missing(cell: object) -> bool:
    """Return True for an empty cell, whatever a program writes for one."""
    if cell is None:
        return True
    if isinstance(cell, float):
        return isnan(cell)
    return isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS


def number_of(cell: object) -> float | None:
    """Return a cell as a number, ``80.1%`` as 0.801; None if it is not one. ``inf`` is a number here."""
    if isinstance(cell, bool) or cell is None:
        return None
    return float(cell) if isinstance(cell, int | float) else read_number(str(cell))


def text_of(cell: object) -> str:
    """Return a cell as a text, a whole number without a point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).strip()


def run_parts(name: str, otherwise: str = "") -> dict[str, Any]:
    """Return the arm and the seed that a run's name has, as ``lora-seed3``; seed 0 if it names none.

    Args:
        name: of a run or its folder.
        otherwise: the arm of a name that has a seed alone.
    """
    found = _SEED.search(name)
    arm = _SEED.sub("", name).strip("-_ ")
    return {"arm": arm or otherwise or name, "seed": int(found["seed"]) if found else 0}
