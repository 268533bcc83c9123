"""Encode questions with their contexts: windows that overlap, and where the answer is in each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradgate.errors import RunError
from gradgate.tasks.kinds.base import tokenize_rows
from gradgate.tasks.kinds.sequence import pad

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

SHORTEST = 16
OUTSIDE = -1
"""The character of a sub-word that is not of the context."""


def encode(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> Dataset:
    """Return the tokenizer's features for each window, with labels and what is needed to find answers in it.

    Windows share a third of ``max_length`` (384 sub-words: 128, as usual for SQuAD); questions are cut to a quarter of
    it. ``start_positions`` and ``end_positions`` are the first and last sub-word of the first answer; in windows that
    lack part of it, or for questions without one, the sub-word ``null``: that of the sequence's beginning. ``begins``
    and ``ends`` are each sub-word's characters in the context, ``row`` is the question.

    Raises:
        RunError: a ``max_length`` below 16, or a tokenizer that does not return character offsets.
    """
    limit = max_length if max_length is not None else tokenizer.model_max_length
    if limit < SHORTEST:
        raise RunError(f"max_length={limit} leaves no room for a question and its context; use {SHORTEST} or more")
    if not getattr(tokenizer, "is_fast", False):
        raise RunError(f"{type(tokenizer).__name__} does not report the characters of sub-words; use a fast tokenizer")

    def windows(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
        features = tokenizer(
            _cut(batch["question"], tokenizer, limit // 4),
            batch["context"],
            truncation="only_second",
            max_length=limit,
            stride=limit // 3,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        sources, offsets = features.pop("overflow_to_sample_mapping"), features.pop("offset_mapping")
        found: dict[str, list[Any]] = {name: [] for name in _FOUND}
        for window, (source, places) in enumerate(zip(sources, offsets, strict=True)):
            null = _null(features["input_ids"][window], tokenizer)
            context = [part == 1 for part in features.sequence_ids(window)]
            begins = [place[0] if inside else OUTSIDE for place, inside in zip(places, context, strict=True)]
            ends = [place[1] if inside else OUTSIDE for place, inside in zip(places, context, strict=True)]
            first, last = null, null
            if batch["answers"][source]:
                begin = batch["starts"][source][0]
                first, last = _position(begins, ends, begin, begin + len(batch["answers"][source][0]), null)
            for column, value in zip(found.values(), (rows[source], null, begins, ends, first, last), strict=True):
                column.append(value)
        return {**features, **found}

    return tokenize_rows(dataset, windows, batched=True, with_indices=True)


_FOUND = ("row", "null", "begins", "ends", "start_positions", "end_positions")


@dataclass(frozen=True)
class WindowCollator:
    """Pads windows at their ends to the longest of a batch."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Tensor]:
        kept = [{name: value for name, value in feature.items() if name not in _NOT_OF_MODEL} for feature in features]
        return pad(kept, self.tokenizer)


_NOT_OF_MODEL = ("row", "null", "begins", "ends")


def _cut(questions: list[str], tokenizer: PreTrainedTokenizerBase, limit: int) -> list[str]:
    """Cut the questions to ``limit`` sub-words, without white space around them."""
    bare = [question.strip() for question in questions]
    features = tokenizer(bare, add_special_tokens=False, return_offsets_mapping=True)
    places = [offsets[:limit] for offsets in features["offset_mapping"]]
    return [text[: place[-1][1]] if place else text for text, place in zip(bare, places, strict=True)]


def _null(ids: list[int], tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the sub-word that stands for no answer: the class token, or the first."""
    token = tokenizer.cls_token_id
    return ids.index(token) if token in ids else 0


def _position(begins: list[int], ends: list[int], begin: int, end: int, null: int) -> tuple[int, int]:
    """Return the first and last sub-word of the characters from ``begin`` to ``end``, or ``null`` twice."""
    inside = [position for position, start in enumerate(begins) if start != OUTSIDE]
    if not inside:
        return null, null
    low, high = inside[0], inside[-1] + 1
    if begins[low] > begin or ends[high - 1] < end:
        return null, null
    first = bisect_right(ends, begin, low, high)
    last = bisect_left(begins, end, low, high) - 1
    return first, max(first, last)
