"""Give each parameter one name, whatever wraps the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.errors import LayerMapError

if TYPE_CHECKING:
    from torch import nn

WRAPPER_PARTS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_fpw_module"})


def canonical_name(name: str) -> str:
    """Return the dotted name without the parts that DDP, FSDP, ``torch.compile`` and checkpointing insert.

    ``"module._orig_mod.encoder.layer.0.weight"`` becomes ``"encoder.layer.0.weight"``.
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPER_PARTS)


def is_bias(name: str) -> bool:
    """Return whether a parameter is a bias: ``bias``, or such as ``q_bias`` in a module with several."""
    last = name.rpartition(".")[2]
    return last == "bias" or last.endswith("_bias")


def named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters by canonical name, in the model's order, one entry per distinct tensor.

    Tensors are compared by identity: two equal biases are two entries, a tied pair is one, under its first name.

    Raises:
        LayerMapError: if two different tensors have one canonical name.
    """
    found: dict[str, nn.Parameter] = {}
    raw_names: dict[str, str] = {}
    for raw, parameter in model.named_parameters():
        name = canonical_name(raw)
        if name in found:
            raise LayerMapError(
                f"The parameters {raw_names[name]!r} and {raw!r} are different tensors, but both are named {name!r} "
                f"once the names that wrappers add are removed. Expected one tensor for each name; "
                f"rename the submodule that is called like a wrapper ({', '.join(sorted(WRAPPER_PARTS))})."
            )
        found[name], raw_names[name] = parameter, raw
    return found


def tied_names(model: nn.Module) -> tuple[tuple[str, ...], ...]:
    """Return the canonical names that share a tensor, one tuple per shared tensor, in the model's order."""
    names: dict[int, dict[str, None]] = {}
    for raw, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), {})[canonical_name(raw)] = None
    return tuple(tuple(shared) for shared in names.values() if len(shared) > 1)


def unwrap(model: nn.Module) -> nn.Module:
    """Return the model inside DDP, DataParallel and ``torch.compile``. FSDP stays: its forward gathers the shards.

    Raises:
        LayerMapError: for anything that is not a module, naming the modules in its attributes.
    """
    from torch import nn  # deferred: reading names must not import torch
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    if not isinstance(model, nn.Module):
        raise LayerMapError(_not_a_module(model))
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def _not_a_module(given: object) -> str:
    """Return the message for what is not a module: a pipeline, a trainer, SetFit's model, a path."""
    from torch import nn

    name = type(given).__name__
    shown = f"the text {given!r}" if isinstance(given, str) else name
    attributes = vars(given) if hasattr(given, "__dict__") else {}
    modules = [attribute for attribute, value in attributes.items() if isinstance(value, nn.Module)]
    inside = f" It has one in {' and in '.join(modules)}: pass its {modules[0]} instead." if modules else ""
    hint = " Load it first, as with AutoModel.from_pretrained(...)." if isinstance(given, str) else inside
    return f"{shown} is not a model whose layers can be mapped. Expected a torch.nn.Module.{hint}"


def reshard(model: nn.Module) -> None:
    """Reshard a model that a forward pass left with unsharded parameters, as FSDP2 does at its root."""
    from torch.distributed.fsdp import FSDPModule

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
