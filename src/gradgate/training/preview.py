"""What can be known about a run before it trains: its data, its model and its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gradgate.layers import LayerMap, map_layers
from gradgate.tasks import kind_of, load_task, subsample
from gradgate.training.config import RunConfig
from gradgate.training.loading import hush_libraries, load_model, load_tokenizer
from gradgate.training.record import task_record, versions
from gradgate.training.run import find_task_of


@dataclass(frozen=True)
class Preview:
    """What a run would work on.

    Attributes:
        task, model: records for a study's file.
        layers: the layer map of the model with the task's head.
        versions: of what computes.
        notes: what a person should know about the data.
    """

    task: dict[str, Any]
    model: dict[str, Any]
    layers: LayerMap
    versions: dict[str, str]
    notes: tuple[str, ...]


def preview(config: RunConfig) -> Preview:
    """Load data and model once and map the layers; the random state stays as it is.

    Raises:
        GradgateError: for data, a model or layers that a run could not work with.
    """
    hush_libraries()
    data = load_task(find_task_of(config))
    if config.train_size is not None:
        subsample(data.train, config.train_size, config.seed)
    with torch.random.fork_rng(devices=[]):
        model = load_model(config, kind_of(data.spec), data, load_tokenizer(config))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Preview(
        task=task_record(data),
        model={"name": config.model, "parameters": parameters},
        layers=map_layers(model, layers=config.layers),
        versions=versions(),
        notes=tuple(data.notes),
    )
