"""Train one run: one model, one task, one method, one seed, one folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, overload

from transformers import PrinterCallback

from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError
from gradgate.methods.fixed import Probe
from gradgate.replacing import share
from gradgate.runs.checkpoints import is_whole, writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import stoppable
from gradgate.runs.model import forget_delta, store
from gradgate.runs.pauses import read_progress
from gradgate.runs.predictions import copy_predictions
from gradgate.runs.progress import RunProgress, Silent
from gradgate.runs.records import RunRecord, read_record, to_json, write_record
from gradgate.runs.scores import FileSizes, Scores, read_scores
from gradgate.runs.state import Progress
from gradgate.settings.run import RunConfig
from gradgate.torch_state import cpu_threads
from gradgate.training import adapted
from gradgate.training.arguments import on_cpu, training_arguments
from gradgate.training.callbacks import (
    PREDICTIONS_FOLDER,
    BestCheckpoint,
    HistoryLogger,
    ProgressCallback,
    SealCheckpoint,
    StepTimer,
)
from gradgate.training.costs import cost_of, reset_peak_memory
from gradgate.training.epoch_scores import EachEpochScorer
from gradgate.training.fisher_tracker import FisherTracker
from gradgate.training.fsdp import check_launch, is_sharded, shard, whole_weights
from gradgate.training.gate_callback import GateCallback
from gradgate.training.masked import pretraining
from gradgate.training.pausing import pause
from gradgate.training.probe.callback import FitHead
from gradgate.training.reporting.trackers import Trackers
from gradgate.training.single_task import EncodedSingleTask
from gradgate.training.start import PreparedRun, prepare_run
from gradgate.training.trainer import ExactTrainer, check_complete
from gradgate.training.weight_history import WeightHistory


@overload
def train(
    config: RunConfig,
    out: Path | str,
    progress: RunProgress | None = None,
    *,
    cache: Path | None = None,
    until: None = None,
) -> dict[str, Any]: ...
@overload
def train(
    config: RunConfig, out: Path | str, progress: RunProgress | None = None, *, cache: Path | None = None, until: int
) -> Progress: ...
def train(
    config: RunConfig,
    out: Path | str,
    progress: RunProgress | None = None,
    *,
    cache: Path | None = None,
    until: int | None = None,
) -> dict[str, Any] | Progress:
    """Train, select on dev, score on every test split; resume if the folder has a checkpoint.

    If several processes are launched, each must call this; only the first one writes files and shows progress.

    Pass ``until`` to pause at that step; call again with a later step, or without one, to resume, with the same bits as
    a run that was never paused: methods and rates follow the full schedule, and the pause's score selects no weights.

    Args:
        config: of the run.
        out: the run folder; created if it does not exist. All processes must see the same one.
        progress: receives each step, its loss, and the scores.
        cache: a folder that runs share, for the activation cache (unless the configuration names one) and the scores
            of the pretrained model for forgetting; by default in the run folder, and removed when the run finishes.
        until: the optimizer step, counted from the start of the run, to pause at: dev is scored and a checkpoint is
            saved there. A run with fewer steps is trained to its end. None trains to the end.

    Returns:
        The content of ``scores.json``; with ``until``, the progress of the run and its scores on dev.

    Raises:
        GradgateError: for any fault that a user can fix; files that were saved before stay in the folder. A wrong
            setting leaves no new folder.
        FolderLockedError: if another process trains in the folder.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the run after saving it.
    """
    _check_pause(until)
    folder = RunFolder(Path(out))
    progress = progress if progress and launch.is_first() else Silent()
    config.check_adapter()
    check_launch(config)
    launch.join(on_cpu(config))
    with _removed_if_unused(folder):
        scores = _train_in(config, folder, progress, cache or folder.cache, until)
    if until is not None:
        reached = launch.on_first(lambda: read_progress(folder))
        assert reached is not None, "a run that ends without an error has finished or is paused"
        return reached
    record: dict[str, Any] = to_json(scores or launch.on_first(lambda: read_scores(folder.scores_file)))
    return record


@contextmanager
def _removed_if_unused(folder: RunFolder) -> Iterator[None]:
    """Remove a folder that is made in the body if a wrong setting ends it before the first step."""
    is_new = not folder.path.exists()
    try:
        yield
    except UsageError:
        if is_new and launch.is_first() and not folder.history_file.is_file():
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _check_pause(until: int | None) -> None:
    """Raise UsageError for a step that no run can be paused at."""
    if until is not None and until < 1:
        raise UsageError(f"until={until}: expected the optimizer step to pause at, 1 or more. None trains to the end.")


def _train_in(
    config: RunConfig, folder: RunFolder, progress: RunProgress, cache: Path, until: int | None
) -> Scores | None:
    """Train in a folder while it is locked. Return the scores; None if there is nothing to do, or the run paused."""
    with ExitStack() as locks:
        done = launch.on_first(lambda: _claim(config, folder, locks, until))
        if done:
            progress.note(f"{folder.path} {done}; nothing to do.")
            return None
        with writing_to(folder.path), stoppable(progress.note) as stop, cpu_threads(config.threads):
            return _train(config, folder, progress, stop, cache, until)


def _claim(config: RunConfig, folder: RunFolder, locks: ExitStack, until: int | None) -> str:
    """Claim the folder with ``RunFolder.claim_alone``. Return why there is nothing to train; empty if there is."""
    done = "is finished" if folder.claim_alone(config, launch.count(), locks) else ""
    if done and config.keep_model and not folder.model.is_dir():
        kept = read_record(folder.run_file, RunRecord).config.get("keep_model", True)
        why = f"{folder.model} has been removed" if kept else "it kept no model; pass another out= to train one"
        done = f"{done}, though {why}"
    reached = read_progress(folder) if until is not None and not done else None
    if reached is not None and until is not None and reached.step >= until:
        done = f"is paused at {reached}"
    if done:
        read_record(folder.run_file, RunRecord).check_plan(config.followed, folder.path)
    return done


def _train(
    config: RunConfig, folder: RunFolder, progress: RunProgress, stop: Event, cache: Path, until: int | None
) -> Scores | None:
    """Train until a step. Return the scores; None if the run is paused."""
    config.require_trackers()
    reset_peak_memory()
    run = prepare_run(config, folder, progress, stop, cache)
    with Trackers(config, folder, progress.note) as trackers:
        return _train_prepared(run, trackers, stop, until)


def _train_prepared(run: PreparedRun, trackers: Trackers, stop: Event, until: int | None) -> Scores | None:
    config, folder, progress = run.config, run.folder, run.progress
    best = BestCheckpoint(folder, run.prepared.metric, run.prepared.higher_is_better, run.encoded.predictions)
    timer = StepTimer(run.gate)
    shown = ProgressCallback(progress, run.prepared.metric, stop, until=until)
    trainer = _trainer(run, best, timer, shown, trackers)
    checkpoint = launch.on_first(lambda: _resumed(folder, best, progress))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    launch.on_first(lambda: _write_plan(run.gate, folder))
    if until is not None and until <= trainer.state.global_step < trainer.state.max_steps:
        pause(trainer, folder, run.prepared.metric, sum(timer.durations), progress)
        return None
    check_complete(trainer, folder)
    scores = _score(run, trainer, best, timer)
    launch.on_first(lambda: _finish(folder, scores, config.keep_model))
    trackers.report(scores)  # last, since a tracker that cannot be reached is no reason to lose the run
    return scores


def _trainer(
    run: PreparedRun, best: BestCheckpoint, timer: StepTimer, shown: ProgressCallback, trackers: Trackers
) -> ExactTrainer:
    """Shard the model if asked for, and build its Trainer with all callbacks in their order."""
    config, folder, model, gate = run.config, run.folder, run.model, run.gate
    arguments = training_arguments(config, folder, run.encoded.windows, **trackers.arguments)
    if config.fsdp:
        shard(model, run.layers, arguments.device)
        if run.forgetting is not None:
            run.forgetting.begin(model)
    # The tuner attaches first, since the others read its state; measurements come after the timer, so that they do not
    # count as time of a step; the seal comes last, since it has the digests of what the others write on a save.
    callbacks: list[Any] = [gate, HistoryLogger(folder, gate), best]
    if config.keep_checkpoints:
        callbacks.append(WeightHistory(folder, gate))
    callbacks.append(timer)
    if config.track is not None:
        callbacks.append(FisherTracker(config.track, model, run.layers, gate, folder, config.seed, run.progress.note))
    callbacks.append(shown)
    if isinstance(config.method, Probe):
        assert isinstance(run.encoded, EncodedSingleTask), "other tasks are refused"
        callbacks.append(FitHead(config.method, run.encoded, gate, run.fresh, timer, shown.until, run.progress))
    callbacks.append(SealCheckpoint())
    trainer: ExactTrainer = run.encoded.trainer(
        model=model, args=arguments, processing_class=run.tokenizer, callbacks=callbacks
    )
    trainer.remove_callback(PrinterCallback)
    trackers.attach(trainer)
    if config.test_each_epoch:
        trainer.add_callback(EachEpochScorer(trainer, run.encoded, folder))
    return trainer


def _keep_model(run: PreparedRun, whole: dict[str, Any] | None) -> FileSizes | None:
    """Write the trained model, its delta, or its adapter; ``whole`` are the full weights of a sharded one."""
    config, folder = run.config, run.folder
    if not config.keep_model:
        return None
    forget_delta(folder)
    if config.adapter is not None:
        adapted.save_adapted(run.model, config.adapter.kind, folder.model, run.fresh)
    else:
        run.prepared.save_model(run.model, config, folder, whole)
    run.tokenizer.save_pretrained(folder.model)
    share(folder.model.rglob("*.safetensors"))
    return store(config, folder, run.prepared.record().name, run.progress)


def _finish(folder: RunFolder, scores: Scores, keep_model: bool) -> None:
    """Write the scores and remove the files that only training needs."""
    write_record(folder.scores_file, scores)  # from here on, the run counts as finished
    folder.error_file.unlink(missing_ok=True)
    if not keep_model:
        RunFolder(folder.tapt).encoder.unlink(missing_ok=True)
        shutil.rmtree(folder.language_adapters, ignore_errors=True)
    folder.clean()


def _resumed(folder: RunFolder, best: BestCheckpoint, progress: RunProgress) -> Path | None:
    """Return the checkpoint to resume from; None for a run that starts."""
    checkpoint = folder.latest_checkpoint()
    if checkpoint is not None and best.is_lost(checkpoint):
        progress.note(
            f"The best weights up to {checkpoint.name} are no longer in {folder.best}, so the run starts over: without "
            f"them, it would select others."
        )
        shutil.rmtree(folder.checkpoints)
        return None
    if checkpoint is not None:
        progress.note(f"Resuming from {checkpoint.name} in {folder.path}.")
    return checkpoint


def _write_plan(gate: GateCallback, folder: RunFolder) -> None:
    tuner = gate.tuner
    assert tuner is not None
    folder.write_plan(tuner.timeline.described(tuner.method, tuner.layers, tuner.clock.step))


def _score(run: PreparedRun, trainer: ExactTrainer, best: BestCheckpoint, timer: StepTimer) -> Scores:
    """Score the best weights on every split, measure what they cost and forgot, and store the model."""
    config, folder, model, forgetting = run.config, run.folder, run.model, run.forgetting
    weights, dev = launch.on_first(lambda: _best(best))
    trainer.load_weights(weights)
    launch.on_first(lambda: copy_predictions(weights / PREDICTIONS_FOLDER, folder))
    step = int(dev.pop("step"))
    splits = run.encoded.scores(trainer, dev, folder)
    kind = config.adapter.kind if config.adapter is not None else None
    # Without an adapter, TAPT has changed the encoder too, so a task stores all of it.
    changed = pretraining.encoder_of(model) if config.tapt is not None and kind is None else ()
    cost = cost_of(trainer, run.gate, timer, run.fresh | frozenset(changed), kind)
    forgotten = None if forgetting is None else forgetting.record(trainer.accelerator.unwrap_model(trainer.model))
    whole = whole_weights(model) if is_sharded(model) and config.keep_model else None
    return Scores(
        metric=best.metric,
        best_step=step,
        dev=splits.dev,
        tests=splits.tests,
        tasks=splits.tasks,
        averages=splits.averages,
        cost=replace(cost, files=launch.on_first(lambda: _keep_model(run, whole))),
        forgetting=forgotten,
    )


def _best(best: BestCheckpoint) -> tuple[Path, dict[str, Any]]:
    stored = best.kept()
    assert stored is not None, "the last step is always scored on dev"
    if not is_whole(stored[0]):
        raise RunError(f"The best weights in {stored[0]} are damaged. Remove {best.folder.path} to train them again.")
    return stored
