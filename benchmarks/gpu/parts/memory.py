"""Compare the peak memory of real steps with what ``gradgate memory`` predicts, for twelve arms of two sizes.

Weights in bfloat16, one row of 1024 tokens, checkpointing, AdamW without foreach: what the prediction supposes. On CUDA
the allocator's peak is measured, in a dry run the live storages are counted. An arm that does not fit is not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import torch
from torch import Tensor

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import Figure, Goal
from benchmarks.gpu.models import Size, batch_of, checkpointing, decoder, decoder_config
from gradgate.memory import GIB, OVERHEAD, LiveBytes, MemoryEstimate
from gradgate.settings.arms.adapter import read_adapter
from gradgate.training.adapted import put_adapter

_PREDICTED = Goal("within", 0.03)
_OF_LORA = Goal("at most", 1.1)
_OVERHEAD = Goal("at most", OVERHEAD / GIB)
STEPS = 4
LENGTH = 1024


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        name: of its figures.
        method: its text; ``HALF`` stands for half of the layers.
        adapter: its text; it changes the model, so that no other arm can use it afterwards.
        master: float32 copies of open weights.
        released: each gradient goes as soon as its parameter is stepped.
    """

    name: str
    method: str = "full"
    adapter: str | None = None
    master: Literal["float32", "none"] = "none"
    released: bool = False


_BLOCKS, _LISA = "blocks:size=1,every=1", "lisa:layers=2,every=2,ends=closed"
_LORA = "LoRA, rank 32"
ARMS = (  # those that must be shown first, then those that leave the model as it is, then adapters
    Arm("blocks", _BLOCKS),
    Arm("full"),
    Arm("full, gradients released", released=True),
    Arm("graddrop:p=0.2", "graddrop:p=0.2"),
    Arm("blocks, float32 masters", _BLOCKS, master="float32"),
    Arm("lisa, ends closed", f"{_LISA},state=drop"),
    Arm("lisa, ends closed, states on the host", f"{_LISA},state=offload"),
    Arm("lisa", "lisa:layers=2,every=2,state=drop"),
    Arm("freeze, half of the layers", "freeze:layers=HALF"),
    Arm("hft", "hft"),
    Arm(_LORA, adapter="lora:r=32"),
    Arm("bottleneck adapters", adapter="seq_bn"),
)


@dataclass(frozen=True)
class Peak:
    """The memory of a device at its highest, in bytes.

    Attributes:
        allocated: by tensors.
        reserved: by the allocator; None on a CPU.
        context: taken from the device by CUDA and its kernels; None on a CPU.
    """

    allocated: int
    reserved: int | None = None
    context: int | None = None


def cases(bench: Bench) -> list[Case]:
    """Return a case per size and arm, and the ratio of blocks to LoRA when both are known."""
    sizes: tuple[Size, ...] = ("8 B",) if bench.dry else ("8 B", "1 B")  # tiny ones do not differ
    return [
        case
        for size in sizes
        for case in (
            *(Case(f"{size}, {arm.name}", partial(_arm, size, arm)) for arm in ARMS),
            Case(f"{size}, blocks over LoRA", partial(_blocks_over_lora, size)),
        )
    ]


def _arm(size: Size, arm: Arm, bench: Bench) -> Iterator[Figure]:
    name = f"{size}, {arm.name}"
    arm = replace(arm, method=arm.method.replace("HALF", str(decoder_config(bench, size).num_hidden_layers // 2)))
    guess = estimate(bench, size, arm)
    yield Figure(f"{name}, predicted", guess.peak_bytes / GIB, "GiB")
    if bench.on_cuda and not _fits(guess):
        yield Figure(f"{name}, measured over predicted", None, "x", _PREDICTED, "it does not fit this device")
        return
    peak = measure(bench, size, arm)
    yield Figure(f"{name}, allocated", peak.allocated / GIB, "GiB")
    yield Figure(f"{name}, measured over predicted", peak.allocated / guess.peak_bytes, "x", _PREDICTED)
    if peak.reserved is not None and peak.context is not None:
        yield Figure(f"{name}, reserved", peak.reserved / GIB, "GiB")
        beyond = peak.reserved + peak.context - guess.peak_bytes
        yield Figure(f"{name}, device memory beyond the prediction", beyond / GIB, "GiB", _OVERHEAD)
        yield Figure(f"{name}, context", peak.context / GIB, "GiB")


def _blocks_over_lora(size: Size, bench: Bench) -> Iterator[Figure]:
    blocks, lora = (bench.known.get(f"{size}, {name}, allocated") for name in ("blocks", _LORA))
    if blocks is None or lora is None:
        yield Figure(f"{size}, blocks over {_LORA}", None, "x", _OF_LORA, "one of the two was not measured")
        return
    yield Figure(f"{size}, blocks over {_LORA}", blocks / lora, "x", _OF_LORA)


def estimate(bench: Bench, size: Size, arm: Arm) -> MemoryEstimate:
    """Predict the memory of an arm's few steps."""
    return gg.estimate_memory(
        decoder_config(bench, size),
        arm.method,
        adapter=arm.adapter,
        batch_size=1,
        max_length=16 if bench.dry else LENGTH,
        weights="bfloat16",
        checkpointing=True,
        master=arm.master,
        release_gradients=arm.released,
        clip=0.0,
        total_steps=STEPS,
        steps_per_epoch=STEPS,
    )


def _fits(guess: MemoryEstimate) -> bool:
    return guess.fits(torch.cuda.get_device_properties(0).total_memory / GIB)


def measure(bench: Bench, size: Size, arm: Arm) -> Peak:
    """Return the peak of a few steps of an arm."""
    model: Any = _model(bench, size)
    if arm.adapter is not None:
        _model.cache_clear()  # for the arms after this one
        put_adapter(model, read_adapter(arm.adapter), (), seed=0)
    batch = batch_of(bench, model, 1, LENGTH)
    bench.free()
    if bench.on_cuda:
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.reset_peak_memory_stats()
        _train(model, arm, batch)
        return _peak_on_cuda()
    live = LiveBytes()
    live.count([*model.parameters(), *model.buffers(), *batch.values()])
    with live:
        _train(model, arm, batch)
    return Peak(live.peak)


@lru_cache(maxsize=1)
def _model(bench: Bench, size: Size) -> Any:
    """Build a model that the arms of a process share: 8 B take seconds to build, and room for one."""
    bench.free()
    model = decoder(bench, size)
    checkpointing(model)
    return model


def _train(model: Any, arm: Arm, batch: dict[str, Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
    tuner = gg.Tuner(
        model,
        optimizer,
        arm.method,
        total_steps=STEPS,
        steps_per_epoch=STEPS,
        master=arm.master,
        release_gradients=arm.released,
    )
    with _cleared(model), tuner:
        for _ in range(STEPS):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()


@contextmanager
def _cleared(model: Any) -> Iterator[None]:
    """Drop the gradients of a model at the end, which the next arm would count."""
    try:
        yield
    finally:
        model.zero_grad()


def _peak_on_cuda() -> Peak:
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    # Other programs on the device count as context: the page is of a device that nothing else uses.
    context = total - free - torch.cuda.memory_reserved()
    return Peak(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), context)
