"""Find the networks of a model that cannot learn, such as a teacher or a momentum encoder."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from torch import nn

from gradgate.layers.architectures import architecture_around, is_architecture
from gradgate.layers.learning import is_frozen
from gradgate.layers.names import canonical_name
from gradgate.layers.probe import Trace
from gradgate.layers.stacks import ROOT, Stack, listed_blocks


def left_out(model: nn.Module, frozen: Iterable[Stack], learning: Container[int]) -> dict[str, nn.Module]:
    """Return the largest modules around stacks that cannot learn in which nothing can learn, by path."""
    modules = {canonical_name(raw): module for raw, module in model.named_modules() if raw}
    found: dict[str, nn.Module] = {}
    for stack in frozen:
        path = next((p for p in _prefixes(stack.path) if p in modules and is_frozen(modules[p], learning)), None)
        if path is not None and stack.path != ROOT:
            found[path] = modules[path]
    return found


def frozen_beside(
    model: nn.Module, learn: Sequence[Stack], learning: Container[int], trace: Trace | None
) -> list[Stack]:
    """Return the lists of blocks that cannot learn and are not a part of a network that can, run or not.

    A class of transformers is one network; so is each model of transformers inside another module.
    """
    if is_architecture(model):
        return []
    modules = {canonical_name(raw): module for raw, module in model.named_modules()}
    found = []
    for stack in listed_blocks(model, trace or Trace()):
        whole = architecture_around(model, stack.path)
        beside = not stack.runs or all(stack.is_apart_from(other) for other in learn)
        inside = any(stack.is_within(other) or other.is_within(stack) for other in learn)
        part = bool(whole) and not is_frozen(modules[whole], learning)
        if beside and not inside and not part and not stack.can_learn(learning):
            found.append(stack)
    return found


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
