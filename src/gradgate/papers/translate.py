"""A paper's method on another model: layers, intervals and adapter sizes in proportion."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

from gradgate.methods import Freeze, Method
from gradgate.methods import method as read_method

SELECTION_BATCHES = 8
"""Batches of one choice of FUN on the sample, where the paper's 40 would be most of an epoch."""

TAPT_EPOCHS = 2
"""Passes over the task's texts on the sample, where the paper's 100 would take longer than all else."""


def on_layers(text: str, layers: int, ours: int) -> str:
    """``freeze:layers=9`` of 12 as ``freeze:layers=3`` of 4; other methods as they are.

    At least one layer stays tuned where the paper tunes one.
    """
    method = read_method(text)
    if not isinstance(method, Freeze) or layers == ours:
        return text
    scaled = round(method.layers * ours / layers + 1e-9)
    return replace(method, layers=ours if method.layers == layers else min(scaled, ours - 1)).spec


def on_steps(text: str, layers: int, steps: int, our_layers: int, our_steps: int) -> str:
    """The interval ``every`` such that all layers are open after the same share of the training; 1 at least."""
    method = read_method(text)
    given: dict[str, Any] = {}
    if _has(method, "every"):
        interval = method.every * (our_steps / steps) * (layers / our_layers)  # type: ignore[attr-defined]
        given["every"] = max(1, round(interval))
    if method.name == "fun":
        given["batches"] = min(SELECTION_BATCHES, method.batches)  # type: ignore[attr-defined]
    return replace(method, **given).spec if given else text


def on_width(adapter: str, hidden: int, ours: int) -> str:
    """``size=256`` of 768 hidden units as the same share of ours, 4 at least.

    A learning rate of its own is left out, and pretraining is cut to ``TAPT_EPOCHS`` passes.
    """
    scaled = re.sub(r"\bsize=(\d+)", lambda size: f"size={max(4, round(int(size[1]) * ours / hidden))}", adapter)
    name, _, options = scaled.partition(":")
    shorter = re.sub(r"\btapt_epochs=[^,]+", f"tapt_epochs={TAPT_EPOCHS}", options)
    kept = [option for option in shorter.split(",") if option and not option.startswith("lr=")]
    return f"{name}:{','.join(kept)}" if kept else name


def at_rate(adapter: str, lr: float) -> str:
    """An adapter with a learning rate of its own."""
    return f"{adapter}{',' if ':' in adapter else ':'}lr={lr:g}"


def _has(method: Method, option: str) -> bool:
    return option in {field.name for field in fields(method)}
