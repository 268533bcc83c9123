"""Sum up the cost of a run: steps, time, memory, and the parameters that it trained."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import torch
from transformers import Trainer

from gradgate.adapters.kinds import AdapterKind
from gradgate.layers.quantized import weight_count
from gradgate.runs.scores import Cost
from gradgate.training import adapted
from gradgate.training.callbacks import StepTimer
from gradgate.training.gate_callback import GateCallback

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def cost_of(
    trainer: Trainer, gate: GateCallback, timer: StepTimer, fresh: frozenset[str], kind: AdapterKind | None
) -> Cost:
    """Return the cost of a run after its training.

    Args:
        trainer: the one that trained.
        gate: the callback with its tuner.
        timer: the callback with the times of its steps.
        fresh: names of what the pretrained weights lacked.
        kind: of the adapter; None without one.
    """
    tuner = gate.tuner
    assert tuner is not None
    return Cost(
        steps=trainer.state.global_step,
        seconds_per_step=timer.seconds_per_step,
        seconds_total=sum(timer.durations),
        peak_memory_bytes=peak_memory(trainer.args.device),
        trainable_share=tuner.mean_open_fraction,
        parameters=sum(map(weight_count, trainer.model.parameters())),
        parameters_trained=tuner.parameters_opened,
        bytes_stored=adapted.bytes_stored(trainer.model, tuner.counts_opened, fresh, kind),
        device=trainer.args.device.type,
        prefix_rows=timer.prefix_rows(),
    )


def reset_peak_memory() -> None:
    """Begin a new peak, so that a second run of one process has its own; not possible on a CPU without Linux."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        _CLEAR.write_text("5")  # proc(5): the peak of the resident memory becomes what is resident now


def peak_memory(device: torch.device) -> int:
    """Return the peak in bytes: torch's allocations on a CUDA device, else the resident memory of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, ValueError, StopIteration):
        found = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(found.split()[1]) * 1024
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
