"""Adds fresh adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from gradgate.adapters.architectures import architecture_of
from gradgate.adapters.attach import attach, attached, check_name, inner
from gradgate.adapters.build import build
from gradgate.adapters.config import AdapterConfig, adapter_config
from gradgate.adapters.stack import activate
from gradgate.adapters.stack import train as train_only
from gradgate.errors import AdapterError


def add(
    model: nn.Module,
    name: str,
    kind: str | AdapterConfig | Mapping[str, Any] = "pfeiffer",
    *,
    train: bool = True,
    seed: int = 0,
) -> None:
    """Put a fresh adapter into a model.

    The model keeps its class, and ``save_pretrained`` writes the base model alone. Adapter parameters are in the dtype
    and on the device of the model.

    Args:
        model: from transformers, of an architecture in :data:`ARCHITECTURES`; wrapped or not.
        name: of the adapter; a part of the names of its parameters.
        kind: a kind with options, such as ``"pfeiffer:reduction=16"`` or ``"houlsby:size=64"``, or a configuration
            with AdapterHub's field names.
        train: make it the one active adapter and what is trained: see :func:`train`.
        seed: of the initial weights, unless the configuration has one; no global generator is touched.

    Raises:
        AdapterError: for an unknown kind, architecture or option, or a name that is taken or cannot be one.
    """
    config = adapter_config(kind)
    host = inner(model)
    check_new(host, name)
    blocks = build(host.base_model, architecture_of(host), config, seed)
    for parameter in blocks.parameters():
        parameter.requires_grad_(False)
    found = attach(host)
    found.put(host, name, config, blocks)
    found.keep_out_of_saves(host)
    if train:
        activate(host, name)
        train_only(host, name)


def added(model: nn.Module) -> dict[str, AdapterConfig]:
    """The adapters that a model has, by name, in the order in which they were added."""
    found = attached(model)
    return dict(found.configs) if found is not None else {}


def check_new(model: nn.Module, name: str) -> None:
    """Refuse a name that cannot be one, or that the model's adapters already have.

    Raises:
        AdapterError: if so.
    """
    check_name(name)
    if name in added(model):
        raise AdapterError(f"The model already has an adapter {name!r}. Remove it, or give another name.")
