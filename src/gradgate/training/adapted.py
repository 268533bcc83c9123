"""What a run with an adapter does beside training: puts it into the model, and writes what the task has to store."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import nn

from gradgate import adapters
from gradgate.adapters.freezing import head_parameters
from gradgate.layers import named_parameters
from gradgate.training.adapter_choice import read_choice

NAME = "task"
"""Of the adapter in the model and in its files."""


def put_adapter(model: nn.Module, text: str, fresh: Collection[str], seed: int) -> None:
    """Put a fresh adapter into a model and freeze everything but the adapter and the head.

    Args:
        model: from transformers.
        text: the adapter, as in :class:`gradgate.training.config.RunConfig`.
        fresh: names of parameters of the base model that are trained with the head: its pooler, and what the
            pretrained weights lacked.
        seed: of the adapter's weights; no global generator is touched.

    Raises:
        AdapterError: if the adapter does not fit the model.
    """
    add_to_frozen(model, NAME, read_choice(text).kind, fresh, seed)


def add_to_frozen(model: nn.Module, name: str, kind: str, fresh: Collection[str], seed: int) -> None:
    """As :func:`put_adapter`, under any name."""
    adapters.add(model, name, kind, seed=seed)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name in fresh:
            parameter.requires_grad_(True)


def poolers(model: nn.Module) -> frozenset[str]:
    """Names of the parameters of the base model's pooler, which learns with the head wherever there is one.

    A pooler is the dense layer with tanh that AdapterEff's heads (Table 10) and AdapterHub's begin with. Pretrained for
    another purpose, or not at all, as in distilled encoders, a frozen one hides the text from the layer above it.
    """
    return frozenset(name for name in named_parameters(model) if "pooler" in name.split("."))


def try_adapter(model: nn.Module, text: str) -> None:
    """Put an adapter into a model and take it out again; AdapterError if it does not fit."""
    put_adapter(model, text, (), seed=0)
    adapters.remove(model)


def save_adapted(model: Any, folder: Path, fresh: Collection[str]) -> None:
    """Write the adapter and the head as :func:`gradgate.adapters.save` does, and the model's configuration.

    The frozen base is not written: ``adapters.load`` puts the folder into the pretrained model with the same head.
    """
    adapters.save(model, NAME, folder, head_also=fresh)
    model.config.save_pretrained(folder)


def bytes_stored(model: nn.Module, opened: Collection[str], fresh: Collection[str]) -> int:
    """Bytes that a task needs beside the pretrained model: what was trained, and what the pretrained model lacks.

    Args:
        model: with an adapter or without.
        opened: canonical names of the parameters that were open in at least one step.
        fresh: names of the parameters that the pretrained weights lacked.
    """
    parameters = named_parameters(model)
    held = [parameter for name, parameter in parameters.items() if name in opened or name in fresh]
    if adapters.added(model):
        held += [*head_parameters(model), *adapters.parameters(model, NAME)]
    return sum(p.numel() * p.element_size() for p in {id(p): p for p in held}.values())
