"""Find the parameters of a model that are not in memory: it has no weights, or accelerate keeps some elsewhere."""

from __future__ import annotations

from torch import nn

from gradgate.errors import AttachError, LayerMapError, some_of
from gradgate.layers.names import named_parameters


def check_can_learn(model: nn.Module) -> None:
    """Check that every parameter is in memory, as a training needs it.

    Raises:
        AttachError: if one is on the meta device. Autograd refuses gradients for modules that are offloaded, also for
            an adapter on a frozen one.
    """
    absent = _absent(model)
    if not absent:
        return
    if _is_offloaded(model, absent):
        raise AttachError(
            f"{_named(absent)} not in memory (device 'meta'): a device_map keeps them on the CPU or on disk, and what "
            f"is offloaded cannot be trained, nor can an adapter on it. Load the model whole: on one device, over "
            f"several GPUs that hold all of it, or in 4 bits under LoRA; --fsdp and accelerate's FSDP shard what one "
            f"device cannot hold."
        )
    raise AttachError(
        f"{_named(absent)} without values (device 'meta'), so nothing can be trained. Load the weights with "
        f"from_pretrained, or allocate them with to_empty(device=...), before the optimizer is built."
    )


def check_can_be_mapped(model: nn.Module) -> None:
    """Check that a forward pass shows which parameters run when.

    Raises:
        LayerMapError: if some are offloaded: the forward then runs other tensors in their place.
    """
    absent = _absent(model)
    if absent and _is_offloaded(model, absent):
        raise LayerMapError(
            f"{_named(absent)} not in memory (device 'meta'): a device_map keeps them on the CPU or on disk, "
            f"and other tensors run in their place, so the forward pass does not show which layer uses them. "
            f"Load the model without offloading, or map a model without weights: with torch.device('meta'), "
            f"AutoModel.from_config(...)."
        )


def _is_offloaded(model: nn.Module, absent: list[str]) -> bool:
    """Return True if the model can run although parameters have no values: others have some, or hooks load them."""
    hooked = any(getattr(module, "_hf_hook", None) is not None for module in model.modules())
    return hooked or len(absent) < len(named_parameters(model))


def _absent(model: nn.Module) -> list[str]:
    return [name for name, parameter in named_parameters(model).items() if parameter.is_meta]


def _named(absent: list[str]) -> str:
    return f"{some_of(absent, 1)} {'is' if len(absent) == 1 else 'are'}"
