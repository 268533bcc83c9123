"""Peaks of real trainings, counted as the storages that are alive."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gradgate import LayerMap, Method, Tuner
from gradgate.memory import LiveBytes
from gradgate.memory.workload import Workload


def counted_peak(
    model: Any,
    method: Method | str,
    make: Callable[..., torch.optim.Optimizer],
    workload: Workload,
    *,
    steps: int,
    steps_per_epoch: int | None = None,
    layers: LayerMap | None = None,
    **options: Any,
) -> int:
    """The most bytes that are alive within a training of a real model with a tuner."""
    inputs = workload.inputs(model)
    with workload.in_training(model):
        optimizer = make(model.parameters())
        live = LiveBytes()
        live.count([*model.parameters(), *model.buffers(), *_tensors(inputs)])
        gc.collect()
        gc.disable()
        try:
            with (
                live,
                Tuner(
                    model,
                    optimizer,
                    method,
                    total_steps=steps,
                    steps_per_epoch=steps_per_epoch or steps,
                    layers=layers,
                    audit=False,
                    fisher_data=lambda step: [inputs],
                    **options,
                ),
            ):
                live.restart_peak()
                for _ in range(steps):
                    _step(model, optimizer, inputs, workload)
        finally:
            gc.enable()
    return live.peak


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: dict[str, Any], workload: Workload) -> None:
    for _ in range(workload.accumulate):
        with workload.autocast():
            loss = model(**inputs).loss
        loss.backward()
        del loss
    optimizer.step()
    optimizer.zero_grad()


def _tensors(values: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in values.values() if isinstance(value, torch.Tensor)]
