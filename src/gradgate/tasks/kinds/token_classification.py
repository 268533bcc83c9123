"""Tag each token of a sentence: parts of speech, named entities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import DataError, NonFiniteError
from gradgate.tasks.kinds import sequence, tokens
from gradgate.tasks.kinds.base import Examples, Scored, TaskData, make_rows
from gradgate.tasks.kinds.labels import (
    LabelNames,
    head_of,
    known_labels,
    label_order,
    label_word,
    labels_of,
    spelling_notes,
    unknown_label,
)
from gradgate.tasks.metrics import ENTITIES
from gradgate.tasks.metrics.tags import OUTSIDE, are_entities, score_tags
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import IGNORED, KIND_INFO

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class TokenClassification:
    """Tags of tokens; ``label`` is a list of indices into ``TaskData.labels``, one for each of ``tokens``.

    The first sub-word of a token has its label and its prediction. A sentence that is longer than the model's input is
    split between two tokens, so that every token is scored.
    """

    info = KIND_INFO["token-classification"]

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification  # type: ignore[no-any-return]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read sentences with the indices of their tags.

        Tags of IOB1 and IOB2 stay as in the source; the model has ``B-`` and ``I-`` of every type in train.

        Raises:
            DataError: a sentence without tokens or with another number of tags, an empty tag, one that ``label_map``
                does not have, or one of dev or test that train does not have.
        """
        tables, notes = sequence.scored_tables(spec, tables)
        tagged, labels, spelled = _tagged(spec, tables)
        notes += spelled
        index = {label: number for number, label in enumerate(labels)}
        splits = {}
        for split, sentences in tagged.items():
            numbers = [[index[tag] for tag in tags] for _, tags in sentences]
            columns: dict[str, list[Any]] = {"tokens": [words for words, _ in sentences], "label": numbers}
            splits[split] = make_rows(columns, {"tokens": ["string"], "label": [labels]})
        return Examples(splits, labels, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        return len(labels_of(data))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return head_of(labels_of(data))

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Encode windows of whole tokens with ``labels`` (-100 for none) and ``row``, the sentence of each window."""
        return tokens.encode(dataset, tokenizer, max_length)

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return tokens.TokenCollator(tokenizer)

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every metric of tags, and of entities if they are such, from ``(windows, sub-words, labels)``."""
        labels = labels_of(data)
        logits = sequence.logits_of(outputs)
        if logits.ndim != 3 or logits.shape[::2] != (len(features), len(labels)):
            raise DataError(
                f"The model returned outputs of shape {logits.shape}, expected {(len(features), '...', len(labels))}: "
                "is its head the one that this task needs?"
            )
        predicted: list[list[str]] = [[] for _ in range(len(rows))]
        for window, row, own in zip(logits, features["row"][:], features["labels"][:], strict=True):
            chosen = window[np.flatnonzero(np.asarray(own) != IGNORED)]
            if not np.isfinite(chosen).all():
                raise NonFiniteError(
                    f"The model's outputs for sentence {row} are not finite; expected finite numbers for each word"
                )
            predicted[row] += [labels[best] for best in chosen.argmax(axis=1)]
        gold = [[labels[number] for number in numbers] for numbers in rows["label"][:]]
        return Scored(
            score_tags(predicted, gold, entities=are_entities(labels)),
            [
                {"index": index, "gold": true, "predicted": found}
                for index, (true, found) in enumerate(zip(gold, predicted, strict=True))
            ],
        )


Sentences = list[tuple[list[str], list[str]]]


def _tagged(spec: TaskSpec, tables: dict[str, SourceTable]) -> tuple[dict[str, Sentences], tuple[str, ...], list[str]]:
    """Return the tokens and tags of each split's rows, the labels in order, and notes on both."""
    written = {split: _sentences(spec, table) for split, table in tables.items()}
    words = {split: {tag for _, tags in found for tag in tags} for split, found in written.items()}
    names = LabelNames.of(spec, words.get("train", ()))
    tagged = {split: _named(found, names, tables[split]) for split, found in written.items()}
    in_train = known_labels(
        spec, {split: [tag for _, tags in found for tag in tags] for split, found in tagged.items()}
    )
    labels = _labels(spec, in_train)
    known = set(labels) if are_entities(in_train) else in_train
    for split, sentences in tagged.items():
        for row, (_, tags) in enumerate(sentences):
            for item, tag in enumerate(tags):
                if tag not in known:
                    raise unknown_label(split, tag, tables[split].place(row, item), known)
    notes = spelling_notes(spec, names, (word for own in words.values() for word in own))
    return tagged, labels, [*notes, *_entity_notes(spec, tagged.get("train", []))]


def _entity_notes(spec: TaskSpec, train: Sentences) -> list[str]:
    """Return a note if accuracy, which counts each token, selects a model of entities."""
    tags = [tag for _, own in train for tag in own]
    if spec.metric != "accuracy" or not are_entities(tags):
        return []
    share = tags.count(OUTSIDE) / len(tags)
    return [
        f"the tags mark entities, but accuracy also counts the {share:.1%} of train tokens outside them:"
        " metric='entity_f1' counts whole entities"
    ]


def _named(sentences: Sentences, names: LabelNames, table: SourceTable) -> Sentences:
    """Return sentences with the names of their tags in place of the words that the data have."""
    known: dict[str, str] = {}
    named = []
    for row, (tokens_of_row, tags) in enumerate(sentences):
        for item, tag in enumerate(tags):
            if tag not in known:
                known[tag] = names.name(tag, table.place(row, item))
        named.append((tokens_of_row, [known[tag] for tag in tags]))
    return named


def _sentences(spec: TaskSpec, table: SourceTable) -> Sentences:
    """Return the tokens of each row, and its tags as the data spell them."""
    words = table.column(spec.text_columns[0], "text=")
    tags = table.column(spec.label_column, "label=")
    sentences = []
    for row, (cell, marks) in enumerate(zip(words, tags, strict=True)):
        for name, value in ((spec.text_columns[0], cell), (spec.label_column, marks)):
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise DataError(
                    f"{table.place(row)}: {name!r} is not a list but {type(value).__name__} ({value!r:.80}). "
                    f"Pass another column or correct it"
                )
        if not cell or len(cell) != len(marks):
            raise DataError(
                f"{table.place(row)} has {len(cell)} tokens and {len(marks)} tags; each token needs one. Correct "
                f"the row"
            )
        for item, word in enumerate(cell):
            if not isinstance(word, str) or not word:
                raise DataError(f"{table.place(row, item)}: the token {word!r:.80} is not text. Correct it")
        sentences.append((list(cell), [_tag(mark, table.place(row, item), spec) for item, mark in enumerate(marks)]))
    return sentences


def _tag(mark: Any, place: str, spec: TaskSpec) -> str:
    """Return the text of a tag; raise DataError for what libraries write where there is none."""
    word = label_word(mark, place)
    if word == str(IGNORED) and word not in (spec.label_map or {}):
        raise DataError(
            f"{place}: the tag is {word}, which marks tokens that are not scored in prepared data. Expected the words "
            f"with a tag each: remove this token, give it a tag, or list {word} in label_map"
        )
    return word


def _labels(spec: TaskSpec, in_train: set[str]) -> tuple[str, ...]:
    """Return the labels in order; for entities, ``O`` and both marks of each type, as train may lack one of them."""
    entities = are_entities(in_train)
    if spec.metric in ENTITIES and not entities:
        raise DataError(
            f"The metric {spec.metric} is for tags in IOB1 or IOB2 ('O', 'B-PER', 'I-PER'), and {spec.name} has "
            f"{', '.join(sorted(in_train)[:10])}; use accuracy or macro_f1"
        )
    if len(in_train) < 2:
        raise DataError(
            f"Every token of {spec.name} has the tag {next(iter(in_train))!r}; expected at least two tags. Pass "
            f"the column of tags with label=."
        )
    if not entities or spec.label_map is not None:
        return label_order(spec, in_train)
    types = sorted({tag[2:] for tag in in_train - {OUTSIDE}})
    return (OUTSIDE, *(f"{mark}-{kind}" for kind in types for mark in "BI"))
