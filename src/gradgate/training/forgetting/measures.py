"""Prepare a measure of forgetting for one model: the loss of running text, or the score on another task."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
from transformers import AutoConfig

from gradgate.errors import DataError, RunError
from gradgate.runs.records import TaskRecord
from gradgate.settings.forgetting import ForgettingSetting
from gradgate.settings.run import RunConfig
from gradgate.tasks import greater_is_better
from gradgate.tasks.metrics import GENERATED
from gradgate.torch_state import preserved_state
from gradgate.training.forgetting.data import OtherTask, RunningText, check_forgetting, read_forgotten
from gradgate.training.generation.task import EncodedGeneration, PreparedGeneration
from gradgate.training.generation.token_loss import blocks, mean_token_loss
from gradgate.training.pretrained import load_pretrained

LOSS = "loss"
_ORDER_SEED = 0  # draws the texts if there are too many; the same for every run
_BATCH = 1000  # texts that are tokenized at once
_LARGEST_EXPONENT = 700.0  # exp() of more overflows a float


@dataclass(frozen=True)
class Measure(ABC):
    """Another task or text than the run's own, encoded for the run's model.

    Attributes:
        metric: the one that is measured.
        config: of the run.
        tokenizer: of the model.
        notes: messages for the user.
    """

    metric: str
    config: RunConfig
    tokenizer: Any
    notes: tuple[str, ...]

    @property
    def higher_is_better(self) -> bool:
        """True if a higher value of the metric is better."""
        return greater_is_better(self.metric)

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of texts, or of prompts with their responses."""

    @property
    def tokens(self) -> int | None:
        """Number of predicted tokens of running text; None for prompts and responses."""
        return None

    @property
    def fingerprint(self) -> str:
        """A digest that is equal for the same texts, metric and settings."""
        how = (self.metric, self.config.max_length, self.config.max_new_tokens)
        return sha256(json.dumps([how, list(self._content())]).encode()).hexdigest()[:16]

    def value(self, model: Any) -> float:
        """Return the metric of a model's weights, on its device. No random state and no flag changes."""
        with preserved_state(model, training=False):
            return self._measured(model)

    @abstractmethod
    def _content(self) -> Iterator[Any]:
        """Yield the measured texts or rows as plain values."""

    @abstractmethod
    def _measured(self, model: Any) -> float: ...

    def _loss(self, model: Any, rows: Any) -> float:
        padding = self.tokenizer.pad_token_id
        return mean_token_loss(model, rows, self.config.batch_size, padding, self.config.precision)


@dataclass(frozen=True)
class TextLoss(Measure):
    """The mean loss per token of running text, in nats.

    Each text is read alone, with the special tokens that the tokenizer puts around it. One that is longer than
    ``max_length`` is cut into blocks (:func:`gradgate.training.generation.token_loss.blocks`).

    Attributes:
        texts: token ids of each.
    """

    texts: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> int:
        """Number of texts."""
        return len(self.texts)

    @property
    def tokens(self) -> int:
        """Number of tokens, without the first of each text."""
        return sum(len(ids) - 1 for ids in self.texts)

    def _content(self) -> Iterator[Any]:
        return iter(self.texts)

    def _measured(self, model: Any) -> float:
        cut = chain.from_iterable(blocks(ids, self.config.max_length) for ids in self.texts)
        return self._loss(model, [{"input_ids": ids, "labels": ids} for ids in cut])


@dataclass(frozen=True)
class TaskScore(Measure):
    """The metric of another task's prompts and responses.

    Attributes:
        encoded: the rows as the model takes them.
        split: their name.
    """

    encoded: EncodedGeneration
    split: str

    @property
    def rows(self) -> int:
        """Number of prompts with their responses."""
        return len(self.encoded.splits[self.split].rows)

    def _content(self) -> Iterator[Any]:
        features = self.encoded.splits[self.split].features
        yield from zip(features["input_ids"][:], features["labels"][:], strict=True)
        yield self.encoded.splits[self.split].rows.to_list()

    def _measured(self, model: Any) -> float:
        if self.metric in GENERATED:
            self.encoded.scorer.split = self.split
            return self.encoded.text_scores(model)[self.metric]
        loss = self._loss(model, list(self.encoded.splits[self.split].features))
        return loss if self.metric == LOSS else perplexity(loss)


def perplexity(loss: float) -> float:
    """Return ``exp(loss)``, limited to a finite number."""
    return math.exp(min(loss, _LARGEST_EXPONENT))


def measure_of(config: RunConfig, task: TaskRecord, tokenizer: Any) -> Measure | None:
    """Build the measure that the configuration asks for; None if it asks for none.

    Args:
        task: of the run.

    Raises:
        UsageError: for a run or another task that does not generate text.
        RunError: for running text and a model with an encoder.
        DataError: for texts that cannot be read, or contain nothing that could be predicted.
    """
    setting = config.forgetting
    if setting is None:
        return None
    check_forgetting(setting, task.name, task.kind)
    source = read_forgotten(setting)
    if isinstance(source, RunningText):
        return _text_loss(source, setting, config, tokenizer)
    return _task_score(source, setting, config, tokenizer)


def _text_loss(found: RunningText, setting: ForgettingSetting, config: RunConfig, tokenizer: Any) -> TextLoss:
    settings = load_pretrained(AutoConfig, config, "configuration")
    if settings.is_encoder_decoder:
        raise RunError(
            f"{setting.asked}: {config.model!r} is a {settings.model_type} model, an encoder with a decoder, which "
            f"has no loss on running text. Pass a file with prompt and response, "
            f"or a decoder such as Llama as model=."
        )
    chosen: dict[int, tuple[int, ...]] = {}
    left = setting.tokens
    for number, ids in _tokenized(found.texts, tokenizer):
        if left < 1:
            break
        if len(ids) > 1:
            chosen[number] = tuple(ids[: left + 1])
            left -= len(chosen[number]) - 1
    if not chosen:
        raise DataError(
            f"{setting.place} has no text of two or more tokens, so there is nothing to predict. Pass "
            f"another {setting.parameter}="
        )
    notes = [] if left else [_limited(setting, "tokens", f"{len(chosen):,} of {len(found.texts):,} texts")]
    return TextLoss(LOSS, config, tokenizer, tuple(notes), tuple(chosen[number] for number in sorted(chosen)))


def _tokenized(texts: tuple[str, ...], tokenizer: Any) -> Iterator[tuple[int, list[int]]]:
    """Yield number and token ids of each text, in a random order that is always the same."""
    order = np.random.default_rng(_ORDER_SEED).permutation(len(texts)).tolist()
    for start in range(0, len(order), _BATCH):
        part = order[start : start + _BATCH]
        yield from zip(part, tokenizer([texts[number] for number in part])["input_ids"], strict=True)


def _task_score(found: OtherTask, setting: ForgettingSetting, config: RunConfig, tokenizer: Any) -> TaskScore:
    rows, data = found.data.tests[found.split], found.data
    notes = [*data.notes] if len(data.tests) > 1 or found.split != "test" else []
    if len(rows) > setting.rows:
        order = np.random.default_rng(_ORDER_SEED).permutation(len(rows))[: setting.rows]
        notes.append(_limited(setting, "rows", f"of {len(rows):,}"))
        rows = rows.select(sorted(order.tolist()))
    prepared = PreparedGeneration.of(data, config)
    encoded = prepared.encode_splits({found.split: rows}, config.model_copy(update={"packing": None}), tokenizer)
    all_notes = tuple(f"forgetting, {note}" for note in (*notes, *encoded.notes))
    return TaskScore(data.spec.metric, config, tokenizer, all_notes, encoded, found.split)


def _limited(setting: ForgettingSetting, option: str, of: str) -> str:
    count = getattr(setting, option)
    return (
        f"forgetting is measured on {count:,} {option} of {setting.place} ({of}), drawn with a fixed seed; "
        f"{setting.parameter}={setting.place}:{option}=N sets another number"
    )
