"""A run that stops at a step: what it scores on dev there."""

from __future__ import annotations

from gradgate.distributed import launch
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, read_history
from gradgate.runs.pauses import note_pause
from gradgate.runs.progress import RunProgress
from gradgate.training.trainer import ExactTrainer, dev_scores


def pause(trainer: ExactTrainer, folder: RunFolder, metric: str, seconds: float, progress: RunProgress) -> None:
    """Score dev, unless the training has done so after its last step, and note both in ``pauses.json``.

    The checkpoint is written before this, so that what is scored here leaves no trace in what a resumed run computes:
    it draws nothing, selects no weights, and is not in ``history.jsonl``.

    Args:
        trainer: whose training has stopped, with the weights of that step.
        folder: of the run.
        metric: that selects.
        seconds: of training so far.
        progress: is told the score.
    """
    step, of_steps = trainer.state.global_step, trainer.state.max_steps
    scores = launch.on_first(lambda: _evaluated(folder, step))
    if scores is None:
        for callback in list(trainer.callback_handler.callbacks):
            trainer.remove_callback(callback)
        scores = DevRecord(step, dev_scores(trainer.evaluate()))
        progress.scored("dev", metric, scores.metrics[metric])
    launch.on_first(lambda: note_pause(folder, metric, of_steps, seconds, scores))


def _evaluated(folder: RunFolder, step: int) -> DevRecord | None:
    """The scores on dev that the training itself has noted for a step."""
    return next((record for record in read_history(folder.history_file).dev if record.step == step), None)
