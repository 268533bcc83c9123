"""Recognise annotators' decisions on the labels of rows, as Prodigy and Argilla store them."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, as_text


@dataclass(frozen=True)
class _Decisions:
    """The words of a column of decisions.

    Attributes:
        kept: of rows whose label is right.
        others: of all other rows.
        telling: of which one shows that a column has decisions.
        beside: columns that decisions are on.
    """

    kept: frozenset[str]
    others: frozenset[str]
    telling: frozenset[str]
    beside: frozenset[str]


_DECISIONS = {
    "answer": _Decisions(
        frozenset({"accept"}),
        frozenset({"reject", "ignore"}),
        frozenset({"reject", "ignore"}),
        frozenset({"label", "spans", "accept"}),
    ),
    "status": _Decisions(
        frozenset({"validated", "submitted", "completed", "edited"}),
        frozenset({"discarded", "default", "draft", "pending"}),
        frozenset({"discarded"}),
        frozenset({"label", "labels", "annotation"}),
    ),
}


def refuse_rejected(table: SourceTable, label: str | None) -> None:
    """Refuse rows that annotators did not accept, whose labels would be learned as right ones.

    Args:
        table: as it was read.
        label: the task's column; a column of decisions may be it. None if it is not known yet.

    Raises:
        DataError: such rows, with the place of the first.
    """
    for column, known in _DECISIONS.items():
        if column == label or column not in table.columns or not known.beside & set(table.columns):
            continue
        cells = [as_text(cell) for cell in table.columns[column]]
        words = [cell.lower() for cell in cells]
        if not known.telling & set(words) or not set(words) <= known.kept | known.others | {""}:
            continue
        others = [row for row, word in enumerate(words) if word in known.others]
        kept = next((cell for cell, word in zip(cells, words, strict=True) if word in known.kept), min(known.kept))
        raise DataError(
            f"{table.place(others[0])}: {column!r} is {cells[others[0]]!r}, and {len(others):,} of {len(cells):,} "
            f"rows were not accepted, so that their labels are not right. Keep the rows with {column} {kept}: by "
            f"`format: {{rows: {{{column}: {kept}}}}}` in a task.yaml, or in another file, as with "
            f"`jq -c 'select(.{column} == \"{kept}\")'` for JSON lines"
        )
