"""Find the rows of a table that summarize others, such as a mean over seeds, which are not runs."""

from __future__ import annotations

import re

from gradgate.study.importing.columns import ColumnMapping
from gradgate.study.importing.raw import RawTable, is_missing, text_of

_WORDS = frozenset(
    {"mean", "average", "avg", "median", "total", "sum", "overall", "std", "sd", "stdev", "std dev", "stderr", "se",
     "min", "max", "best", "count"}
)  # fmt: skip


def summary_rows(table: RawTable, mapping: ColumnMapping) -> dict[int, str]:
    """Return the rows that summarize runs, by index, each with the reason to leave it out.

    Such a row has a word like ``mean`` for its seed where others have a number, or for its arm and no seed.
    """
    if not any(re.search(r"\d", text_of(cell)) for column in mapping.seed for cell in table.values(column)):
        return {}
    found = {}
    for index, row in enumerate(table.rows):
        seeds = [text_of(row[column]) for column in mapping.seed if not is_missing(row.get(column))]
        arms = [] if seeds else [text_of(row[column]) for column in mapping.arm if not is_missing(row.get(column))]
        word = next((word for word in (*seeds, *arms) if word.lower() in _WORDS), None)
        if word is not None:
            found[index] = f"{word} summarizes other rows"
    return found
