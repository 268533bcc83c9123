"""Score the test splits while a run trains, for curves; these scores never select a checkpoint."""

from __future__ import annotations

import json
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.distributed import launch
from gradgate.files import append_text
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import EpochScores, read_history
from gradgate.torch_state import preserved_state
from gradgate.training.prepared_task import EncodedTask

_ROUNDING = 1e-6  # how far the number of a finished epoch may be from an integer


class EachEpochScorer(TrainerCallback):  # type: ignore[misc]
    """Scores every test split at the end of each epoch, and after the last step.

    The scores go into ``history.jsonl`` and nowhere else. The training draws and selects as if they had not been made.

    Args:
        trainer: the one that trains.
        encoded: the data.
        folder: of the run.
    """

    def __init__(self, trainer: Any, encoded: EncodedTask, folder: RunFolder) -> None:
        self._trainer, self._encoded, self._folder = trainer, encoded, folder
        self._scored = 0  # the step

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Score the epoch at whose end the run was killed, after its checkpoint and before its scores."""
        if state.global_step == 0 or not _ends_epoch(state):
            return
        if all(scores.step != state.global_step for scores in read_history(self._folder.history_file).tests):
            self._score(state, model)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Score the test splits if an epoch, or the training, has ended."""
        if _ends_epoch(state) or state.global_step >= state.max_steps:
            self._score(state, model)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Score the test splits after an epoch whose end is not scored on dev; a pause within one comes here, too."""
        if self._scored != state.global_step and state.global_step < state.max_steps and _ends_epoch(state):
            self._score(state, model)

    def _score(self, state: TrainerState, model: Any) -> None:
        """Append one line per split."""
        self._scored, epoch = state.global_step, float(state.epoch or 0.0)
        with preserved_state(model):
            tests = self._encoded.test_metrics(self._trainer)
        if launch.is_first():
            records = [
                EpochScores(state.global_step, round(epoch, 4), split, scores) for split, scores in tests.items()
            ]
            lines = [json.dumps(record.line()) + "\n" for record in records]
            append_text(self._folder.history_file, "".join(lines))


def _ends_epoch(state: TrainerState) -> bool:
    epoch = float(state.epoch or 0.0)
    return abs(epoch - round(epoch)) <= _ROUNDING
