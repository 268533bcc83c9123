"""The command that says what a training will take before it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from gradgate.cli.options import AsJson, Config, run_config
from gradgate.cli.render import console, print_json
from gradgate.errors import UsageError

if TYPE_CHECKING:
    from gradgate.memory import MemoryEstimate

_SHOWN_PHASES = 8


def memory(
    model: Annotated[
        str, typer.Option(help="Folder with config.json, such a file, hub name, or 'sample'; no weights are read.")
    ] = "sample",
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="What learns when; repeat to compare. [default: full]")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Examples in one forward pass.")] = 32,
    max_length: Annotated[int, typer.Option(help="Tokens of each example.")] = 128,
    precision: Annotated[
        str,
        typer.Option(
            help="fp32; bf16 or fp16 for autocast over float32 weights; bfloat16 for weights in it, as does bf16 "
            "with --master."
        ),
    ] = "fp32",
    weights: Annotated[
        str | None, typer.Option(help="Type of the weights: float32 (the default), bfloat16 or float16.")
    ] = None,
    optim: Annotated[str, typer.Option(help="Optimizer, by Trainer's names, as adamw_torch or sgd.")] = "adamw_torch",
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Compute activations again in the backward pass.")
    ] = False,
    shards: Annotated[int, typer.Option(help="FSDP2 processes; what one of them takes is said.")] = 1,
    master: Annotated[
        str | None, typer.Option(help="float32 or none: copies that are stepped where weights are in 16 bits.")
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="Adapter on a frozen model, as lora:r=32.")] = None,
    language_adapters: Annotated[
        str | None,
        typer.Option(help="Frozen language adapters below it (MAD-X), as for train; English stands for {language}."),
    ] = None,
    head: Annotated[
        str, typer.Option(help="What the model ends with: auto, causal-lm, seq2seq, sequence or token.")
    ] = "auto",
    layers: Annotated[str | None, typer.Option(help="Path of the layer stack where it is not found.")] = None,
    steps: Annotated[int, typer.Option(help="Optimizer steps of the training.")] = 1000,
    epochs: Annotated[float, typer.Option(help="Passes over the data, for methods that count them.")] = 1.0,
    steps_per_epoch: Annotated[int | None, typer.Option(help="The same by their length.")] = None,
    seed: Annotated[int, typer.Option(help="Of the method's draws.")] = 0,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Say how much memory a training takes, before it is run.

    It takes seconds for a model of any size, and needs no GPU.
    """
    methods = [run_config({"method": text}).method for text in method or ["full"]]  # checked before torch loads
    run_config({"steps": steps, "seed": seed, "adapter": adapter})
    run_config({"epochs": epochs})
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise UsageError(f"--steps-per-epoch {steps_per_epoch}: expected a whole number, 1 or more.")

    from gradgate.memory.fitting import advice
    from gradgate.memory.request import estimator_of, setup_of
    from gradgate.settings.adapter import read_adapter, titled
    from gradgate.training.pretrained import silence_libraries

    silence_libraries()
    setup = setup_of(
        batch_size=batch_size,
        max_length=max_length,
        precision=precision,
        weights=weights,
        optim=optim,
        checkpointing=checkpointing,
        shards=shards,
        master=master,
        total_steps=steps,
        steps_per_epoch=steps_per_epoch or max(1, round(steps / epochs)),
        seed=seed,
    )
    own = read_adapter(adapter)
    estimator = estimator_of(model, setup, own, language_adapters, head, layers, trust_remote_code)
    found = []
    for one in methods:
        estimate = estimator.of(one, titled(str(one), None if own is None else str(own)))
        found.append((estimate, None if as_json else advice(estimator, one, estimate)))
    if as_json:
        print_json([estimate.to_dict() for estimate, _ in found])
    else:
        console.print(memory_table(found, described(setup)))


def described(setup: Any) -> str:
    """What the figures hold for."""
    work = setup.workload
    masters = ", float32 masters of what is open" if setup.masters and work.weights != "float32" else ""
    return (
        f"batch {work.batch_size} at {work.max_length:,}, weights {work.weights}, precision {work.precision}, "
        f"{setup.optimizer}{masters}, {'checkpointing' if work.checkpointing else 'no checkpointing'}"
        f"{f', one of {setup.shards} shards' if setup.shards > 1 else ''}; full rows, foreach off; the CUDA context "
        f"and what the allocator holds in reserve come on top"
    )


def memory_table(found: list[tuple[MemoryEstimate, str | None]], setting: str) -> Group:
    """One row a method in GiB at its peak, the devices that have room, and the phases of each.

    Args:
        found: estimates, each with what would fit where it fits nowhere.
        setting: what the figures hold for.
    """
    from gradgate.memory import DEVICES, GIB

    parts = ("weights", "gradients", "optimizer", "masters", "activations", "peak")
    table = Table("method", *(Column(part, justify="right") for part in parts), "at", "fits GiB", box=SIMPLE_HEAD)
    lines: list[Text] = []
    for estimate, remedy in found:
        usage = estimate.worst.usage
        fitting = [str(gib) for gib in DEVICES if estimate.fits(gib)]
        sizes = (f"{getattr(usage, part) / GIB:,.2f}" for part in parts)
        table.add_row(Text(estimate.method), *sizes, usage.at, f"{fitting[0]} and more" if fitting else "none")
        if remedy is not None:
            lines.append(Text(f"{estimate.method} fits no {DEVICES[-1]} GiB; {remedy}."))
        lines += [Text(line) for line in timeline(estimate)]
    return Group(table, *lines, Text(setting))


def timeline(estimate: MemoryEstimate) -> list[str]:
    """The phases of a method with their peaks; of many, the first, those around the worst, and the last."""
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
