"""Build the modules of one adapter for one model, apart from the model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from gradgate.adapters.architectures import ATTENTION, INVERTIBLE, OUTPUT, Architecture, InvertibleSite, Site
from gradgate.adapters.config import AdapterConfig
from gradgate.adapters.modules import Bottleneck, Invertible
from gradgate.errors import AdapterError


@dataclass
class AdapterModules:
    """The modules of one adapter.

    Attributes:
        modules: path from the base model of the place, as in AdapterHub's files, to module.
        norms: path from the base model of a layer norm to the copy that the adapter tunes.
    """

    modules: dict[str, nn.Module] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(default_factory=dict)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield every parameter of the adapter."""
        for module in (*self.modules.values(), *self.norms.values()):
            yield from module.parameters()


def build(base: Any, architecture: Architecture, config: AdapterConfig, seed: int) -> AdapterModules:
    """Build the modules of an adapter with fresh weights, in the dtype of the base model, on the devices of its layers.

    Args:
        base: the encoder or decoder itself, from transformers.
        seed: of the draws, which touch no global generator.

    Raises:
        AdapterError: if the configuration does not fit the model.
    """
    layers = base.get_submodule(architecture.layers)
    _check(base, architecture, config, len(layers))
    hidden = base.config.hidden_size
    blocks = AdapterModules()
    with torch.device("meta"):  # nothing is drawn there
        for number in range(len(layers)):
            for where, wanted in ((ATTENTION, config.mh_adapter), (OUTPUT, config.output_adapter)):
                if wanted and number not in config.leave_out:
                    place = f"{architecture.layers}.{number}.{architecture.sites[where]}"
                    blocks.modules[place] = Bottleneck(config, hidden, config.width(number, hidden))
        if config.inv_adapter:
            blocks.modules[INVERTIBLE] = Invertible(config, embedding_width(base))
    seed = config.init_weights_seed if config.init_weights_seed is not None else seed
    _initialize(blocks, base, architecture, seed)
    for path in norm_paths(base, architecture, config.ln_scope):
        blocks.norms[path] = norm_copy(base.get_submodule(path))
    return blocks


def norm_paths(base: Any, architecture: Architecture, scope: str) -> list[str]:
    """Return the paths of the layer norms of a scope: none, those in the layers (``encoder``), or all."""
    added = tuple(f"{path}." for path, module in base.named_modules() if isinstance(module, Site | InvertibleSite))
    found = [
        path
        for path, module in base.named_modules()
        if _is_norm(module) and ".tuned." not in path and not path.startswith(added)
    ]
    inside = architecture.layers + "."
    return [path for path in found if scope == "all" or (scope == "encoder" and path.startswith(inside))]


def norm_copy(norm: nn.Module) -> nn.Module:
    """Copy one of the model's layer norms, trainable and without the copies attached to it.

    Raises:
        AdapterError: if its weights are offloaded.
    """
    if hasattr(norm, "_hf_hook") and any(parameter.is_meta for parameter in norm.parameters()):
        raise AdapterError(
            f"A {type(norm).__name__} that the adapter tunes is not in memory: a device_map offloads it. Load the "
            f"model without offloading, or use an adapter with ln_scope=none."
        )
    clone = copy.deepcopy(norm)
    clone._modules.pop("tuned", None)
    for name in ("forward", "_old_forward", "_hf_hook"):
        clone.__dict__.pop(name, None)
    return clone.requires_grad_(True)


def embedding_width(base: Any) -> int:
    """Return the number of features that the embeddings pass to the invertible adapter."""
    narrow = getattr(base.config, "embedding_size", None) if base.config.model_type == "electra" else None
    return int(narrow or base.config.hidden_size)


def _check(base: Any, architecture: Architecture, config: AdapterConfig, layers: int) -> None:
    beyond = [number for number in config.leave_out if number >= layers]
    if beyond:
        raise AdapterError(
            f"leave_out names layer {beyond[0]}, but the model has layers 0 to {layers - 1}. Leave it out of the list."
        )
    if len(set(config.leave_out)) == layers:
        raise AdapterError(f"leave_out names all {layers} layers, so the adapter would have no module. Name fewer.")
    if config.residual_before_ln == "post_add" and not architecture.post_norm:
        raise AdapterError(
            "residual_before_ln='post_add' needs a layer norm after each sub-layer; this model has none. Use True or "
            "False instead."
        )


def _initialize(blocks: AdapterModules, base: Any, architecture: Architecture, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    dtype = next(p.dtype for p in base.parameters() if p.is_floating_point())
    for place, module in blocks.modules.items():
        number = place.removeprefix(f"{architecture.layers}.").partition(".")[0]
        path = architecture.embeddings if place == INVERTIBLE else f"{architecture.layers}.{number}"
        module.to_empty(device="cpu")
        module.initialize(generator)  # type: ignore[operator]
        module.to(device=_device_of(base.get_submodule(path)), dtype=dtype)


def _device_of(layer: nn.Module) -> Any:
    """Return the device on which a layer computes: that of accelerate's hooks if these load its weights."""
    device = next(layer.parameters()).device
    if device.type != "meta":
        return device
    places = (getattr(getattr(module, "_hf_hook", None), "execution_device", None) for module in layer.modules())
    return next((place for place in places if place is not None), device)


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and isinstance(getattr(module, "weight", None), nn.Parameter)
