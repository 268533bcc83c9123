"""Score the test splits while a run trains, for curves; these scores never select a checkpoint."""

from __future__ import annotations

import json
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.distributed import launch
from gradgate.files import append_text
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import EpochScores
from gradgate.torch_state import preserved_state
from gradgate.training.prepared_task import EncodedTask

_ROUNDING = 1e-6  # how far the number of a finished epoch may be from an integer


class EachEpochScorer(TrainerCallback):  # type: ignore[misc]
    """Scores every test split when dev is scored at the end of an epoch, and after the last step.

    The scores go into ``history.jsonl`` and nowhere else. The training draws and selects as if they had not been made.

    Args:
        trainer: the one that trains.
        encoded: the data.
        folder: of the run.
    """

    def __init__(self, trainer: Any, encoded: EncodedTask, folder: RunFolder) -> None:
        self._trainer, self._encoded, self._folder = trainer, encoded, folder

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Score the test splits and append one line per split."""
        epoch = float(state.epoch or 0.0)
        if abs(epoch - round(epoch)) > _ROUNDING and state.global_step < state.max_steps:
            return
        with preserved_state(model):
            tests = self._encoded.test_metrics(self._trainer)
        if launch.is_first():
            records = [
                EpochScores(state.global_step, round(epoch, 4), split, scores) for split, scores in tests.items()
            ]
            lines = [json.dumps(record.line()) + "\n" for record in records]
            append_text(self._folder.history_file, "".join(lines))
