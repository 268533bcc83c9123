"""Score dev when a run pauses at a step."""

from __future__ import annotations

from gradgate.distributed import launch
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, read_history
from gradgate.runs.pauses import note_pause
from gradgate.runs.progress import RunProgress
from gradgate.training.trainer import ExactTrainer, dev_scores


def pause(trainer: ExactTrainer, folder: RunFolder, metric: str, seconds: float, progress: RunProgress) -> None:
    """Score dev, unless the training has done so at this step, and write step and scores to ``pauses.json``.

    The checkpoint exists already, so this score does not affect a resumed run: it draws no random numbers, selects no
    weights, and is not in ``history.jsonl``.

    Args:
        trainer: the stopped Trainer, with the weights of that step.
        folder: of the run.
        metric: the one that selects.
        seconds: of training so far.
        progress: receives the score.
    """
    step, of_steps = trainer.state.global_step, trainer.state.max_steps
    scores = launch.on_first(lambda: _evaluated(folder, step))
    if scores is None:
        # Otherwise BestCheckpoint would store these weights, and HistoryLogger would append a line.
        for callback in list(trainer.callback_handler.callbacks):
            trainer.remove_callback(callback)
        scores = DevRecord(step, dev_scores(trainer.evaluate()))
        progress.scored("dev", metric, scores.metrics[metric])
    launch.on_first(lambda: note_pause(folder, metric, of_steps, seconds, scores))


def _evaluated(folder: RunFolder, step: int) -> DevRecord | None:
    """Return the dev scores of a step from ``history.jsonl``; None if the training did not score there."""
    return next((record for record in read_history(folder.history_file).dev if record.step == step), None)
