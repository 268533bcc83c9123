"""Choose which of several texts goes with a premise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import CellType, Examples, Scored, TaskData, make_rows, tokenize_rows
from gradgate.tasks.kinds.labels import check_labels, named_labels
from gradgate.tasks.metrics.classes import accuracy
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, MultipleChoiceOptions

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

PROMPTS = {"cause": "What was the cause?", "effect": "What was the effect?"}
"""The questions after a premise, in English for every language, as in the code of scheduled unfreezing (FUN)."""


class MultipleChoice:
    """Multiple choice; ``label`` is the index into ``choices``, which has the same length in each row."""

    info = KIND_INFO["multiple-choice"]

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForMultipleChoice

        return AutoModelForMultipleChoice  # type: ignore[no-any-return]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read premises, with what is asked about them, and choices.

        Labels are the choices' numbers from 0, or what ``label_map`` makes such numbers.

        Raises:
            DataError: a cell that is not text, a question that is neither ``cause`` nor ``effect``, or a label that is
                not a choice.
        """
        options = _options(spec)
        tables, notes = sequence.scored_tables(spec, tables)
        numbers = [str(number) for number in range(len(options.choices))]
        named, spelled = named_labels(spec, tables, numbers)
        notes += spelled
        for split, table in tables.items():
            for row, name in enumerate(named[split]):
                if name not in numbers:
                    raise DataError(
                        f"{table.place(row)}: the label {name!r} is not a choice; the {len(numbers)} choices are "
                        f"{numbers[0]} to {numbers[-1]}. If the file names them differently, set `label_map: {{A: "
                        f"0, B: 1}}`"
                    )
        check_labels(spec, tables, named)
        types: dict[str, CellType] = {"premise": "string", "choices": ["string"], "label": options.choices}
        splits = {}
        for split, table in tables.items():
            premises, blank = _premises(spec, table, split)
            notes += blank
            choices = [sequence.text_cells(table, column, "`choices` of the task") for column in options.choices]
            columns: dict[str, list[Any]] = {
                "premise": premises,
                "choices": [list(row) for row in zip(*choices, strict=True)],
                "label": [int(name) for name in named[split]],
            }
            splits[split] = make_rows(columns, types)
        return Examples(splits, None, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        return 1

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Encode the premise with each of its choices per row, and ``labels``."""

        def tokenize(batch: dict[str, list[Any]]) -> dict[str, Any]:
            width = len(batch["choices"][0])
            premises = [premise for premise in batch["premise"] for _ in range(width)]
            choices = [choice for row in batch["choices"] for choice in row]
            features = tokenizer(premises, choices, truncation=True, max_length=max_length)
            grouped = {
                name: [cells[begin : begin + width] for begin in range(0, len(cells), width)]
                for name, cells in features.items()
            }
            return {**grouped, "labels": batch["label"]}

        return tokenize_rows(dataset, tokenize, batched=True)

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        sequence.check_padding(tokenizer)

        def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
            import torch

            labels = torch.tensor([row["labels"] for row in rows])
            width = len(rows[0]["input_ids"])
            names = [name for name in rows[0] if name != "labels"]
            flat = [{name: row[name][choice] for name in names} for row in rows for choice in range(width)]
            batch = {name: cells.view(len(rows), width, -1) for name, cells in sequence.pad(flat, tokenizer).items()}
            return {**batch, "labels": labels}

        return collate

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute ``accuracy`` of scores ``(rows, choices)``."""
        logits = sequence.logits_of(outputs)
        choices = len(_options(data.spec).choices)
        sequence.check_predictions(logits, len(rows), choices)
        predicted, gold = logits.argmax(axis=1), sequence.as_array(rows["label"])
        return Scored(
            {"accuracy": accuracy(predicted, gold)},
            sequence.class_predictions(logits, predicted, gold, range(choices)),
        )


def _options(spec: TaskSpec) -> MultipleChoiceOptions:
    assert isinstance(spec.options, MultipleChoiceOptions)
    return spec.options


def _premises(spec: TaskSpec, table: SourceTable, split: str) -> tuple[list[str], list[str]]:
    """Return each premise and, if the task has a question column, what is asked about it."""
    columns, notes = sequence.text_columns(spec, table, split)
    premises = [" ".join(parts) for parts in zip(*columns.values(), strict=True)]
    column = _options(spec).question
    if column is None:
        return premises, notes
    questions = table.column(column, "`question` of the task")
    for row, question in enumerate(questions):
        if question not in PROMPTS:
            raise DataError(
                f"{table.place(row)}: {column!r} is {question!r}, expected 'cause' or 'effect'; if the task has no "
                f"such column, set `question: null`"
            )
    return [f"{premise} {PROMPTS[asked]}" for premise, asked in zip(premises, questions, strict=True)], notes
