"""Scale methods, adapters and rates of a paper to another model: its layers, its width, its steps."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from gradgate.errors import AdapterError
from gradgate.methods import Freeze, Method
from gradgate.methods import method as read_method
from gradgate.specs import Syntax

_ADAPTER = Syntax("adapter", error=AdapterError)
SELECTION_BATCHES = 8
"""Batches per choice of FUN on the sample, as the paper's 40 would be most of an epoch there."""

TAPT_EPOCHS = 2
"""Passes over the task's texts on the sample, as the paper's 100 would take longer than everything else."""


def on_layers(text: str, layers: int, ours: int) -> str:
    """Scale ``freeze:layers=9`` of 12 to ``freeze:layers=3`` of 4; return other methods unchanged.

    At least one layer stays tuned if the paper tunes one.
    """
    method = read_method(text)
    if not isinstance(method, Freeze) or not isinstance(method.layers, int) or method.tower or layers == ours:
        return text
    scaled = round(method.layers * ours / layers + 1e-9)
    return replace(method, layers=ours if method.layers == layers else min(scaled, ours - 1)).spec


def on_steps(text: str, layers: int, steps: int, our_layers: int, our_steps: int) -> str:
    """Scale the interval ``every`` so that all layers are open after the same share of the training; 1 at least."""
    method = read_method(text)
    options: dict[str, Any] = {}
    if _has(method, "every"):
        interval = method.every * (our_steps / steps) * (layers / our_layers)  # type: ignore[attr-defined]
        options["every"] = max(1, round(interval))
    if method.name == "fun":
        options["batches"] = min(SELECTION_BATCHES, method.batches)  # type: ignore[attr-defined]
    return replace(method, **options).spec if options else text


def on_width(adapter: str, hidden: int, ours: int) -> str:
    """Scale ``size=256`` of 768 hidden units to the same share of ours, 4 at least.

    A learning rate and a batch size of its own are left out, and pretraining is cut to ``TAPT_EPOCHS`` passes.
    """
    spec = _ADAPTER.parse(adapter).without("lr", "tapt_batch")
    if "size" in spec.options:
        spec = spec.updated(size=str(max(4, round(int(spec.options["size"]) * ours / hidden))))
    return str(spec.updated(tapt_epochs=str(TAPT_EPOCHS)) if "tapt_epochs" in spec.options else spec)


def at_rate(adapter: str, lr: float) -> str:
    """Give an adapter its own learning rate."""
    return str(_ADAPTER.parse(adapter).without("lr").updated(lr=f"{lr:g}"))


def with_options(adapter: str, options: dict[str, str]) -> str:
    """Add options to an adapter."""
    return str(_ADAPTER.parse(adapter).updated(**options))


def on_rate(searched: str, lr: float, ours: float) -> str:
    """Scale ``lr=2e-5,4e-5`` of a paper that trains at 2e-5 to ``lr=0.001,0.002`` at 1e-3."""
    name, _, values = searched.partition("=")
    return f"{name}={','.join(f'{float(value) * ours / lr:g}' for value in values.split(','))}"


def _has(method: Method, option: str) -> bool:
    return option in {field.name for field in fields(method)}
