"""Find the models of transformers inside other modules: each is one architecture."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from torch import nn

from gradgate.layers.names import canonical_name


def is_architecture(module: nn.Module) -> bool:
    """Return True for a model of a class in transformers, whose stacks are parts of one architecture."""
    base = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", None)
    return base is not None and isinstance(module, base) and type(module).__module__.startswith("transformers.")


def architectures(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost models of transformers in a module, each once."""
    seen: set[nn.Module] = set()

    def walk(module: nn.Module) -> Iterator[nn.Module]:
        if module in seen:
            return
        seen.add(module)
        if is_architecture(module):
            yield module
        else:
            for child in module.children():
                yield from walk(child)

    yield from walk(module)


def architecture_around(model: nn.Module, path: str) -> str:
    """Return the path of the outermost model of transformers around a stack; empty if there is none."""
    parts = path.split(".")
    modules = {canonical_name(raw): module for raw, module in model.named_modules()}
    around = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return next((p for p in around if p in modules and is_architecture(modules[p])), "")
