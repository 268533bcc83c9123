"""Record a run while Trainer trains: history, costs, the best weights and progress; stop it on an interrupt."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from gradgate.activation_cache import RowCounts
from gradgate.distributed import launch
from gradgate.files import append_text, read_json, write_json, write_text
from gradgate.runs.checkpoints import SEAL_FILE, seal
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, TrainRecord, lines_until
from gradgate.runs.progress import RunProgress
from gradgate.training.checkpoint_weights import write_weights
from gradgate.training.fsdp import is_sharded, save_whole
from gradgate.training.gate_callback import GateCallback
from gradgate.training.trainer import WEIGHTS_FILE, dev_scores

COST_FILE = "cost.json"
PREDICTIONS_FOLDER = "predictions"
Logs = dict[str, Any] | None
"""What Trainer passes to ``on_log`` and ``on_evaluate``."""


def checkpoint_of(args: TrainingArguments, state: TrainerState) -> Path:
    """Return the folder of the checkpoint that Trainer has just saved."""
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


class HistoryLogger(TrainerCallback):  # type: ignore[misc]
    """Appends every logged loss and dev score to ``history.jsonl``."""

    def __init__(self, folder: RunFolder, gate: GateCallback) -> None:
        self.folder = folder
        self.gate = gate

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Drop the lines after the checkpoint that training resumes from."""
        if not launch.is_first():
            return
        path, step = self.folder.history_file, state.global_step
        write_text(path, lines_until(path, step) if step > 0 and path.is_file() else "")

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Logs = None, **_: Any
    ) -> None:
        """Write one line for the training loss or for the dev scores."""
        if not launch.is_first():
            return
        logs, epoch = logs or {}, round(float(state.epoch or 0.0), 4)
        if "loss" in logs:
            line = TrainRecord(
                step=state.global_step,
                epoch=epoch,
                loss=logs["loss"],
                lr=logs.get("learning_rate"),
                grad_norm=logs.get("grad_norm"),
                open_fraction=self.gate.tuner.open_fraction if self.gate.tuner else None,
            ).line()
        elif "eval_loss" in logs:
            line = DevRecord(state.global_step, dev_scores(logs)).line(epoch)
        else:
            return
        append_text(self.folder.history_file, json.dumps(line) + "\n")


class StepTimer(TrainerCallback):  # type: ignore[misc]
    """Measures the wall time of each optimizer step, without evaluation and saving.

    A checkpoint has these times and the counts of the activation cache, so that a resumed run has those of all steps.
    """

    def __init__(self, gate: GateCallback) -> None:
        self.durations: list[float] = []
        self._gate = gate
        self._started = 0.0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Restore the times and counts of the steps before a resume."""
        file = checkpoint_of(args, state) / COST_FILE
        saved = read_json(file) if state.global_step and file.is_file() else {}
        self.durations = saved.get("durations", [])
        counts, before = self._cached_rows, saved.get("prefix_rows")
        if counts is not None and before is not None and launch.is_first():  # they are those of all processes
            counts.read += before["read"]
            counts.computed += before["computed"]

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the timer."""
        self._started = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop the timer."""
        self.durations.append(time.perf_counter() - self._started)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the times and counts into the checkpoint."""
        rows = self.prefix_rows()
        if launch.is_first():
            write_json(checkpoint_of(args, state) / COST_FILE, {"durations": self.durations, "prefix_rows": rows})

    def prefix_rows(self) -> dict[str, int] | None:
        """Return the counts of the activation cache, over all processes, each of which calls this; None without it."""
        if self._cached_rows is None:
            return None
        counts = asdict(self._cached_rows)
        total = launch.add_up(torch.tensor(list(counts.values())))
        return dict(zip(counts, total.tolist(), strict=True))

    @property
    def _cached_rows(self) -> RowCounts | None:
        return None if self._gate.tuner is None else self._gate.tuner.cached_rows

    @property
    def seconds_per_step(self) -> float:
        """Median over the steps; 0.0 before the first."""
        return median(self.durations) if self.durations else 0.0


class BestCheckpoint(TrainerCallback):  # type: ignore[misc]
    """Keeps the weights with the best dev score and their predictions; in a tie, the earliest.

    Args:
        folder: of the run.
        metric, higher_is_better: the metric that selects.
        predictions: returns name -> content of the prediction files of the latest score.
    """

    def __init__(
        self, folder: RunFolder, metric: str, higher_is_better: bool, predictions: Callable[[], dict[str, str]]
    ) -> None:
        self.folder = folder
        self.metric = metric
        self.predictions = predictions
        self._sign = 1.0 if higher_is_better else -1.0

    def kept(self) -> tuple[Path, dict[str, Any]] | None:
        """Return the folder of the best weights and its dev scores with their ``step``; None before the first score."""
        sealed = [file.parent for file in self.folder.best.glob(f"step-*/{SEAL_FILE}")]
        # A metric that selects nothing may be NaN.
        scored = [(folder, read_json(folder / "dev.json", finite=False)) for folder in sealed]
        return max(scored, key=lambda f: (self._sign * f[1][self.metric], -f[1]["step"]), default=None)

    def is_lost(self, checkpoint: Path) -> bool:
        """Return True if the training up to a checkpoint scored better on dev than the stored weights."""
        log = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME)).log_history
        scores = [self._sign * entry[f"eval_{self.metric}"] for entry in log if f"eval_{self.metric}" in entry]
        best = self.kept()
        return bool(scores) and (best is None or self._sign * best[1][self.metric] < max(scores))

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Logs = None, **kwargs: Any
    ) -> None:
        """Save the weights if they are the best so far, then remove the previous ones."""
        scores = {"step": state.global_step, **dev_scores(metrics or {})}
        if not launch.on_first(lambda: self._improves(scores)):
            return
        model, target = kwargs["model"], self.folder.best / f"step-{state.global_step}"
        # Not save_pretrained: it renames the tensors of some models, and these are loaded back into the same module.
        if is_sharded(model):
            save_whole(model, target / WEIGHTS_FILE)
        elif launch.is_first():
            target.mkdir(parents=True, exist_ok=True)
            write_weights(model, target / WEIGHTS_FILE)
        if launch.is_first():
            self._keep(target, scores)

    def _improves(self, scores: dict[str, Any]) -> bool:
        best = self.kept()
        return best is None or self._sign * (scores[self.metric] - best[1][self.metric]) > 0

    def _keep(self, target: Path, scores: dict[str, Any]) -> None:
        for name, text in self.predictions().items():
            write_text(target / PREDICTIONS_FOLDER / f"{name}.jsonl", text)
        write_json(target / "dev.json", scores)
        seal(target)  # last: weights without it do not count
        for other in self.folder.best.glob("step-*"):
            if other != target:
                shutil.rmtree(other)


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """Shows progress, scores and saves at the last step, and stops on request.

    Args:
        progress: receives steps, losses and scores.
        metric: the one that is shown.
        stop: when set, training stops after the current step.
        scores: whether to score dev after the last step.
        until: the optimizer step after which training stops; None for the last one.
    """

    def __init__(
        self, progress: RunProgress, metric: str, stop: Event, *, scores: bool = True, until: int | None = None
    ) -> None:
        self.progress = progress
        self.metric = metric
        self.stop = stop
        self.scores = scores
        self.until = until
        self._loss: float | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Report the number of steps; stop a run that resumes after its last step."""
        self.progress.begin(state.max_steps, state.global_step)
        if state.global_step >= self._last(state):
            control.should_training_stop = True

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Logs = None, **_: Any
    ) -> None:
        """Remember the latest loss."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Logs = None, **_: Any
    ) -> None:
        """Report the dev score."""
        self.progress.scored("dev", self.metric, dev_scores(metrics or {})[self.metric])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Report the step; request the evaluation or the checkpoint that the end or an interrupt needs."""
        self.progress.advance(state.global_step, self._loss)
        control.should_log = control.should_log or control.should_save
        if state.global_step >= state.max_steps:
            control.should_evaluate = self.scores
        elif state.global_step >= self._last(state) or launch.any_of(self.stop.is_set()):
            control.should_save = True
            control.should_training_stop = True

    def _last(self, state: TrainerState) -> int:
        """Return the step to stop after, without an interrupt."""
        return int(state.max_steps if self.until is None else min(self.until, state.max_steps))


class SealCheckpoint(TrainerCallback):  # type: ignore[misc]
    """Seals a checkpoint once all other callbacks and processes have written into it; must be the last."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the digests of the checkpoint's files."""
        launch.wait()  # each process writes its own random state
        if launch.is_first():
            seal(checkpoint_of(args, state))
