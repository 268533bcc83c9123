"""Classify the parts of a layer by what runs inside them: attention, mlp, norms, experts, router, adapters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from torch import nn

from gradgate.layers.names import canonical_name
from gradgate.layers.probe import LISTS, Trace

Part = Literal["attention", "mlp", "norm", "experts", "router", "adapter", "other"]
_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


def parts_of(model: nn.Module, layers: Iterable[nn.Module], trace: Trace | None) -> dict[int, Part]:
    """Return the part of each classified parameter, by its ``id``; norms and adapters outside the layers included.

    - ``attention`` is a module in which activations are multiplied with each other, with its projections: softmax
      and linear attention and state spaces, over the layer's own tokens or those of an encoder.
    - ``norm`` is a normalising module that has only vectors, wherever it is.
    - ``experts`` and ``router`` are the parts of a module that chooses among experts: stacked or listed experts, and
      the matrices that choose.
    - ``mlp`` is any other module with matrices, including a shared expert.
    - ``adapter`` is what PEFT or :mod:`gradgate.adapters` has added.
    - The rest of a layer, such as a scale, is left out here and becomes ``other``.

    Args:
        model: without wrappers such as DDP.
        layers: of the model; each a module, or a list of the modules that make up one layer.
        trace: of a forward pass; without it, only norms and adapters differ from other modules with matrices.
    """
    seen = Trace() if trace is None else trace
    found: dict[int, Part] = {}
    for block, part in chain.from_iterable(_blocks(layer, seen) for layer in layers):
        for parameter in block.parameters():
            found.setdefault(id(parameter), part)
    for module in model.modules():
        if _is_norm(module, seen):
            found.update({id(parameter): "norm" for parameter in module.parameters(recurse=False)})
        found.update({id(parameter): "adapter" for parameter in _added(module)})
    return found


def adapted_modules(model: nn.Module) -> dict[int, str]:
    """Return the canonical path of the module that each of PEFT's parameters adapts, by the parameter's ``id``."""
    found: dict[int, str] = {}
    for path, module in model.named_modules():
        for parameter in _added_by_peft(module):
            found.setdefault(id(parameter), canonical_name(path))
    return found


def prompts_of(model: nn.Module) -> set[str]:
    """Return the canonical names of the parameters that make the prompts of PEFT's prompt, prefix and p-tuning."""
    return {
        canonical_name(f"{path}.prompt_encoder.{name}" if path else f"prompt_encoder.{name}")
        for path, module in model.named_modules()
        if type(module).__module__.startswith("peft.") and "prompt_encoder" in module._modules
        for name, _ in module.get_submodule("prompt_encoder").named_parameters()
    }


def _blocks(module: nn.Module, trace: Trace) -> Iterator[tuple[nn.Module, Part]]:
    """Yield the outermost modules inside a layer that form one part, with the part."""
    for child in _children(module):
        if trace.marked(child, "routes") and any(map(_is_experts, child.modules())):
            yield from _of_experts(child, trace)
        elif trace.marked(child, "mixes"):
            # An attention module runs no activation apart from its core and in a gated norm; one that does is a layer
            # in a layer.
            inner = [each for each in _children(child) if not _is_norm(each, trace)]
            if any(trace.marked(each, "activates") and not trace.marked(each, "mixes") for each in inner):
                yield from _blocks(child, trace)
            else:
                yield child, "attention"
        elif any(parameter.dim() >= 2 for parameter in child.parameters()):
            yield child, "mlp"


def _of_experts(module: nn.Module, trace: Trace) -> Iterator[tuple[nn.Module, Part]]:
    for child in module.children():
        if any(map(_is_experts, child.modules())):
            yield child, "experts"
        elif trace.marked(child, "activates") and not trace.marked(child, "routes"):
            yield child, "mlp"
        else:
            yield child, "router"


def _is_experts(module: nn.Module) -> bool:
    """Return True if the module is a stack or a list of experts."""
    stacked = any(parameter.dim() >= 3 for parameter in module.parameters(recurse=False))
    return stacked or (isinstance(module, nn.ModuleList) and len(module) > 1)


def _children(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the children with parameters; a list, or an only child around everything, is replaced by its children."""
    children = list(_flat(module))
    only = children[0] if len(children) == 1 else None
    if only is not None and _size(only.parameters()) == _size(module.parameters()) and list(only.children()):
        yield from _children(only)
    else:
        yield from children


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, LISTS):
            yield from _flat(child)
        elif next(child.parameters(), None) is not None:
            yield child


def _is_norm(module: nn.Module, trace: Trace) -> bool:
    own = list(module.parameters(recurse=False))
    if not own or any(parameter.dim() > 1 for parameter in own):
        return False
    is_leaf = next(module.children(), None) is None
    return isinstance(module, _NORMS) or (is_leaf and trace.marked(module, "normalizes"))


def _added(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters that an adapter library put into a module."""
    yield from _added_by_peft(module)
    if type(module).__module__.startswith("gradgate.adapters."):
        yield from module.parameters()


def _added_by_peft(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters that PEFT put into a module; its layers list the names of theirs."""
    for name in getattr(module, "adapter_layer_names", ()):
        added = getattr(module, name, None)
        if isinstance(added, nn.Module):
            yield from added.parameters()


def _size(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
