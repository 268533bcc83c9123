"""Find the part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError
from gradgate.tasks.kinds import spans, windows
from gradgate.tasks.kinds.base import Examples, Scored, TaskData, make_rows
from gradgate.tasks.metrics.answers import score_answers
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, QuestionAnsweringOptions

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

_SHOWN = 5
"""Number of a question's best answers in a prediction file."""


class QuestionAnswering:
    """Extractive question answering: ``answers`` are parts of ``context``, which begin at the characters ``starts``.

    A context that is longer than the model's input is split into windows that overlap; the best answer of all windows
    is the prediction. If train has questions without an answer, the prediction may be that there is none.
    """

    info = KIND_INFO["question-answering"]

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForQuestionAnswering

        return AutoModelForQuestionAnswering  # type: ignore[no-any-return]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read questions with their contexts and answers.

        Raises:
            DataError: a question or context that is not text, or an answer that is not at its stated position.
        """
        if len(spec.text_columns) != 2:
            raise DataError(f"{spec.name}: {self.info.name} needs two text columns, `text: [question, context]`")
        if spec.label_map is not None:
            raise DataError(
                f"{spec.name}: label_map names classes, but the kind is {self.info.name}; remove one of them"
            )
        splits, notes = {}, []
        in_train = tables["train"].columns.get(spec.label_column, ()) if "train" in tables else (None,)
        always = all(map(_has_answer, in_train))
        for split, table in tables.items():
            if split not in ("train", "dev") and _unanswered(table, spec.label_column, always):
                notes.append(f"{split} is unlabelled and not scored ({table.source})")
                continue
            splits[split] = _rows(spec, table)
        if "train" in tables and not any(splits["train"]["answers"][:]):
            raise DataError(
                f"No question of {tables['train'].source} has an answer; expected at least one. Pass the column "
                f"of answers with label=."
            )
        return Examples(splits, None, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        return 2

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {"num_labels": 2}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Encode windows with ``start_positions`` and ``end_positions``, and what is needed to find answers in them."""
        return windows.encode(dataset, tokenizer, max_length)

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return windows.WindowCollator(tokenizer)

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute ``f1`` and ``exact_match`` of start and end logits, both ``(windows, sub-words)``."""
        options = data.spec.options
        assert isinstance(options, QuestionAnsweringOptions)
        threshold = options.no_answer_threshold if _may_lack_answers(data) else None
        found = spans.best_answers(rows["context"][:], features, outputs)
        answers = [answer.chosen(threshold) for answer in found]
        gold = rows["answers"][:]
        scores = score_answers(
            answers, gold, normalization=options.normalization, language=data.spec.language_of(split)
        )
        predictions = []
        for name, true, text, answer in zip(rows["id"][:], gold, answers, found, strict=True):
            row = {"id": name, "gold": true, "predicted": text, "best": answer.record(_SHOWN)}
            if threshold is not None:
                row["no_answer_score"] = round(answer.nothing, 6)
            predictions.append(row)
        return Scored(scores, predictions)


def _unanswered(table: SourceTable, column: str, always: bool) -> bool:
    """Return True for a split without labels; if questions ``always`` have an answer, empty answers are not labels."""
    cells = table.columns.get(column, ())
    return not any(_has_answer(cell) if always else cell is not MISSING and cell is not None for cell in cells)


def _has_answer(cell: Any) -> bool:
    return cell is not MISSING and bool(cell.get("text") if isinstance(cell, Mapping) else cell)


def _may_lack_answers(data: TaskData) -> bool:
    """Return True if train, or without train a test split, has a question without an answer."""
    if data.may_lack_answers is not None:
        return data.may_lack_answers
    splits = [data.train] if len(data.train) else list(data.tests.values())
    return not all(answers for rows in splits for answers in rows["answers"][:])


def _rows(spec: TaskSpec, table: SourceTable) -> Dataset:
    question, context = (
        table.column(name, parameter)
        for name, parameter in zip(spec.text_columns, ("text=", "text_pair="), strict=True)
    )
    given = table.columns.get("id", [None] * len(table))
    names = [row if name is None or name is MISSING else name for row, name in enumerate(given)]
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "question", "context", "answers", "starts")}
    for row, cell in enumerate(table.column(spec.label_column, "label=")):
        for name, text in zip(spec.text_columns, (question[row], context[row]), strict=True):
            if not isinstance(text, str) or not text.strip():
                raise DataError(
                    f"{table.place(row)}: {name!r} is not text but {text!r:.80}. Correct it or remove the row"
                )
        texts, starts = _answers(cell, context[row], f"{table.place(row)} (question {names[row]!r})")
        values = (str(names[row]), question[row], context[row], texts, starts)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return make_rows(columns, {**dict.fromkeys(columns, "string"), "answers": ["string"], "starts": ["int32"]})


def _answers(cell: Any, context: str, place: str) -> tuple[list[str], list[int]]:
    """Return texts and starts, from a list of answers or, as on the hub, one mapping of lists."""
    if isinstance(cell, Mapping):
        texts, starts = cell.get("text"), cell.get("answer_start")
    elif isinstance(cell, Sequence) and all(isinstance(answer, Mapping) for answer in cell):
        texts, starts = [answer.get("text") for answer in cell], [answer.get("answer_start") for answer in cell]
    else:
        texts = starts = None
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise DataError(f"{place}: expected answers as [{{'text': ..., 'answer_start': ...}}], found {cell!r:.80}")
    for text, start in zip(texts, starts, strict=True):
        if not isinstance(text, str) or not isinstance(start, int):
            raise DataError(
                f"{place}: the answer {text!r:.80} begins at {start!r}; expected text and a whole number from 0"
            )
        if not text or start < 0 or context[start : start + len(text)] != text:
            raise DataError(
                f"{place}: the answer {text!r} is not at character {start} of its context, which has "
                f"{context[max(0, start) : max(0, start) + max(1, len(text))]!r} there. Expected answer_start "
                "to count Unicode characters from 0"
            )
    return texts, starts
