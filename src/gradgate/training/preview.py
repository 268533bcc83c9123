"""Check a run before it trains: load its data and its model, and map its layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from gradgate.layers import LayerMap, map_layers
from gradgate.layers.quantized import quantization_of, weight_count
from gradgate.runs.progress import Silent
from gradgate.runs.records import ModelRecord, TaskRecord, versions
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.arm import Arm
from gradgate.settings.run import RunConfig
from gradgate.training.adapted import try_adapter
from gradgate.training.forgetting.measures import measure_of
from gradgate.training.language_stack import try_languages
from gradgate.training.new_tokens import method_of
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_tokenizer, silence_libraries
from gradgate.training.quantized import check_adapted, check_trainable
from gradgate.training.start import activation_cache_of, load_reference


@dataclass(frozen=True)
class Preview:
    """Data, model and layers of a run that has not trained yet.

    Attributes:
        task, model: records for a study's file.
        layers: the layer map of the model with the task's head.
        versions: of the packages that compute.
        notes: messages for the user about the data.
        language_adapters: language -> digest of its adapter; empty without any.
        quantization: the method that the model is quantized with; None for a model that is not.
    """

    task: TaskRecord
    model: ModelRecord
    layers: LayerMap
    versions: dict[str, str]
    notes: tuple[str, ...]
    language_adapters: dict[str, str]
    quantization: str | None

    def check_adapted(self, arms: Iterable[Arm]) -> None:
        """Raise RunError if the model is quantized and an arm trains no adapter that fits on it."""
        for arm in arms:
            check_adapted(self.quantization, arm, self.model.name)


def preview(config: RunConfig, adapters: Sequence[AdapterSetting] = ()) -> Preview:
    """Load data and model once, map the layers and try the adapters, without changing the random state.

    Raises:
        GradgateError: for data, a model, layers or an activation cache that a run could not work with.
    """
    silence_libraries()
    activation_cache_of(config, Path(), Silent())
    prepared = prepare_task(config)
    prepared.check_size(config)
    tokenizer = load_tokenizer(config)
    method_of(config, tokenizer)
    reference = partial(load_reference, config, prepared, tokenizer)
    forgetting = measure_of(config, prepared.record(), tokenizer, reference)
    heads: list[str] = []
    with torch.random.fork_rng(devices=[]):
        model, _ = prepared.load_model(config, tokenizer, heads.append)
    check_trainable(model, config.model)
    for adapter in adapters:
        try_adapter(model, adapter)
    languages = try_languages(config, prepared, model)
    parameters = sum(map(weight_count, model.parameters()))
    lengths = prepared.length_notes(config, tokenizer)
    return Preview(
        task=prepared.record(),
        model=ModelRecord(config.model, parameters),
        layers=map_layers(model, layers=config.layers),
        versions=versions(),
        notes=(*prepared.notes, *lengths, *heads, *(forgetting.notes if forgetting is not None else ())),
        language_adapters=languages,
        quantization=quantization_of(model),
    )
