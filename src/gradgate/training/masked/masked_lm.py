"""Train by masked language modelling on running text, packed into blocks of equal length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    PreTrainedTokenizerBase,
    PrinterCallback,
    set_seed,
)

from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError
from gradgate.files import read_json, write_json
from gradgate.runs.folder import Recorded, RunFolder
from gradgate.runs.progress import RunProgress
from gradgate.settings.run import RunConfig
from gradgate.tasks.types import IGNORED
from gradgate.training.arguments import training_arguments
from gradgate.training.callbacks import HistoryLogger, ProgressCallback, SealCheckpoint, StepTimer
from gradgate.training.gate_callback import GateCallback
from gradgate.training.masked.head import head_on_chosen
from gradgate.training.pretrained import load_masked_model
from gradgate.training.split_loss import TokenLossTrainer
from gradgate.training.trainer import RunTrainer, check_complete

_BATCH = 1000


def packed(texts: Sequence[str], tokenizer: Any, length: int) -> list[dict[str, list[int]]]:
    """Join all texts and cut them into blocks of ``length`` tokens; the last block may be shorter.

    Each text begins and ends with the tokenizer's special tokens. A block may begin within a text, so that long texts
    are not truncated and short ones are not padded.
    """
    batches = (list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH))
    each = chain.from_iterable(tokenizer(batch, return_token_type_ids=False)["input_ids"] for batch in batches)
    ids = list(chain.from_iterable(each))
    return [{"input_ids": ids[start : start + length]} for start in range(0, len(ids), length)]


def hold_out(texts: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Split texts at random into those to train on and those to score on, each in the order of the source.

    Raises:
        UsageError: if one of the two would be empty.
    """
    count = round(share * len(texts)) or int(share > 0)
    if count >= len(texts):
        raise UsageError(f"{len(texts)} texts are too few to hold out {share:g} of them. Pass more, or held_out=0.")
    chosen = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
    train = [text for number, text in enumerate(texts) if number not in chosen]
    return train, [texts[number] for number in sorted(chosen)]


Row = Mapping[str, Sequence[int]]
_NUMBER = "number"


class Shuffled(Dataset[dict[str, Any]]):
    """The rows of a training, in a new random order per pass; read it in sequence.

    Args:
        rows: ``input_ids`` and their companions, by name.
        total: number of rows in all passes; may be more than ``rows`` has.
        seed: of the orders.
    """

    def __init__(self, rows: Sequence[Row], total: int, seed: int) -> None:
        self._rows, self._total, self._seed = rows, total, seed
        self._order: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, number: int) -> dict[str, Any]:
        turn, place = divmod(number, len(self._rows))
        if self._order[0] != turn:
            self._order = turn, np.random.default_rng((self._seed, turn)).permutation(len(self._rows))
        return {**self._rows[int(self._order[1][place])], _NUMBER: number}


class SeededMasking:
    """Makes batches for masked language modelling, as BERT has it: of the chosen tokens 80% are masked and 10% random.

    Args:
        tokenizer: with a mask token.
        probability: of each token to be chosen.
        seed: of the choice, together with the number of a batch's first row.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, probability: float, seed: int) -> None:
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=probability)
        self._padding = DataCollatorForTokenClassification(tokenizer)
        self._seed = seed

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        if "labels" in rows[0]:
            return dict(self._padding(list(rows)))
        plain = [{name: value for name, value in row.items() if name != _NUMBER} for row in rows]
        return self._masked(plain, rows[0][_NUMBER], held_out=False)

    def held_out(self, rows: Sequence[Row]) -> list[dict[str, list[int]]]:
        """Return rows to score on, each masked by itself, so that no batch or number of processes changes its masks."""
        alone = (self._masked([row], number, held_out=True) for number, row in enumerate(rows))
        return [{name: tensor[0].tolist() for name, tensor in batch.items()} for batch in alone]

    def _masked(self, rows: Sequence[Mapping[str, Any]], number: int, held_out: bool) -> dict[str, Tensor]:
        state = np.random.SeedSequence((self._seed, number, int(held_out))).generate_state(1, np.uint64)
        self._collator.generator = torch.Generator().manual_seed(int(state[0] >> 1))
        batch: dict[str, Tensor] = dict(self._collator(list(rows)))
        if bool((batch["labels"] == IGNORED).all()):  # few short texts: the mean loss of no token is NaN
            ids = rows[0]["input_ids"]
            place = min(1, len(ids) - 1)
            begin = batch["labels"].shape[1] - len(ids) if self._collator.tokenizer.padding_side == "left" else 0
            batch["labels"][0, begin + place] = ids[place]
        return batch


class MaskedTrainer(TokenLossTrainer, RunTrainer):
    """Trains on masked words, and scores a split by the mean loss of its masked tokens."""


_BEFORE = "before.json"
_PARTS = 10  # a training is scored and saved after each tenth


@dataclass(frozen=True)
class MaskedTraining:
    """One training by masked language modelling.

    Attributes:
        config: model, length, learning rate and the like; its task and method are ignored.
        settings: everything that decides the result, for the folder.
        prepare: puts the adapter into the model and freezes the rest; receives the model and the names of the
            parameters that the pretrained weights lacked.
        save: writes the trained weights, without the model's head.
        probability: of each token to be chosen for masking.
        train, dev: rows of token ids; without ``dev`` nothing is scored.
    """

    config: RunConfig
    settings: Recorded
    prepare: Callable[[Any, frozenset[str]], None]
    save: Callable[[Any], None]
    probability: float
    train: Sequence[Row]
    dev: Sequence[Row] = ()


def train_masked(
    stage: MaskedTraining, tokenizer: Any, folder: RunFolder, progress: RunProgress, stop: Event
) -> dict[str, Any]:
    """Train, or resume from the folder's checkpoint, then write the trained weights and last ``scores.json``.

    Returns:
        The content of ``scores.json``: steps, and the loss and perplexity on ``dev`` before and after.

    Raises:
        RunError: for a model or tokenizer that cannot fill in masked words.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped it after saving.
    """
    launch.on_first(lambda: folder.claim(stage.settings, launch.count()))
    if launch.on_first(lambda: folder.finished):
        return launch.on_first(lambda: read_json(folder.scores_file))
    trainer, steps, cost = _trainer(stage, tokenizer, folder, progress, stop)
    before = _score_before(trainer, folder) if stage.dev else None
    checkpoint = launch.on_first(folder.latest_checkpoint)
    if checkpoint is not None:
        progress.note(f"Resuming from {checkpoint.name} in {folder.path}.")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    check_complete(trainer, folder)
    result = {
        "steps": steps,
        "before": before,
        "after": _score(trainer) if stage.dev else None,
        "seconds_per_step": cost.seconds_per_step,
    }

    def finish() -> None:
        stage.save(trainer.model)
        write_json(folder.scores_file, result)
        (folder.path / _BEFORE).unlink(missing_ok=True)
        folder.clean()

    launch.on_first(finish)
    return result


def _trainer(
    stage: MaskedTraining, tokenizer: Any, folder: RunFolder, progress: RunProgress, stop: Event
) -> tuple[RunTrainer, int, StepTimer]:
    config = stage.config
    _check_mask(tokenizer, config.model)
    set_seed(config.seed)
    model, fresh = load_masked_model(config, tokenizer)
    stage.prepare(model, fresh)
    head_on_chosen(model)
    together = config.batch_size * config.accumulate * launch.count()
    steps = config.steps or max(1, math.ceil(len(stage.train) * (config.epochs or 1.0) / together))
    every = max(1, steps // _PARTS)
    arguments = training_arguments(
        config.model_copy(update={"steps": steps, "epochs": None}),
        folder,
        steps * together,
        eval_strategy="steps" if stage.dev else "no",
        eval_steps=config.eval_every or every,
        save_steps=config.save_every or every,
        logging_steps=max(1, every // 10),
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        prediction_loss_only=True,
    )
    gate = GateCallback("full", seed=config.seed, audit=config.audit, layers=config.layers)
    cost = StepTimer(gate)
    masking = SeededMasking(tokenizer, stage.probability, config.seed)
    trainer = MaskedTrainer(
        model=model,
        args=arguments,
        train_dataset=Shuffled(stage.train, steps * together, config.seed),
        eval_dataset=masking.held_out(stage.dev) if stage.dev else None,
        data_collator=masking,
        processing_class=tokenizer,
        callbacks=[
            gate,
            HistoryLogger(folder, gate),
            cost,
            ProgressCallback(progress, "loss", stop, scores=bool(stage.dev)),
            SealCheckpoint(),
        ],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, steps, cost


def _check_mask(tokenizer: Any, model: str) -> None:
    if tokenizer.mask_token is None:
        raise RunError(
            f"The tokenizer of {model!r} has no mask token, so neither the model nor its adapter can be trained on "
            f"masked words. This works for encoders (BERT, RoBERTa, XLM-R and similar ones), not for decoders such as "
            f"Llama."
        )


def _score_before(trainer: RunTrainer, folder: RunFolder) -> dict[str, float]:
    """Score dev before the first step, or read that score from the folder if training resumes."""
    file = folder.path / _BEFORE
    if launch.on_first(file.is_file):
        stored: dict[str, float] = launch.on_first(lambda: read_json(file))
        return stored
    scores = _score(trainer)
    launch.on_first(lambda: write_json(file, scores))
    return scores


def _score(trainer: RunTrainer) -> dict[str, float]:
    with torch.random.fork_rng(devices=[]):
        loss = float(trainer.predict(trainer.eval_dataset, metric_key_prefix="eval").metrics["eval_loss"])
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
