"""Share what the kinds with one output per text, or per pair of texts, have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import DataError, NonFiniteError, RunError
from gradgate.tasks.kinds.base import tokenize_rows
from gradgate.tasks.readers.rows import SourceTable, as_text, check_characters
from gradgate.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase

Array = np.ndarray[Any, Any]
_NO_LABEL = ("", "-1", "-1.0")
"""Cells in the label column of an unlabelled split; the hub writes -1."""
NO_TEST = "no labelled test split: only dev is scored"
"""The note of a task that is scored only on dev."""


def scored_tables(spec: TaskSpec, tables: dict[str, SourceTable]) -> tuple[dict[str, SourceTable], list[str]]:
    """Return every split that has labels, and a note for each test split that has none and is left out.

    A test split is unlabelled if it lacks the label column or if every cell of it is empty or -1, unless -1 is a
    label in train.

    Raises:
        DataError: for a test split whose label column has another spelling, such as ``Label`` or ``labels``.
    """
    column = spec.label_column
    in_train = {as_text(cell) for cell in tables["train"].columns.get(column, ())} if "train" in tables else set()
    kept, notes = {}, []
    for split, table in tables.items():
        if column not in table.columns and any(_spelling(name) == _spelling(column) for name in table.columns):
            table.column(column, "label=")  # which names the other one
        cells = table.columns.get(column)
        unlabelled = cells is None or all(as_text(c) in _NO_LABEL and as_text(c) not in in_train for c in cells)
        if unlabelled and split not in ("train", "dev"):
            notes.append(f"{split} is unlabelled and not scored ({table.source})")
        else:
            kept[split] = table
    if not set(kept) - {"train", "dev"}:
        notes.append(NO_TEST)
    return kept, notes


def _spelling(name: str) -> str:
    """Return a column's name without what differs between spellings: case, spaces around it, a plural's ending."""
    return name.strip().lower().removesuffix("s")


def text_columns(spec: TaskSpec, table: SourceTable, split: str) -> tuple[dict[str, Sequence[str]], list[str]]:
    """Return the columns ``text`` and, for pairs, ``text_pair``; cells are exactly as in the source.

    Of three columns, the last two make one text with a space between, as XGLUE joins titles and descriptions. A blank
    text is kept, so that row counts stay those of the data set, and a note says where the first one is.

    Raises:
        DataError: a missing column or cell, or a cell that is not text.
    """
    parameters = ("text=", "text_pair=", "text_pair=")
    columns = [table.column(name, parameter) for name, parameter in zip(spec.text_columns, parameters, strict=False)]
    notes = []
    for name, cells in zip(spec.text_columns, columns, strict=True):
        blank = [row for row, cell in enumerate(cells) if is_blank(cell, table, row, name)]
        if blank:
            notes.append(f"{split}: {len(blank)} blank {name!r} kept, the first at {table.place(blank[0])}")
    joint = spec.format_of(split).join if spec.folder is not None else None
    if joint is not None:
        columns = [[joint.join(cells) for cells in zip(*columns, strict=True)]]
    elif len(columns) == 3:
        columns = [columns[0], [" ".join(cells) for cells in zip(*columns[1:], strict=True)]]
    return dict(zip(("text", "text_pair"), columns, strict=False)), notes


def text_cells(table: SourceTable, column: str, parameter: str) -> Sequence[str]:
    """Return the cells of a column, none of them blank; raise DataError for a cell that is not text."""
    cells = table.column(column, parameter)
    for row, cell in enumerate(cells):
        if is_blank(cell, table, row, column):
            raise DataError(f"{table.place(row)}: {column!r} is blank; expected text. Add it or remove the row")
    return cells


def is_blank(cell: Any, table: SourceTable, row: int, name: str) -> bool:
    """Return True if a cell has no letters; raise DataError if it is not text."""
    if not isinstance(cell, str):
        raise DataError(
            f"{table.place(row)}: {name!r} is not text but {type(cell).__name__} ({cell!r:.80}). Pass another "
            f"column or correct it"
        )
    check_characters(cell, repr(name), lambda: table.place(row))
    if "\0" in cell:
        raise DataError(f"{table.place(row)}: {name!r} contains a null character; remove it")
    return not cell.strip()


def encode(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None,
    as_labels: str | Callable[[list[Any]], Array],
) -> Dataset:
    """Return the tokenizer's features, truncated to ``max_length`` (pairs: the longer text first), and ``labels``.

    ``as_labels`` is the type of the labels, or returns them for some rows.
    """
    pair = "text_pair" in dataset.column_names

    def labels(cells: list[Any]) -> Array:
        return np.asarray(cells, dtype=as_labels) if isinstance(as_labels, str) else as_labels(cells)

    def tokenize(batch: dict[str, list[Any]]) -> dict[str, Any]:
        texts = (batch["text"], batch["text_pair"]) if pair else (batch["text"],)
        features = tokenizer(*texts, truncation=True, max_length=max_length)
        return {**features, "labels": labels(batch["label"])}

    return tokenize_rows(dataset, tokenize, batched=True)


def collator(tokenizer: PreTrainedTokenizerBase) -> DataCollatorWithPadding:
    """Return a collator that pads each batch to its longest row.

    Raises:
        RunError: the tokenizer has no padding token.
    """
    from transformers import DataCollatorWithPadding

    check_padding(tokenizer)
    return DataCollatorWithPadding(tokenizer)


def pad(features: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """Pad a batch at its end, whichever side the tokenizer pads: outputs are read by position.

    Raises:
        RunError: the tokenizer has no padding token.
    """
    check_padding(tokenizer)
    return dict(tokenizer.pad(features, padding_side="right", return_tensors="pt"))


def check_padding(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise RunError for a tokenizer without a padding token."""
    if tokenizer.pad_token is None:
        raise RunError(
            f"The tokenizer {tokenizer.name_or_path or type(tokenizer).__name__} has no padding token. Set "
            "tokenizer.pad_token (often to tokenizer.eos_token) and model.config.pad_token_id before training"
        )


def logits_of(outputs: Any) -> Array:
    """Return the logits among a model's outputs; some models return further tensors after them."""
    return np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)


def as_array(column: Any) -> Array:
    """Convert a column of numbers to an array."""
    return np.asarray(column[:])


def check_predictions(predictions: Array, rows: int, width: int) -> None:
    """Refuse outputs that cannot be scored: another shape than ``(rows, width)``, or not finite."""
    if predictions.shape != (rows, width):
        raise DataError(
            f"The model returned outputs of shape {predictions.shape}, expected {(rows, width)}: "
            "is its head the one that this task needs?"
        )
    bad = np.flatnonzero(~np.isfinite(predictions).all(axis=1))
    if len(bad):
        raise NonFiniteError(
            f"The model's outputs for {len(bad)} of {rows} rows are not finite (row {bad[0]}); expected finite "
            f"numbers for each"
        )


def softmax(logits: Array) -> Array:
    """Compute probabilities in double precision; shape ``(rows, classes)``."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(logits: Array) -> Array:
    """Compute the probability of each label by itself in double precision; shape ``(rows, labels)``."""
    return np.asarray(1 / (1 + np.exp(-logits.astype(np.float64))))


def class_predictions(logits: Array, predicted: Array, gold: Array, labels: Sequence[Any]) -> list[dict[str, Any]]:
    """Build the rows of a prediction file, with label names and the probability of the predicted label."""
    sure = softmax(logits)[np.arange(len(predicted)), predicted]
    return [
        {"index": index, "gold": labels[true], "predicted": labels[found], "probability": round(share, 6)}
        for index, (true, found, share) in enumerate(zip(gold.tolist(), predicted.tolist(), sure.tolist(), strict=True))
    ]
