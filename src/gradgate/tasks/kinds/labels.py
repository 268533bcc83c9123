"""Handle the labels of a task: names, order, labels missing in train, and a model head for one label per row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unicodedata import category

from gradgate.errors import DataError, nearest, some_of
from gradgate.tasks.class_counts import OTHER_LABEL, in_numbers, looks_like_ids
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import TaskData
from gradgate.tasks.readers.rows import SourceTable, as_text
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.spelling import Spelling
from gradgate.tasks.types import TRAIN

_JOINERS = ("\u200c", "\u200d")
_SHOWN = 5  # spellings in a note

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

_MOST_DIGITS = 18  # of labels that are in the order of numbers


def labels_of(data: TaskData) -> tuple[str, ...]:
    """Return the labels of a task that has some."""
    assert data.labels is not None
    return data.labels


def head_of(labels: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a model with one output per label."""
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def label_word(cell: Any, place: str) -> str:
    """Return the text of a label cell.

    Raises:
        DataError: not a text or number, an empty one, or one with a control character or another invisible one, except
            blanks and the two joiners that Persian, Indic scripts and emoji need.
    """
    if not isinstance(cell, (str, bool, int, float)):
        raise DataError(f"{place}: the label is {_what(cell)}")
    if isinstance(cell, float) and not math.isfinite(cell):
        raise DataError(
            f"{place}: the label is {cell}, which stands for a missing number; expected text or a number. Correct "
            "it or remove the row"
        )
    raw = as_text(cell)
    if not raw:
        raise DataError(f"{place}: the label is empty; expected text or a number. Add it or remove the row")
    hidden = next((each for each in raw if not (each.isprintable() or each in _JOINERS or category(each) == "Zs")), "")
    if hidden:
        raise DataError(
            f"{place}: the label {raw!r:.80} contains U+{ord(hidden):04X}, which cannot be seen; expected a word. "
            "Correct the label"
        )
    return raw


def _what(cell: Any) -> str:
    """Say what stands for a label that is neither text nor a number, and which kind of task has such labels."""
    first = cell[0] if isinstance(cell, list) and cell else cell
    if isinstance(first, dict) and {"start", "begin", "start_offset"} & set(first):
        return (
            f"a span of the text ({cell!r:.80}). Provide tokens and tags (B-PER, I-PER, O) with "
            f"kind='token-classification', or answers with kind='question-answering'"
        )
    if isinstance(cell, list) and not isinstance(first, (list, dict)):
        return (
            f"a list ({cell!r:.80}); expected text or a number. Pass kind='multi-label' for several labels per row, "
            f"or kind='token-classification' for one tag per token"
        )
    part = (
        next((name for name, value in cell.items() if isinstance(value, str)), None) if isinstance(cell, dict) else None
    )
    path = f", or a part of this one by its path, which ends in '.{part}'" if part else ""
    return f"{type(cell).__name__} ({cell!r:.80}); expected text or a number. Name another column with label={path}"


@dataclass(frozen=True)
class LabelNames:
    """The meaning of the words in the label column: one name per label, however it is spelled.

    Attributes:
        map: the task's ``label_map``; None if labels have the names that the data give them.
        spelling: of the labels of train, or of the map.
    """

    map: Mapping[str, str] | None
    spelling: Spelling

    @classmethod
    def of(cls, spec: TaskSpec, words: Iterable[str]) -> LabelNames:
        """Return the names of a task whose train split has these words."""
        if spec.label_map is None:
            return cls(None, Spelling.of(words))
        return cls(spec.label_map, Spelling.of([*spec.label_map, *spec.label_map.values()]))

    def name(self, word: str, place: str) -> str:
        """Return the label that a word means; raise DataError for one that the map does not have."""
        if self.map is None:
            return self.spelling.name(word)
        found = word if word in self.map or word in self.map.values() else self.spelling.name(word)
        if found in self.map:
            return self.map[found]
        if found in self.map.values():
            return found
        known = dict.fromkeys([*self.map, *self.map.values()])
        if all(raw == name for raw, name in self.map.items()):
            raise DataError(
                f"{place}: {word!r} is not one of the labels, which are {listed(known)}.{nearest(word, known)} Correct "
                "the label, or name another column with label="
            )
        raise DataError(
            f"{place}: {word!r} is not in label_map, which has {listed(known)}. Correct the label or label_map"
        )


def named_labels(
    spec: TaskSpec, tables: Mapping[str, SourceTable], expected: Iterable[str] = ()
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the label of each row by split, and notes on labels that are spelled in several ways.

    Args:
        spec: the task.
        tables: its splits that have labels.
        expected: labels whose spelling counts, whatever that of the data is.

    Raises:
        DataError: a cell that is not a label, or one that ``label_map`` does not have.
    """
    words: dict[str, list[str]] = {}
    for split, table in tables.items():
        cells = table.column(spec.label_column, "label=")
        words[split] = _by_value(cells, table, label_word)
    names = LabelNames.of(spec, [*words.get(TRAIN, ()), *expected])
    named = {split: _by_value(own, tables[split], names.name) for split, own in words.items()}
    return named, spelling_notes(spec, names, (word for own in words.values() for word in own))


def _by_value(cells: Sequence[Any], table: SourceTable, read: Callable[[Any, str], str]) -> list[str]:
    """Return what ``read`` makes of each cell and its place; of equal cells, only the first is read."""
    found: dict[tuple[type, Any], str] = {}
    made = []
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | bool | int):
            made.append(read(cell, table.place(row)))
            continue
        key = (cell.__class__, cell)
        if key not in found:
            found[key] = read(cell, table.place(row))
        made.append(found[key])
    return made


def spelling_notes(spec: TaskSpec, names: LabelNames, words: Iterable[str]) -> list[str]:
    """Return a note on labels that have several spellings in the data."""
    if names.map is not None:
        return []
    other = {word: name for word in sorted(set(words)) if (name := names.spelling.name(word)) != word}
    shown = ", ".join(f"{word!r} is {name!r}" for word, name in list(other.items())[:_SHOWN])
    return [f"labels spelled in several ways count as one label: {shown}"] if other else []


def label_order(spec: TaskSpec, in_train: Iterable[str]) -> tuple[str, ...]:
    """Order labels as in ``label_map``; else by number if every label is a whole number, else by code point."""
    if spec.label_map is not None:
        return tuple(dict.fromkeys(spec.label_map.values()))
    labels = set(in_train)
    if all(label.removeprefix("-").isdecimal() and len(label) <= _MOST_DIGITS for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def known_labels(spec: TaskSpec, named: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the labels of train; without it, when a trained model is scored, those that ``label_map`` names."""
    return set(named["train"]) if "train" in named else set((spec.label_map or {}).values())


def unknown_label(split: str, name: str, place: str, known: Iterable[str]) -> DataError:
    """Build the error for a label that train does not have."""
    known = sorted(known)
    return DataError(
        f"{place}: the {split} split has the label {name!r}, which train does not have; train's labels are "
        f"{listed(known)}.{nearest(name, known)} Correct the label, remove the row, or add such rows to train"
    )


def check_labels(spec: TaskSpec, tables: Mapping[str, SourceTable], named: Mapping[str, Sequence[str]]) -> None:
    """Refuse a train split with only one label, and labels of other splits that train does not have."""
    known = known_labels(spec, named)
    if not known and "train" not in named:
        return
    if len(known) < 2:
        raise DataError(
            f"Every row of {tables['train'].source} has the label {named['train'][0]!r}; "
            f"{spec.kind} needs two labels or more. Is label= right?"
        )
    for split, names in named.items():
        if known.issuperset(names):
            continue
        for row, name in enumerate(names):
            if name not in known and looks_like_ids(len(known), len(named.get(TRAIN, ()))):
                source, numbers = tables[TRAIN].source, in_numbers(spec.label_column, len(known), len(named[TRAIN]))
                raise DataError(f"{source}: {numbers} {split} has others, which no model could predict. {OTHER_LABEL}")
            if name not in known:
                raise unknown_label(split, name, tables[split].place(row), known)


@dataclass(frozen=True)
class Labelled:
    """The splits that can be scored, the label of each of their rows, and all labels in the order of the outputs."""

    tables: dict[str, SourceTable]
    named: dict[str, list[str]]
    order: tuple[str, ...]
    notes: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """Label -> rows of train."""
        return in_order(self.order, self.named.get(TRAIN, ()))


def in_order(order: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """Return label -> how often it is named."""
    counts = Counter(names)
    return {label: counts[label] for label in order}


def listed(labels: Iterable[str]) -> str:
    """Format labels for a message, the first twenty of many."""
    return some_of([repr(label) for label in labels], 20)


class OneLabel:
    """The head, and the features that it takes."""

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification  # type: ignore[no-any-return]

    def num_outputs(self, data: TaskData) -> int:
        return len(labels_of(data))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {**head_of(labels_of(data)), "problem_type": "single_label_classification"}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        return sequence.encode(dataset, tokenizer, max_length, "int64")

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]
