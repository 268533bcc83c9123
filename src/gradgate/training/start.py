"""Load what a run starts from: its data, its model and its method, checked against each other and the run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import torch
from transformers import set_seed

from gradgate.activation_cache import ActivationCache
from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.layers import LayerMap, map_layers
from gradgate.layers.quantized import quantization_of
from gradgate.methods.base import Method
from gradgate.methods.fixed import Probe
from gradgate.methods.new_tokens import NewTokens
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import RunRecord, read_record, versions, write_record
from gradgate.settings.run import RunConfig
from gradgate.torch_state import move
from gradgate.training import adapted
from gradgate.training.arguments import on_cpu
from gradgate.training.forgetting.measures import measure_of
from gradgate.training.forgetting.measuring import Forgetting
from gradgate.training.fsdp import shard
from gradgate.training.gate_callback import GateCallback
from gradgate.training.language_stack import check_languages, language_digests, with_languages
from gradgate.training.masked import pretraining
from gradgate.training.new_tokens import describe_new_tokens, method_of, tables
from gradgate.training.prepared_task import EncodedTask, PreparedTask, prepare_task
from gradgate.training.pretrained import load_tokenizer, silence_libraries
from gradgate.training.quantized import check_adapted, check_trainable
from gradgate.training.single_task import EncodedSingleTask


@dataclass(frozen=True)
class PreparedRun:
    """A run with its data and its model loaded.

    Attributes:
        fresh: names of the parameters that the pretrained weights lacked.
        layers: the map of the model.
        gate: the callback that applies the method.
    """

    config: RunConfig
    folder: RunFolder
    progress: RunProgress
    prepared: PreparedTask
    tokenizer: Any
    encoded: EncodedTask
    forgetting: Forgetting | None
    model: Any
    fresh: frozenset[str]
    layers: LayerMap
    gate: GateCallback


def prepare_run(config: RunConfig, folder: RunFolder, progress: RunProgress, stop: Event, cache: Path) -> PreparedRun:
    """Load data and model, check that they fit the method and the folder, and write ``run.json``."""
    silence_libraries()
    activation_cache = activation_cache_of(config, cache, progress)
    if isinstance(config.method, Probe) and cache == folder.cache and config.activation_cache == "auto":
        activation_cache = None  # no other run would read what it computes once
    prepared = prepare_task(config)
    for text in prepared.notes:
        progress.note(text)
    tokenizer = load_tokenizer(config)
    method = method_of(config, tokenizer)
    if isinstance(method, NewTokens):
        progress.note(describe_new_tokens(tokenizer, method.rows))
    encoded = prepared.encode(config, tokenizer)
    for text in (*prepared.length_notes(config, tokenizer), *encoded.notes):
        progress.note(text)
    encoded = with_languages(config, folder, encoded)
    forgetting = _forgetting(config, prepared, tokenizer, cache, progress)
    if config.tapt is not None:
        assert isinstance(encoded, EncodedSingleTask), "several tasks are refused"
        pretraining.adapt(config, tokenizer, encoded.train, folder.tapt, progress, stop)
    # A sharded model is scored after sharding (see training.run): it may not fit one device before.
    model, fresh = load_start(
        config, folder, prepared, tokenizer, forgetting if not config.fsdp else None, note=progress.note
    )
    check_languages(model, encoded)
    layers = map_layers(model, layers=config.layers)
    gate = _gate(config, method, layers, activation_cache)
    method.check(layers.at(method.traits.unit))
    launch.on_first(lambda: _write_run_file(config, folder, prepared, model, encoded))
    return PreparedRun(config, folder, progress, prepared, tokenizer, encoded, forgetting, model, fresh, layers, gate)


def _forgetting(
    config: RunConfig, prepared: PreparedTask, tokenizer: Any, shared: Path, progress: RunProgress
) -> Forgetting | None:
    """Return the measurements of forgetting; None if the configuration asks for none."""
    pretrained = partial(load_reference, config, prepared, tokenizer)
    measure = measure_of(config, prepared.record(), tokenizer, pretrained)
    for text in measure.notes if measure is not None else ():
        progress.note(text)
    return None if measure is None else Forgetting(measure, shared, progress.note)


def load_reference(config: RunConfig, prepared: PreparedTask, tokenizer: Any, device: torch.device) -> Any:
    """Load the pretrained model to compare the trained one with, on its device, and in shards if that is.

    Sets every random state.
    """
    model = load_unadapted(config, prepared, tokenizer)[0].eval()
    if config.fsdp:
        shard(model, map_layers(model, layers=config.layers), device)
    else:
        move(model, device)
    return model


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


def load_unadapted(
    config: RunConfig, prepared: PreparedTask, tokenizer: Any, note: Callable[[str], None] = lambda text: None
) -> tuple[Any, frozenset[str]]:
    """Load the pretrained model with the heads and new tokens that the run's seed draws; return it and what is fresh.

    Sets every random state. ``note`` receives a sentence on a head that the checkpoint brings.
    """
    set_seed(config.seed)
    return prepared.load_model(config, tokenizer, note)


def load_start(
    config: RunConfig,
    folder: RunFolder,
    prepared: PreparedTask,
    tokenizer: Any,
    forgetting: Forgetting | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[Any, frozenset[str]]:
    """Load the model that training starts from; return it and the names of its fresh parameters.

    It has the heads of the task, the run's adapter if there is one, the source language's adapter below that, and the
    weights that were pretrained on the task's texts.

    Sets every random state. ``forgetting`` measures the model before it gets the adapter; ``note`` receives a sentence
    on a head that the checkpoint brings.
    """
    model, fresh = load_unadapted(config, prepared, tokenizer, note)
    check_adapted(quantization_of(model), config.arm, config.model)
    check_trainable(model, config.model)
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


def _write_run_file(
    config: RunConfig, folder: RunFolder, prepared: PreparedTask, model: Any, encoded: EncodedTask
) -> None:
    """Write ``run.json``; raise RunError if the folder's run started with other settings or on other data."""
    weights = encoded.class_weights if isinstance(encoded, EncodedSingleTask) else None
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
        class_weights=weights.record if weights is not None else None,
    )
    record.check_continues(read_record(folder.run_file, RunRecord), folder.path)
    write_record(folder.run_file, record)


def activation_cache_of(config: RunConfig, cache: Path, progress: RunProgress) -> ActivationCache | None:
    """Return the activation cache of a run, in ``cache`` unless the configuration names a folder; None without one.

    By default, a prefix is cached only on a CPU, and only if it stays frozen for at least two epochs: one to fill the
    cache and one to benefit. A fast GPU computes a row about as fast as it is read (benchmarks/GPU.md).

    Raises:
        UsageError: for a named folder that cannot be written.
    """
    if config.activation_cache == "off" or config.frozen_dropout:
        return None
    auto = config.activation_cache == "auto"
    if auto and not on_cpu(config):
        return None
    made = ActivationCache(
        folder=cache if auto else Path(config.activation_cache),
        dtype=config.activation_cache_dtype,
        size=config.activation_cache_size,
        passes=2.0 if auto else 1.0,
        note=progress.note,
    )
    if not auto:
        made.check_folder()
    return made
