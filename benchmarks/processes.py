"""Time one training step in 1 and 2 processes, under DDP and FSDP2: a method's overhead by processes.

Each process has one thread and its own 8 x 64 tokens, on a 6-layer encoder of width 384, with gloo. The floor of each
ratio is that of one process: a mask is a function of names and indices, so processes send nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, repeated

PROCESSES = (1, 2)
METHODS = (None, "graddrop:p=0.2", "graddrop-epoch", "freeze:layers=3", "layer-graddrop:p=0.5")
STEPS = 3


def run(rounds: int = 5) -> list[str]:
    """Return one line per way and number of processes: milliseconds of the plain step, and ratios to it."""
    with TemporaryDirectory() as folder:
        for count in PROCESSES:
            torch.multiprocessing.spawn(_measure, args=(count, rounds, folder), nprocs=count)
        return [line for count in PROCESSES for line in Path(folder, f"{count}.txt").read_text().splitlines()]


def _measure(rank: int, count: int, rounds: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{count}", rank=rank, world_size=count)
    try:
        lines = []
        for way, wrap in {"DDP": _replicated, "FSDP2": _sharded}.items():
            rivals = {method or "plain": _stepper(wrap, method) for method in METHODS}
            times = medians({name: repeated(step, STEPS) for name, step in rivals.items()}, rounds)
            plain, *others = times.values()
            ratios = ", ".join(
                f"{name} {time / plain:.3f}x" for name, time in zip(list(times)[1:], others, strict=True)
            )
            lines.append(f"{count} processes, {way}: plain {1e3 * plain / STEPS:.0f} ms; {ratios}")
        if rank == 0:
            Path(folder, f"{count}.txt").write_text("\n".join(lines))
    finally:
        dist.destroy_process_group()


def _replicated(model: torch.nn.Module) -> Any:
    return DistributedDataParallel(model, find_unused_parameters=True)


def _sharded(model: Any) -> Any:
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    return fully_shard(model)


def _stepper(wrap: Callable[[torch.nn.Module], Any], method: str | None) -> Callable[[], None]:
    model = wrap(encoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    if method:
        gg.Tuner(model, optimizer, method, total_steps=1000, steps_per_epoch=100)
    batch = batch_of(8, 64)

    def step() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
