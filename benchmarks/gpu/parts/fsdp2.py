"""Time steps under FSDP2 with one process, and compare what a mask lets learn with a model that is not sharded.

NCCL joins the processes on CUDA, gloo in a dry run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import fully_shard

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.determinism import deterministic, differing
from benchmarks.gpu.figures import NONE_DIFFERS, Figure, Goal
from benchmarks.gpu.models import batch_of, encoder
from benchmarks.gpu.timing import medians
from gradgate.distributed.shards import whole

METHODS = ("graddrop:p=0.2", "graddrop-epoch", "blocks:every=2")


def cases(bench: Bench) -> list[Case]:
    """Return the time of steps, and their weights."""
    return [Case("weights", _weights), Case("steps", _steps)]


def _steps(bench: Bench) -> Iterator[Figure]:
    with _group(bench):
        rivals = {method or "plain": _stepper(bench, method) for method in (None, METHODS[0])}
        times = medians(bench, rivals)
    yield Figure("plain step", 1e3 * times["plain"], "ms")
    yield Figure(f"{METHODS[0]} over plain", times[METHODS[0]] / times["plain"], "x", Goal("at most", 1.02))


def _weights(bench: Bench) -> Iterator[Figure]:
    with _group(bench), deterministic():
        for method in METHODS:
            sharded, plain = (_trained(bench, method, wrap) for wrap in (_sharded, _as_it_is))
            differ = differing(sharded, plain)
            yield Figure(f"{method}, weights that differ from those without FSDP2", differ, "elements", NONE_DIFFERS)


@contextmanager
def _group(bench: Bench) -> Iterator[None]:
    """Join a group of this process alone, which needs no network."""
    names = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    with TemporaryDirectory() as folder:
        kind = "nccl" if bench.on_cuda else "gloo"
        device = torch.device("cuda", 0) if bench.on_cuda else None
        dist.init_process_group(kind, init_method=f"file://{folder}/meeting", rank=0, world_size=1, device_id=device)
        try:
            yield
        finally:
            dist.destroy_process_group()
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _sharded(model: Any) -> Any:
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    return fully_shard(model)


def _as_it_is(model: Any) -> Any:
    return model


def _stepper(bench: Bench, method: str | None) -> Callable[[], None]:
    model = _sharded(encoder(bench))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    if method:
        gg.Tuner(model, optimizer, method, total_steps=1000, steps_per_epoch=100)
    return partial(_step, model, optimizer, batch_of(bench, model, 16, 128))


def _trained(bench: Bench, method: str, wrap: Callable[[Any], Any]) -> list[Tensor]:
    model = wrap(encoder(bench, layers=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with gg.Tuner(model, optimizer, method, total_steps=6, steps_per_epoch=2):
        for number in range(6):
            torch.manual_seed(number)
            _step(model, optimizer, batch_of(bench, model, 8, 64, seed=number))
    return [whole(parameter.detach()).clone() for parameter in model.parameters()]


def _step(model: Any, optimizer: torch.optim.Optimizer, batch: dict[str, Tensor]) -> None:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
