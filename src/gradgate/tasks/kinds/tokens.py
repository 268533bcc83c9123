"""Encode pre-tokenized sentences: windows of whole tokens, labels on the first sub-word of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradgate.errors import RunError
from gradgate.tasks.kinds.base import tokenize_rows
from gradgate.tasks.kinds.sequence import pad
from gradgate.tasks.types import IGNORED

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


def encode(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> Dataset:
    """Return the tokenizer's features for each window, with ``labels`` and ``row``.

    A window is filled with whole tokens up to ``max_length`` sub-words. A token without sub-words, such as a lone
    control character, becomes the unknown token, and one longer than a window is cut.

    Raises:
        RunError: the tokenizer does not say which sub-words belong to a token.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise RunError(
            f"{type(tokenizer).__name__} does not report which sub-words belong to a token; use a fast tokenizer"
        )
    mark_word_starts(tokenizer)
    limit = max_length if max_length is not None else tokenizer.model_max_length
    room = limit - tokenizer.num_special_tokens_to_add()

    def windows(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
        pieces = [
            (row, words[begin:end], labels[begin:end])
            for row, (words, lengths), labels in zip(
                rows, _filled(batch["tokens"], tokenizer), batch["label"], strict=True
            )
            for begin, end in _spans(lengths, room)
        ]
        features = tokenizer(
            [words for _, words, _ in pieces], is_split_into_words=True, truncation=True, max_length=limit
        )
        marks = [_on_first(features.word_ids(number), labels) for number, (_, _, labels) in enumerate(pieces)]
        if sum(mark != IGNORED for own in marks for mark in own) != sum(len(labels) for _, _, labels in pieces):
            raise RunError(
                f"{type(tokenizer).__name__} splits tokens in one way alone and in another within a sentence, so "
                f"some would not be scored; use another tokenizer, or a larger max_length="
            )
        return {**features, "labels": marks, "row": [row for row, _, _ in pieces]}

    return tokenize_rows(dataset, windows, batched=True, with_indices=True)


@dataclass(frozen=True)
class TokenCollator:
    """Pads features and labels at their ends to the longest of a batch."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Tensor]:
        import torch

        marks = [feature["labels"] for feature in features]
        rest = [{name: value for name, value in feature.items() if name != "labels"} for feature in features]
        batch = pad(rest, self.tokenizer)
        width = batch["input_ids"].shape[1]
        batch["labels"] = torch.tensor([[*own, *[IGNORED] * (width - len(own))] for own in marks])
        return batch


def mark_word_starts(tokenizer: Any) -> None:
    """Make a byte-level tokenizer mark word starts, which it knows by a space that a list of tokens lacks.

    The tokenizer stays so, and is saved with the model: its tokens are those that the model has learned from.
    """
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    if getattr(splitter, "add_prefix_space", True) is False:
        splitter.add_prefix_space = True


def _filled(sentences: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[tuple[list[str], list[int]]]:
    """Replace tokens without sub-words by the unknown token; return the tokens and their numbers of sub-words."""
    unknown = tokenizer.unk_token or tokenizer.eos_token
    features = tokenizer(sentences, is_split_into_words=True, add_special_tokens=False)
    found = []
    for number, words in enumerate(sentences):
        lengths = [0] * len(words)
        for word in features.word_ids(number):
            if word is not None:
                lengths[word] += 1
        filled = [word if length else unknown for word, length in zip(words, lengths, strict=True)]
        found.append((filled, [length or 1 for length in lengths]))
    return found


def _spans(lengths: list[int], room: int) -> list[tuple[int, int]]:
    """Return begin and end of windows whose tokens have at most ``room`` sub-words (a single token may have more)."""
    spans, begin, used = [], 0, 0
    for position, length in enumerate(lengths):
        if used + length > room and position > begin:
            spans.append((begin, position))
            begin, used = position, 0
        used += length
    return [*spans, (begin, len(lengths))]


def _on_first(words: list[int | None], labels: list[int]) -> list[int]:
    """Put each token's label at its first sub-word."""
    before: int | None = None
    marks = []
    for word in words:
        marks.append(IGNORED if word is None or word == before else labels[word])
        before = word if word is not None else before
    return marks
