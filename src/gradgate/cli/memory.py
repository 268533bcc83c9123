"""The command that says what a training will take before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from gradgate.cli.options import AsJson, Config, takes_settings
from gradgate.cli.render import console, print_json
from gradgate.settings.memory import MemorySettings
from gradgate.study.arms import estimated_arms

if TYPE_CHECKING:
    from gradgate.memory import MemoryEstimate
    from gradgate.memory.estimate import Setup

_SHOWN_PHASES = 8
_CHOICES = {
    "measured": "what learns was chosen by the weights of the model, as in the training",
    "supposed": "what learns depends on a measurement in the training; this is the costliest of several choices",
}


@takes_settings(of=MemorySettings)
def memory(settings: MemorySettings, as_json: AsJson = False, config_file: Config = None) -> None:
    """Estimate the peak memory of a training before it runs.

    It takes seconds for a model of any size and needs no GPU. The flags are those of train.
    """
    arms = estimated_arms(settings)

    from gradgate.memory import DEVICES
    from gradgate.memory.fitting import advice  # torch loads after the settings are checked
    from gradgate.memory.request import estimate_arms
    from gradgate.training.pretrained import silence_libraries

    silence_libraries()
    found, devices = estimate_arms(settings, arms), DEVICES if settings.gpu is None else (settings.gpu,)
    if as_json:
        print_json([each.estimate.to_dict() for each in found])
        return
    rows = [(each.estimate, advice(each.estimator, each.arm.method, each.estimate, devices)) for each in found]
    settings_of = dict.fromkeys(described(each.estimator.setup) for each in found)
    console.print(memory_table(rows, list(settings_of), devices))


def described(setup: Setup) -> str:
    """Return what the figures are true for."""
    from gradgate.memory import GIB, OVERHEAD

    work = setup.workload
    times = f" × {work.accumulate}" if work.accumulate > 1 else ""
    masters = ", float32 masters of what is open" if setup.masters and work.weights != "float32" else ""
    return (
        f"batch {work.batch_size}{times} at {work.max_length:,}, weights {work.weights}, precision {work.precision}, "
        f"{setup.optimizer}{masters}, {'checkpointing' if work.checkpointing else 'no checkpointing'}"
        f"{f', one of {setup.shards} shards' if setup.shards > 1 else ''}; full rows, foreach off; "
        f"what fits leaves {OVERHEAD / GIB:g} GiB for the CUDA context and the allocator"
    )


def memory_table(
    found: list[tuple[MemoryEstimate, str | None]], settings: Sequence[str], devices: Sequence[float]
) -> Group:
    """Return one row per method in GiB at its peak, with the devices that have room and the phases of each.

    Args:
        found: estimates, each with what would fit where it fits nowhere.
        settings: what the figures hold for; several if arms have settings of their own.
        devices: GiB of each, in ascending order.
    """
    from gradgate.memory import GIB

    parts = ("weights", "gradients", "optimizer", "masters", "activations", "peak")
    table = Table("method", *(Column(part, justify="right") for part in parts), "at", "fits GiB", box=SIMPLE_HEAD)
    lines: list[Text] = []
    for estimate, remedy in found:
        usage = estimate.worst.usage
        fitting = [f"{gib:g}" for gib in devices if estimate.fits(gib)]
        sizes = (f"{getattr(usage, part) / GIB:,.2f}" for part in parts)
        table.add_row(Text(estimate.method), *sizes, usage.at, f"{fitting[0]} and more" if fitting else "none")
        if remedy is not None:
            lines.append(Text(f"{estimate.method} fits no {devices[-1]:g} GiB; {console.worded(remedy)}."))
        if estimate.choice is not None:
            lines.append(Text(f"{estimate.method}: {_CHOICES[estimate.choice]}"))
        lines += [Text(line) for line in timeline(estimate)]
    return Group(table, *lines, *map(Text, settings))


def timeline(estimate: MemoryEstimate) -> list[str]:
    """Return the phases of a method with their peaks; of many, the first, those around the worst, and the last."""
    from gradgate.memory import GIB

    phases = estimate.phases
    if len(phases) == 1:
        return []
    worst = phases.index(estimate.worst)
    half = _SHOWN_PHASES // 2
    shown = [i for i in range(len(phases)) if len(phases) <= _SHOWN_PHASES or i < half or i in (worst, len(phases) - 1)]
    lines = [f"{estimate.method}: {len(phases)} phases"]
    for before, place in zip([-1, *shown], shown, strict=False):
        lines += [f"  ... {place - before - 1} more"] if place > before + 1 else []
        mark = "  <- the peak" if place == worst else ""
        lines.append(f"  {phases[place].usage.peak / GIB:8,.2f} GiB  {phases[place].text}{mark}")
    return lines
