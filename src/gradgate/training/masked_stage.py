"""Trains an adapter to fill in masked words while the pretrained model stays as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import torch
from transformers import PrinterCallback, set_seed

from gradgate import adapters
from gradgate.errors import RunError
from gradgate.training import launched
from gradgate.training.adapted import add_to_frozen
from gradgate.training.arguments import training_arguments
from gradgate.training.callback import GateCallback
from gradgate.training.callbacks import Cost, Flow, History, Seal
from gradgate.training.config import RunConfig
from gradgate.training.folder import Recorded, RunFolder, read_json, write_json
from gradgate.training.interrupt import InterruptedRunError
from gradgate.training.loading import load_masked_model
from gradgate.training.masking import Row, SeededMasking, Shuffled, in_order
from gradgate.training.progress import RunProgress
from gradgate.training.trainer import RunTrainer

_BEFORE = "before.json"
_PARTS = 10  # of a training, between which it is scored and saved


@dataclass(frozen=True)
class Stage:
    """One training by masked language modelling.

    Attributes:
        config: model, length, learning rate and the like; its task and method do not count.
        settings: everything that decides the result, for the folder.
        name: of the adapter.
        kind: as :func:`gradgate.adapters.add` takes it.
        probability: of each token to be chosen for masking.
        train, dev: rows of token ids; without ``dev`` nothing is scored.
    """

    config: RunConfig
    settings: Recorded
    name: str
    kind: str
    probability: float
    train: Sequence[Row]
    dev: Sequence[Row] = ()


def train_masked(
    stage: Stage, tokenizer: Any, folder: RunFolder, target: Path, progress: RunProgress, stop: Event
) -> dict[str, Any]:
    """Train, or go on where the folder holds a checkpoint, and write the adapter, which is the last thing to learn.

    Args:
        target: the folder that the adapter is written to, without the model's head.

    Returns:
        Steps, and the loss and perplexity on ``dev`` before and after; what ``scores.json`` then holds.

    Raises:
        RunError: for a model or tokenizer that cannot fill in masked words.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped it after saving.
    """
    launched.on_first(lambda: folder.claim(stage.settings))
    if launched.on_first(lambda: folder.finished):
        return launched.on_first(lambda: read_json(folder.scores_file))
    trainer, steps, cost = _trainer(stage, tokenizer, folder, progress, stop)
    before = _score_before(trainer, folder) if stage.dev else None
    checkpoint = launched.on_first(folder.latest_checkpoint)
    if checkpoint is not None:
        progress.note(f"Resuming from {checkpoint.name} in {folder.path}.")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.state.global_step < trainer.state.max_steps:
        raise InterruptedRunError(
            f"Stopped at step {trainer.state.global_step} of {steps}; the state is saved in {folder.path}. Run the "
            f"same command again to go on from there."
        )
    result = {
        "steps": steps,
        "before": before,
        "after": _score(trainer) if stage.dev else None,
        "seconds_per_step": cost.seconds_per_step,
    }

    def finish() -> None:
        adapters.save(trainer.model, stage.name, target, head=False)
        write_json(folder.scores_file, result)
        (folder.path / _BEFORE).unlink(missing_ok=True)
        folder.clean()

    launched.on_first(finish)
    return result


def _trainer(
    stage: Stage, tokenizer: Any, folder: RunFolder, progress: RunProgress, stop: Event
) -> tuple[RunTrainer, int, Cost]:
    config = stage.config
    if tokenizer.mask_token is None:
        raise RunError(
            f"The tokenizer of {config.model!r} has no mask token, so its adapter cannot be trained on masked words. "
            f"This works for encoders (BERT, RoBERTa, XLM-R and their like), not for decoders such as Llama."
        )
    set_seed(config.seed)
    model, fresh = load_masked_model(config)
    add_to_frozen(model, stage.name, stage.kind, fresh, config.seed)
    together = config.batch_size * config.accumulate * launched.count()
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
    gate = GateCallback("full", seed=config.seed, audit=config.audit)
    cost = Cost()
    trainer = RunTrainer(
        model=model,
        args=arguments,
        train_dataset=Shuffled(stage.train, steps * together, config.seed),
        eval_dataset=in_order(stage.dev) if stage.dev else None,
        data_collator=SeededMasking(tokenizer, stage.probability, config.seed),
        processing_class=tokenizer,
        callbacks=[gate, History(folder, gate), cost, Flow(progress, "loss", stop, scores=bool(stage.dev)), Seal()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, steps, cost


def _score_before(trainer: RunTrainer, folder: RunFolder) -> dict[str, float]:
    """Of the fresh adapter; kept for a training that goes on."""
    file = folder.path / _BEFORE
    if launched.on_first(file.is_file):
        kept: dict[str, float] = launched.on_first(lambda: read_json(file))
        return kept
    scores = _score(trainer)
    launched.on_first(lambda: write_json(file, scores))
    return scores


def _score(trainer: RunTrainer) -> dict[str, float]:
    with torch.random.fork_rng(devices=[]):
        loss = float(trainer.predict(trainer.eval_dataset, metric_key_prefix="eval").metrics["eval_loss"])
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
