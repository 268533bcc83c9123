"""Count the training rows that are longer than ``max_length``: the model never reads the ends of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import Dataset

from gradgate.runs.records import TRAIN
from gradgate.tasks import Kind

MOST = 1_000
"""Rows that are counted, from the first on: to encode all rows of a large split twice would take minutes."""
_NO_LIMIT = 1_000_000


def truncation_notes(
    rows: Dataset, lengths: Callable[[Dataset], list[int]], tokenizer: Any, max_length: int
) -> tuple[str, ...]:
    """Return a message about training rows that are truncated, if there are any.

    Args:
        lengths: returns the number of tokens of each row.
    """
    counted = rows.select(range(min(len(rows), MOST)))
    longer = [length for length in lengths(counted) if length > max_length]
    if not longer:
        return ()
    longest, is_part = max(longer), len(counted) < len(rows)
    which = f"{'the first ' if is_part else ''}{len(counted):,}"
    keeps = f"max_length={longest} keeps {'these' if is_part else 'all'}"
    if longest > tokenizer.model_max_length:
        keeps = f"the model reads {tokenizer.model_max_length:,} at most"
    return (
        f"{TRAIN}: max_length={max_length} truncates {len(longer):,} of {which} rows; the longest has {longest:,} "
        f"tokens; {keeps}",
    )


def token_counts(rows: Dataset, kind: Kind, tokenizer: Any) -> list[int]:
    """Return the number of tokens of each row, or of its longest choice; none for a kind that divides long rows."""
    if "row" in kind.encode(rows.select(range(min(len(rows), 1))), tokenizer, _NO_LIMIT).column_names:
        return []
    features = kind.encode(rows, tokenizer, _NO_LIMIT)
    return [max(map(len, ids)) if ids and isinstance(ids[0], list) else len(ids) for ids in features["input_ids"][:]]
