"""One run: one model, one task, one method, one seed, one folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, overload

from transformers import PrinterCallback, set_seed

from gradgate.activation_cache import ActivationCache
from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError
from gradgate.layers import LayerMap, map_layers
from gradgate.methods.base import Method
from gradgate.methods.new_tokens import NewTokens
from gradgate.runs.checkpoints import is_whole, writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import stoppable
from gradgate.runs.model import forget_delta, store
from gradgate.runs.pauses import read_progress
from gradgate.runs.predictions import copy_predictions
from gradgate.runs.progress import RunProgress, Silent
from gradgate.runs.records import (
    Cost,
    FileSizes,
    RunRecord,
    Scores,
    read_record,
    read_scores,
    to_json,
    versions,
    write_record,
)
from gradgate.runs.state import Progress
from gradgate.settings.run import RunConfig
from gradgate.torch_state import cpu_threads
from gradgate.training import adapted
from gradgate.training.callbacks import (
    PREDICTIONS_FOLDER,
    BestCheckpoint,
    HistoryLogger,
    ProgressCallback,
    SealCheckpoint,
    StepTimer,
)
from gradgate.training.costs import cost_of
from gradgate.training.epoch_scores import EachEpochScorer
from gradgate.training.fisher_tracker import FisherTracker
from gradgate.training.forgetting.measures import measure_of
from gradgate.training.forgetting.measuring import Forgetting
from gradgate.training.fsdp import check_launch, is_sharded, shard, whole_weights
from gradgate.training.gate_callback import GateCallback
from gradgate.training.language_stack import check_languages, language_digests, with_languages
from gradgate.training.masked import pretraining
from gradgate.training.new_tokens import describe_new_tokens, method_of, tables
from gradgate.training.pausing import pause
from gradgate.training.prepared_task import EncodedTask, PreparedTask, prepare_task
from gradgate.training.pretrained import load_tokenizer, silence_libraries
from gradgate.training.single_task import EncodedSingleTask
from gradgate.training.trainer import ExactTrainer, check_complete, on_cpu, training_arguments
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
    """Train, select on dev, score on every test split; resume where the folder holds a checkpoint.

    Launched in several processes, each calls this; the first one alone writes files and shows progress.

    With ``until``, a run is paused at a step and goes on in a later call, with a later step or none. It then computes
    the same bits as one that was never paused: methods and learning rates follow the schedule of the whole length, and
    a score on dev that the run would not have taken at that step selects no weights.

    Args:
        config: what to compute.
        out: the run folder; made if it is absent. All processes must see the same one.
        progress: called at each step, with its loss and scores.
        cache: the folder of what runs share: the activation cache where the configuration leaves that open, and what
            the pretrained model scores before forgetting; by default one in the run folder, which is removed when the
            run has finished.
        until: the optimizer step, counted from the start of the run, to pause at: dev is scored and a checkpoint is
            saved there. A run with fewer steps is trained to its end. None trains to the end.

    Returns:
        What ``scores.json`` holds; with ``until``, how far the run is and its scores on dev.

    Raises:
        UsageError: if ``until`` is less than 1.
        GradgateError: for anything that a user can mend; the folder keeps what was saved before.
        FolderLockedError: if another process trains in the folder.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the run after saving it.
    """
    if until is not None and until < 1:
        raise UsageError(f"until={until}: expected the optimizer step to pause at, 1 or more. None trains to the end.")
    folder = RunFolder(Path(out))
    progress = progress if progress and launch.is_first() else Silent()
    config.check_adapter()
    check_launch(config)
    launch.join(on_cpu(config))
    with ExitStack() as held:
        done = launch.on_first(lambda: _claim(config, folder, held, until))
        if done:
            progress.note(f"{folder.path} {done}; nothing to do.")
            scores = None
        else:
            with writing_to(folder.path), stoppable(progress.note) as stop, cpu_threads(config.threads):
                scores = _train(config, folder, progress, stop, cache or folder.cache, until)
    if until is not None:
        reached = launch.on_first(lambda: read_progress(folder))
        assert reached is not None, "a run that ends without an error has finished or is paused"
        return reached
    record: dict[str, Any] = to_json(scores or launch.on_first(lambda: read_scores(folder.scores_file)))
    return record


def _claim(config: RunConfig, folder: RunFolder, held: ExitStack, until: int | None) -> str:
    """Make the folder this run's, as ``RunFolder.claim_alone`` does. What is done already, where that is all."""
    done = "is finished" if folder.claim_alone(config, held) else ""
    reached = read_progress(folder) if until is not None and not done else None
    if reached is not None and until is not None and reached.step >= until:
        done = f"is paused at {reached}"
    if done:
        read_record(folder.run_file, RunRecord).check_plan(config.followed, folder.path)
    return done


def _train(
    config: RunConfig, folder: RunFolder, progress: RunProgress, stop: Event, cache: Path, until: int | None
) -> Scores | None:
    """Train until a step. The scores; None if the run is paused."""
    silence_libraries()
    kept = activation_cache_of(config, cache, progress)
    prepared = prepare_task(config)
    for text in prepared.notes:
        progress.note(text)
    tokenizer = load_tokenizer(config)
    method = method_of(config, tokenizer)
    if isinstance(method, NewTokens):
        progress.note(describe_new_tokens(tokenizer, method.rows))
    encoded = prepared.encode(config, tokenizer)
    for text in encoded.notes:
        progress.note(text)
    encoded = with_languages(config, folder, encoded)
    forgetting = _forgetting(config, prepared, tokenizer, cache, progress)
    if config.tapt is not None:
        assert isinstance(encoded, EncodedSingleTask), "several tasks are refused"
        pretraining.adapt(config, tokenizer, encoded.train, folder.tapt, progress, stop)
    model, fresh = load_start(config, folder, prepared, tokenizer, forgetting if not config.fsdp else None)
    check_languages(model, encoded)
    layers = map_layers(model, layers=config.layers)
    gate = _gate(config, method, layers, kept)
    method.check(layers.at(method.traits.unit))
    launch.on_first(lambda: _write_run_file(config, folder, prepared, model, encoded))
    arguments = training_arguments(config, folder, encoded.windows)
    if config.fsdp:
        shard(model, layers, arguments.device)
        if forgetting is not None:
            forgetting.begin(model)
    best = BestCheckpoint(folder, prepared.metric, prepared.higher_is_better, encoded.predictions)
    timer, shown = StepTimer(), ProgressCallback(progress, prepared.metric, stop, until=until)
    tracker = _tracker(config, model, layers, gate, folder, progress)
    keeper = [WeightHistory(folder, gate)] if config.keep_checkpoints else []
    callbacks = [gate, HistoryLogger(folder, gate), best, *keeper, timer, *tracker, shown, SealCheckpoint()]
    trainer = encoded.trainer(model=model, args=arguments, processing_class=tokenizer, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    if config.test_each_epoch:
        trainer.add_callback(EachEpochScorer(trainer, encoded, folder))
    checkpoint = launch.on_first(lambda: _resumed(folder, best, progress))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    launch.on_first(lambda: _write_plan(gate, folder))
    if until is not None and until <= trainer.state.global_step < trainer.state.max_steps:
        pause(trainer, folder, prepared.metric, sum(timer.durations), progress)
        return None
    check_complete(trainer, folder)
    kind = config.adapter.kind if config.adapter is not None else None
    lacked = fresh | frozenset(pretraining.encoder_of(model) if config.tapt is not None and kind is None else ())
    scores = _score(trainer, encoded, best, folder, lambda: cost_of(trainer, gate, timer, lacked, kind))
    if forgetting is not None:
        scores = replace(scores, forgetting=forgetting.record(trainer.accelerator.unwrap_model(trainer.model)))
    whole = whole_weights(model) if is_sharded(model) and config.keep_model else None
    files = launch.on_first(lambda: _keep_model(config, folder, prepared, model, tokenizer, fresh, whole, progress))
    scores = replace(scores, cost=replace(scores.cost, files=files))
    launch.on_first(lambda: _finish(folder, scores, config.keep_model))
    return scores


def _forgetting(
    config: RunConfig, prepared: PreparedTask, tokenizer: Any, shared: Path, progress: RunProgress
) -> Forgetting | None:
    """What measures forgetting, if anything does."""
    measure = measure_of(config, prepared.record(), tokenizer)
    for text in measure.notes if measure is not None else ():
        progress.note(text)
    return None if measure is None else Forgetting(measure, shared, progress.note)


def _gate(config: RunConfig, method: Method, layers: LayerMap, cache: ActivationCache | None) -> GateCallback:
    return GateCallback(
        method,
        seed=config.seed,
        audit=config.audit,
        layers=layers,
        activation_cache=cache,
        frozen_dropout=bool(config.frozen_dropout),
        lr_scale=config.lr_scale,
        master=config.master,
        release_gradients=bool(config.release_gradients),
    )


def _keep_model(
    config: RunConfig,
    folder: RunFolder,
    prepared: PreparedTask,
    model: Any,
    tokenizer: Any,
    fresh: frozenset[str],
    whole: dict[str, Any] | None,
    progress: RunProgress,
) -> FileSizes | None:
    """Write the trained model, its delta, or its adapter; ``whole`` are the weights of a sharded one."""
    if not config.keep_model:
        return None
    forget_delta(folder)
    if config.adapter is not None:
        adapted.save_adapted(model, config.adapter.kind, folder.model, fresh)
    else:
        prepared.save_model(model, config, folder, whole)
    tokenizer.save_pretrained(folder.model)
    return store(config, folder, prepared.record().name, progress)


def _finish(folder: RunFolder, scores: Scores, keep_model: bool) -> None:
    """Write the scores last: with them the run counts as finished."""
    write_record(folder.scores_file, scores)
    folder.error_file.unlink(missing_ok=True)
    if not keep_model:
        RunFolder(folder.tapt).encoder.unlink(missing_ok=True)
        shutil.rmtree(folder.language_adapters, ignore_errors=True)
    folder.clean()


def _tracker(
    config: RunConfig, model: Any, layers: LayerMap, gate: GateCallback, folder: RunFolder, progress: RunProgress
) -> list[FisherTracker]:
    """What measures beside the training, if anything does."""
    if config.track is None:
        return []
    return [FisherTracker(config.track, model, layers, gate, folder, config.seed, progress.note)]


def load_start(
    config: RunConfig, folder: RunFolder, prepared: PreparedTask, tokenizer: Any, forgetting: Forgetting | None = None
) -> tuple[Any, frozenset[str]]:
    """The model as training begins with it, and the names of what is fresh.

    It has fresh heads, its adapter if there is one, the source language's below that, and what it has learned from the
    task's texts.

    Sets every random state. ``forgetting`` measures the model before it gets the adapter.
    """
    set_seed(config.seed)
    model, fresh = prepared.load_model(config, tokenizer)
    if forgetting is not None:
        forgetting.begin(model)
    if config.adapter is not None:
        trained = fresh | tables(model) if config.open_new_tokens else fresh
        fresh = adapted.put_adapter(model, config.adapter, trained, config.seed)
    if config.language_adapters is not None:
        LanguageAdapters(config.language_adapters, prepared.record().source, folder.language_adapters).put(model)
    if config.tapt is not None:
        pretraining.begin_with(model, config, folder.tapt)
    return model, fresh


def _resumed(folder: RunFolder, best: BestCheckpoint, progress: RunProgress) -> Path | None:
    """The checkpoint to resume from; None for a run that starts."""
    checkpoint = folder.latest_checkpoint()
    if checkpoint is not None and best.is_lost(checkpoint):
        progress.note(
            f"The best weights up to {checkpoint.name} are no longer in {folder.best}, so the run starts anew: without "
            f"them, it would select others."
        )
        shutil.rmtree(folder.checkpoints)
        return None
    if checkpoint is not None:
        progress.note(f"Resuming from {checkpoint.name} in {folder.path}.")
    return checkpoint


def _write_run_file(
    config: RunConfig, folder: RunFolder, prepared: PreparedTask, model: Any, encoded: EncodedTask
) -> None:
    """Write ``run.json`` before the run trains; RunError if its folder was begun in another way or on other data."""
    record = RunRecord(
        config=config.record(),
        fingerprint=config.fingerprint(),
        versions=versions(*prepared.packages),
        task=prepared.record(),
        train_examples=encoded.examples,
        processes=launch.count(),
        model=adapted.described(model, config.adapter),
        followed=config.followed,
        language_adapters=language_digests(encoded),
    )
    record.check_continues(read_record(folder.run_file, RunRecord), folder.path)
    write_record(folder.run_file, record)


def activation_cache_of(config: RunConfig, cache: Path, progress: RunProgress) -> ActivationCache | None:
    """The activation cache of a run, in the folder ``cache`` unless the configuration names another; None without one.

    Where nothing is said, a prefix must stay closed for one pass to fill the cache and one to gain from it.

    Raises:
        UsageError: for a named folder that cannot be written.
    """
    if config.activation_cache == "off" or config.frozen_dropout:
        return None
    auto = config.activation_cache == "auto"
    kept = ActivationCache(
        folder=cache if auto else Path(config.activation_cache).expanduser(),
        dtype=config.activation_cache_dtype,
        size=config.activation_cache_size,
        passes=2.0 if auto else 1.0,
        note=progress.note,
    )
    if not auto:
        kept.check_folder()
    return kept


def _write_plan(gate: GateCallback, folder: RunFolder) -> None:
    tuner = gate.tuner
    assert tuner is not None
    folder.write_plan(tuner.timeline.described(tuner.method, tuner.layers, tuner.clock.step))


def _score(
    trainer: ExactTrainer, encoded: EncodedTask, best: BestCheckpoint, folder: RunFolder, cost: Callable[[], Cost]
) -> Scores:
    weights, dev = launch.on_first(lambda: _best(best))
    trainer.load_weights(weights)
    launch.on_first(lambda: copy_predictions(weights / PREDICTIONS_FOLDER, folder))
    step = int(dev.pop("step"))
    found = encoded.scores(trainer, dev, folder)
    return Scores(
        metric=best.metric,
        best_step=step,
        dev=found.dev,
        tests=found.tests,
        tasks=found.tasks,
        averages=found.averages,
        cost=cost(),
    )


def _best(best: BestCheckpoint) -> tuple[Path, dict[str, Any]]:
    kept = best.kept()
    assert kept is not None, "the last step is always scored on dev"
    if not is_whole(kept[0]):
        raise RunError(f"The best weights in {kept[0]} are damaged. Remove {best.folder.path} to train them again.")
    return kept
