"""Prepare a measure of forgetting for one model: of running text, or of another task's prompts and responses."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig

from gradgate.errors import DataError, RunError
from gradgate.runs.records import TaskRecord
from gradgate.settings.forgetting import ForgettingSetting
from gradgate.settings.run import RunConfig
from gradgate.tasks import greater_is_better
from gradgate.tasks.metrics import GENERATED, KL
from gradgate.torch_state import preserved_state
from gradgate.training.forgetting.data import LOSS, OtherTask, RunningText, check_forgetting, read_forgotten
from gradgate.training.generation.task import EncodedGeneration, PreparedGeneration
from gradgate.training.generation.token_divergence import mean_token_divergence
from gradgate.training.generation.token_loss import blocks, mean_token_loss
from gradgate.training.pretrained import load_pretrained

Pretrained = Callable[[torch.device], Any]
"""Loads the pretrained model onto a device: without an adapter, in evaluation mode, in shards if the trained one is."""
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
        pretrained: called by each measurement of ``kl``, which compares the two models, and by no other.
        notes: messages for the user.
    """

    metric: str
    config: RunConfig
    tokenizer: Any
    pretrained: Pretrained
    notes: tuple[str, ...]

    @property
    def higher_is_better(self) -> bool:
        """True if a higher value of the metric is better."""
        return greater_is_better(self.metric)

    @property
    def before(self) -> float | None:
        """The value of the pretrained model if it is known without a measurement."""
        return 0.0 if self.metric == KL else None

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

    def _per_token(self, model: Any, rows: Any) -> float:
        """Return the divergence from the pretrained model for ``kl``, else the loss: a mean over tokens, in nats."""
        how = (rows, self.config.batch_size, self.tokenizer.pad_token_id, self.config.precision)
        if self.metric != KL:
            return mean_token_loss(model, *how)
        return mean_token_divergence(model, self.pretrained(next(model.parameters()).device), *how)


@dataclass(frozen=True)
class TextMeasure(Measure):
    """The mean loss per token of running text, or its divergence from the pretrained model, in nats.

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
        return self._per_token(model, [{"input_ids": ids, "labels": ids} for ids in cut])


@dataclass(frozen=True)
class TaskScore(Measure):
    """The metric of another task's prompts and responses; loss and ``kl`` are means over the responses' tokens.

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
        found = self._per_token(model, list(self.encoded.splits[self.split].features))
        return perplexity(found) if self.metric == "perplexity" else found


def perplexity(loss: float) -> float:
    """Return ``exp(loss)``, limited to a finite number."""
    return math.exp(min(loss, _LARGEST_EXPONENT))


def measure_of(config: RunConfig, task: TaskRecord, tokenizer: Any, pretrained: Pretrained) -> Measure | None:
    """Build the measure that the configuration asks for; None if it asks for none.

    Args:
        task: of the run.
        pretrained: loads the model that the run starts from, see :class:`Measure`.

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
        return _text_measure(source, setting, config, tokenizer, pretrained)
    return _task_score(source, setting, config, tokenizer, pretrained)


def _text_measure(
    found: RunningText, setting: ForgettingSetting, config: RunConfig, tokenizer: Any, pretrained: Pretrained
) -> TextMeasure:
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
    texts = tuple(chosen[number] for number in sorted(chosen))
    return TextMeasure(setting.metric or LOSS, config, tokenizer, pretrained, tuple(notes), texts)


def _tokenized(texts: tuple[str, ...], tokenizer: Any) -> Iterator[tuple[int, list[int]]]:
    """Yield number and token ids of each text, in a random order that is always the same."""
    order = np.random.default_rng(_ORDER_SEED).permutation(len(texts)).tolist()
    for start in range(0, len(order), _BATCH):
        part = order[start : start + _BATCH]
        yield from zip(part, tokenizer([texts[number] for number in part])["input_ids"], strict=True)


def _task_score(
    found: OtherTask, setting: ForgettingSetting, config: RunConfig, tokenizer: Any, pretrained: Pretrained
) -> TaskScore:
    rows, data = found.data.tests[found.split], found.data
    notes = [*data.notes] if len(data.tests) > 1 or found.split != "test" else []
    if len(rows) > setting.rows:
        order = np.random.default_rng(_ORDER_SEED).permutation(len(rows))[: setting.rows]
        notes.append(_limited(setting, "rows", f"of {len(rows):,}"))
        rows = rows.select(sorted(order.tolist()))
    prepared = PreparedGeneration.of(data, config)
    encoded = prepared.encode_splits({found.split: rows}, config.model_copy(update={"packing": None}), tokenizer)
    all_notes = tuple(f"forgetting, {note}" for note in (*notes, *encoded.notes))
    metric = KL if setting.metric == KL else data.spec.metric
    return TaskScore(metric, config, tokenizer, pretrained, all_notes, encoded, found.split)


def _limited(setting: ForgettingSetting, option: str, of: str) -> str:
    count = getattr(setting, option)
    return (
        f"forgetting is measured on {count:,} {option} of {setting.place} ({of}), drawn with a fixed seed; "
        f"{setting.with_option(option, 'N')} sets another number"
    )
