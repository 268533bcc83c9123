"""Predict one number for a text or a pair of texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import Examples, Scored, TaskData, make_rows
from gradgate.tasks.metrics.numbers import score_numbers
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

_LARGEST = 1e18  # its square is still a number of float32


class Regression:
    """Text regression; ``label`` is the score, unscaled."""

    info = KIND_INFO["regression"]

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification  # type: ignore[no-any-return]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read rows with their scores.

        Raises:
            DataError: a score that is not a finite number, or a train split with only one score.
        """
        if spec.label_map is not None:
            raise DataError(f"{spec.name}: label_map names classes, but the kind is regression; remove one of them")
        tables, notes = sequence.scored_tables(spec, tables)
        splits = {}
        for split, table in tables.items():
            columns, blank = sequence.text_columns(spec, table, split)
            notes += blank
            cells = table.column(spec.label_column, "label=")
            scores = [_score(cell, table, row) for row, cell in enumerate(cells)]
            if split == "train" and len(set(scores)) < 2:
                raise DataError(
                    f"Every row of {table.source} has the score {scores[0]}; expected at least two scores. Pass the "
                    f"column of scores with label=."
                )
            types = {**dict.fromkeys(columns, "string"), "label": "float64"}
            splits[split] = make_rows({**columns, "label": scores}, types)
        return Examples(splits, None, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        return 1

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {"num_labels": 1, "problem_type": "regression"}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        return sequence.encode(dataset, tokenizer, max_length, "float32")

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every regression metric of outputs ``(rows, 1)`` or ``(rows,)``."""
        found = sequence.logits_of(outputs)
        column = found.reshape(-1, 1) if found.ndim == 1 else found
        sequence.check_predictions(column, len(rows), 1)
        predicted, gold = column[:, 0], sequence.as_array(rows["label"])
        return Scored(
            score_numbers(predicted, gold),
            [
                {"index": index, "gold": true, "predicted": value}
                for index, (true, value) in enumerate(zip(gold.tolist(), predicted.tolist(), strict=True))
            ],
        )


def _score(cell: Any, table: SourceTable, row: int) -> float:
    try:
        if isinstance(cell, bool) or "_" in str(cell):  # float() would accept both
            raise ValueError
        score = float(cell)
    except (TypeError, ValueError):
        raise DataError(
            f"{table.place(row)}: the score {cell!r} is not a number; expected one such as 3.5. Correct it or "
            f"pass another label="
        ) from None
    if not math.isfinite(score):
        raise DataError(
            f"{table.place(row)}: the score {cell!r} is not finite; expected a number such as 3.5. Correct it or "
            f"remove the row"
        )
    if abs(score) > _LARGEST:
        raise DataError(
            f"{table.place(row)}: the score {cell!r} is too large, as its square overflows float32 (expected "
            f"-{_LARGEST:g} "
            f"to {_LARGEST:g}). Correct or rescale the scores."
        )
    return score
