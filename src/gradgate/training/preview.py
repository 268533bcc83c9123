"""What can be known about a run before it trains: its data, its model and its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradgate.layers import LayerMap, map_layers
from gradgate.training.adapted import try_adapter
from gradgate.training.adapter_setting import AdapterSetting
from gradgate.training.config import RunConfig
from gradgate.training.forgetting_measures import measure_of
from gradgate.training.language_adapters import LanguageAdapters
from gradgate.training.new_tokens import method_of
from gradgate.training.prepared_task import PreparedTask, prepare_task
from gradgate.training.pretrained import load_tokenizer, silence_libraries
from gradgate.training.progress import Silent
from gradgate.training.records import ModelRecord, TaskRecord, versions
from gradgate.training.run import activation_cache_of
from gradgate.training.single_task import PreparedSingleTask


@dataclass(frozen=True)
class Preview:
    """What a run would work on.

    Attributes:
        task, model: records for a study's file.
        layers: the layer map of the model with the task's head.
        versions: of what computes.
        notes: what a person should know about the data.
    """

    task: TaskRecord
    model: ModelRecord
    layers: LayerMap
    versions: dict[str, str]
    notes: tuple[str, ...]


def preview(config: RunConfig, adapters: Sequence[AdapterSetting] = ()) -> Preview:
    """Load data and model once, map the layers and try the adapters; the random state stays as it is.

    Raises:
        GradgateError: for data, a model, layers or an activation cache that a run could not work with.
    """
    silence_libraries()
    activation_cache_of(config, Path(), Silent())
    prepared = prepare_task(config)
    prepared.check_size(config)
    tokenizer = load_tokenizer(config)
    method_of(config, tokenizer)
    forgetting = measure_of(config, prepared.record(), tokenizer)
    with torch.random.fork_rng(devices=[]):
        model, _ = prepared.load_model(config, tokenizer)
    for adapter in adapters:
        try_adapter(model, adapter)
    if config.language_adapters is not None:
        _try_languages(config, prepared, model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Preview(
        task=prepared.record(),
        model=ModelRecord(config.model, parameters),
        layers=map_layers(model, layers=config.layers),
        versions=versions(),
        notes=(*prepared.notes, *(forgetting.notes if forgetting is not None else ())),
    )


def _try_languages(config: RunConfig, prepared: PreparedTask, model: Any) -> None:
    """Put each language adapter that a run would score with into a model and take it out again."""
    assert config.language_adapters is not None
    assert isinstance(prepared, PreparedSingleTask), "several tasks take no adapter"
    spec, tests = prepared.data.spec, () if config.skip_test else prepared.data.tests
    languages = LanguageAdapters(config.language_adapters, spec.source)
    codes = [spec.language_of(split) for split in tests]
    languages.check(codes)
    languages.check_fit(model, codes)
