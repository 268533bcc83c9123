"""Fit the head of a run in place of its training."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.calling_trainer import calling_trainer
from gradgate.errors import DataError, RunError
from gradgate.methods.fixed import Probe
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import DEV
from gradgate.tasks import greater_is_better
from gradgate.training.callbacks import StepTimer
from gradgate.training.gate_callback import GateCallback
from gradgate.training.probe.linear_head import Batch, LinearHead, find_linear_head
from gradgate.training.probe.logistic_regression import STRENGTHS, Array, Fit, best_fit
from gradgate.training.single_task import EncodedSingleTask

_LABELS = "labels"
_AGREES = 1e-2  # of the largest logit, between the regression and the model with its weights


class FitHead(TrainerCallback):  # type: ignore[misc]
    """Fits a logistic regression when training begins, and ends the training.

    The run is then at its last step, or where it pauses: it scores the same at every length.

    Args:
        method: how to fit.
        encoded: the data.
        gate: the callback whose tuner closes the model, and caches the output of its layers.
        fresh: names of the parameters that the pretrained weights lack.
        timer: gets the time of the fit, spread over the steps of the whole run.
        until: the step at which the run pauses; None for the last one.
        progress: receives the step, and a note on the fit.
    """

    def __init__(
        self,
        method: Probe,
        encoded: EncodedSingleTask,
        gate: GateCallback,
        fresh: frozenset[str],
        timer: StepTimer,
        until: int | None,
        progress: RunProgress,
    ) -> None:
        self._method, self._encoded, self._gate, self._fresh = method, encoded, gate, fresh
        self._timer, self._until, self._progress = timer, until, progress

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Fit the head."""
        caller = calling_trainer(self)
        assert caller is not None, "a run is trained by Trainer"
        began = time.perf_counter()
        self._fit(caller.trainer)
        steps = state.max_steps if self._until is None else min(self._until, state.max_steps)
        self._timer.durations = [(time.perf_counter() - began) / state.max_steps] * steps
        state.global_step = steps
        control.should_training_stop = True
        if self._gate.tuner is not None:
            self._gate.tuner.resume_at(steps)  # the timeline is that of the whole run
        self._progress.advance(steps, None)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Score dev at the last step, as training does."""
        caller = calling_trainer(self)
        if caller is not None and state.global_step >= state.max_steps:
            caller.trainer.evaluate()

    def _fit(self, trainer: Any) -> None:
        model, encoded = trainer.model, self._encoded
        labels, train, dev = encoded.data.labels or (), encoded.train, encoded.splits[DEV].features
        targets = np.asarray(train[_LABELS] if _LABELS in train.column_names else train["label"])
        _check_targets(targets, labels)
        first = next(_batches(trainer, dev))
        model.eval()
        head = find_linear_head(model, len(labels), self._fresh, lambda: _forward(model, first))
        # The model alone is in training mode, so that its layers are read from the cache, and nothing has dropout.
        model.train()
        for module in model.modules():
            module.training = module is model
        features = _read(head, model, trainer, train)
        on_dev = _read(head, model, trainer, dev)
        model.eval()
        fit = best_fit(
            features,
            targets,
            len(labels),
            STRENGTHS if self._method.c is None else (self._method.c,),
            lambda fit: self._score(fit, on_dev),
            balanced=encoded.class_weights is not None,
            bias=head.classifier.bias is not None,
        )
        head.set(torch.from_numpy(fit.weight), torch.from_numpy(fit.bias))
        _check(fit, on_dev, model, first)
        self._progress.note(_describe(head, fit, model, features.shape))

    def _score(self, fit: Fit, on_dev: Array) -> float:
        task = self._encoded
        value = task.scorer(EvalPrediction(predictions=fit.logits(on_dev), label_ids=None))[task.metric]
        return value if greater_is_better(task.metric) else -value


def _check_targets(targets: npt.NDArray[np.int64], labels: Sequence[str]) -> None:
    """Raise DataError if all rows have one label, as few that were drawn may have."""
    if len(np.unique(targets)) < 2:
        raise DataError(
            f"All rows of train ({len(targets):,}) have the label {labels[int(targets[0])]!r}, and a probe needs rows "
            f"of two labels or more. Pass a larger train_size=, or train with 'head' instead of 'probe'."
        )


def _batches(trainer: Any, rows: Any) -> Iterator[Batch]:
    """Return the batches of a split in order, on the device of the model, without labels."""
    loader = DataLoader(rows, batch_size=trainer.args.per_device_eval_batch_size, collate_fn=trainer.data_collator)
    for batch in loader:
        inputs = trainer._prepare_inputs(dict(batch))
        yield {name: value for name, value in inputs.items() if name != _LABELS}


def _forward(model: nn.Module, batch: Batch) -> Any:
    with torch.no_grad():
        return model(**batch)


def _read(head: LinearHead, model: nn.Module, trainer: Any, rows: Any) -> Array:
    found = head.features(model, lambda batch: _forward(model, batch), _batches(trainer, rows))
    return found.double().numpy()


def _check(fit: Fit, on_dev: Array, model: nn.Module, first: Batch) -> None:
    """Raise RunError if the model with the regression's weights does not predict as the regression does."""
    found = _forward(model, first)["logits"].float().cpu().numpy()
    expected = fit.logits(on_dev[: len(found)])
    if not np.abs(found - expected).max() <= _AGREES * max(1.0, np.abs(expected).max()):
        raise RunError(
            f"The head of {type(model).__name__} is not linear in the features that enter it, so logistic "
            f"regression cannot fit it. Train with 'head' instead of 'probe'."
        )


def _describe(head: LinearHead, fit: Fit, model: nn.Module, shape: tuple[int, ...]) -> str:
    text = f"Logistic regression on {shape[1]} features of {shape[0]:,} rows, c={fit.c:g}."
    if head.random:
        text += f" They pass through {', '.join(head.random)}, which the checkpoint lacks and which is random."
    return text
