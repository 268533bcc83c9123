"""Put an adapter into a pretrained model, write it, and count the bytes that a task stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from gradgate.adapters.kinds import AdapterKind
from gradgate.adapters.stack import head_parameters
from gradgate.layers import named_parameters
from gradgate.layers.quantized import weight_count
from gradgate.settings.arms.adapter import AdapterSetting


def put_adapter(model: nn.Module, adapter: AdapterSetting, fresh: Collection[str], seed: int) -> frozenset[str]:
    """Put a fresh adapter into a model and freeze everything but the adapter and the head.

    Args:
        model: from transformers, with the head of the task.
        adapter: the run's adapter.
        fresh: names of parameters that the pretrained weights lacked.
        seed: of the adapter's weights; no global generator is touched.

    Returns:
        ``fresh``, and the names of the base model's pooler, which is trained with the head unless the adapter has
        ``pooler=frozen``.

    Raises:
        AdapterError: if the adapter does not fit the model.
    """
    with_head = frozenset(fresh) | (poolers(model) if adapter.pooler == "trained" else frozenset())
    adapter.kind.put(model, with_head, seed)
    return with_head


def poolers(model: nn.Module) -> frozenset[str]:
    """Return the names of the parameters of the base model's pooler, which by default learns with the head.

    A pooler is the dense layer with tanh that AdapterEff's heads (Table 10) and AdapterHub's begin with. Pretrained for
    another purpose, or not at all, as in distilled encoders, a frozen one hides the text from the layer above it.
    FUN's code keeps it frozen all the same: the adapter's option ``pooler=frozen``.
    """
    return frozenset(name for name in named_parameters(model) if "pooler" in name.split("."))


def try_adapter(model: nn.Module, adapter: AdapterSetting) -> None:
    """Put an adapter into a model and take it out again; AdapterError if it does not fit."""
    put_adapter(model, adapter, (), seed=0)
    adapter.kind.remove(model)


def described(model: Any, adapter: AdapterSetting | None) -> dict[str, str | int]:
    """Return the entry of ``run.json`` for a model, with its adapter if it has one."""
    count = sum(map(weight_count, model.parameters()))
    record: dict[str, str | int] = {"class": type(model).__name__, "parameters": count}
    place = adapter.kind.described(model) if adapter is not None else ""
    return record | ({"adapter": place} if place else {})


def save_adapted(model: Any, kind: AdapterKind, folder: Path, fresh: Collection[str]) -> None:
    """Write the adapter and the head in the format of the adapter's library, and the model's configuration.

    The frozen base is not written: the kind's ``load`` puts the folder into the pretrained model with the same head.
    """
    kind.save(model, folder, head_also=fresh)
    model.config.save_pretrained(folder)


def bytes_stored(model: nn.Module, opened: Mapping[str, int], fresh: Collection[str], kind: AdapterKind | None) -> int:
    """Return the bytes that a task stores on top of the pretrained model: trained and fresh parameters.

    Args:
        model: with the adapter, if there is one.
        opened: canonical name to the number of elements of each parameter that was open in at least one step; an
            adapter is saved with whole parameters.
        fresh: names of the parameters that the pretrained weights lacked.
        kind: of the adapter, whose files may contain more than its parameters; None without one.
    """
    parameters = named_parameters(model)
    stored = {name: parameter for name, parameter in parameters.items() if name in opened or name in fresh}
    if kind is None:
        whole = {name: parameter.numel() for name, parameter in stored.items() if name in fresh}
        return sum(count * parameters[name].element_size() for name, count in ({**opened, **whole}).items())
    of_adapter = {id(parameter) for parameter in kind.parameters(model)}
    rest = [parameter for parameter in (*stored.values(), *head_parameters(model)) if id(parameter) not in of_adapter]
    return _size(rest) + kind.bytes_stored(model)


def _size(parameters: list[nn.Parameter]) -> int:
    return sum(p.numel() * p.element_size() for p in {id(p): p for p in parameters}.values())
