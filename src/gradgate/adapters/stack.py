"""A model's adapters: fresh ones, which are active, stacks, the exchange of the lowest one, skipped layers, removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn import Parameter

from gradgate.adapters.architectures import architecture_of
from gradgate.adapters.attach import Attached, attach, attached, check_name, inner, output_embeddings
from gradgate.adapters.build import build
from gradgate.adapters.config import AdapterConfig, adapter_config
from gradgate.errors import AdapterError, nearest


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
        _use_alone(host, name)


def _use_alone(model: nn.Module, name: str) -> None:
    activate(model, name)
    train(model, name)


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


def activate(model: nn.Module, *names: str, skip_layers: int | Iterable[int] = (), inverse: bool = True) -> None:
    """Make a stack of adapters active, from the bottom; without names switch all of them off.

    In MAD-X the language adapter comes first: ``activate(model, "lang", "task")``. The invertible adapter of the lowest
    one maps the embeddings, if it has one. What is trained does not change: see :func:`train`.

    Args:
        model: with adapters.
        names: of adapters that the model has, each at most once.
        skip_layers: layers that run without adapters until the next call: a number for so many from the bottom, or
            the layers' own numbers (AdapterDrop, https://arxiv.org/abs/2010.11918).
        inverse: run the inverse of the invertible adapter before the output embeddings of a language model. It is how
            a language adapter of MAD-X is trained; AdapterHub's library does so in its own model classes, and not in
            stock ones such as BertForMaskedLM, for whose adapters it must be False.

    Raises:
        AdapterError: for an unknown name, a name given twice, a parallel adapter in a stack (it would not see the
            others), or a layer that there is not.
    """
    found = holding(model, names, "active")
    if found is None:
        return
    if len(set(names)) < len(names):
        raise AdapterError(f"An adapter can be in a stack once; got {', '.join(names)}. Name each once.")
    parallel = [name for name in names if found.configs[name].is_parallel]
    if parallel and len(names) > 1:
        raise AdapterError(
            f"{parallel[0]!r} is a parallel adapter: it reads what the sub-layer read, so in a stack it would drop "
            f"what the others give. Activate it alone."
        )
    found.setup.skipped = layer_numbers(found, skip_layers)
    found.setup.active = tuple(names)
    found.setup.inverse = inverse


def switch(model: nn.Module, name: str) -> None:
    """Put another adapter at the bottom of the active stack: MAD-X's change of language at evaluation.

    Raises:
        AdapterError: if nothing is active, or as :func:`activate` does.
    """
    stack = active(model)
    found = attached(model)
    if found is None or not stack:
        raise AdapterError(f"There is no active stack whose lowest adapter {name!r} could replace. Use activate first.")
    activate(model, name, *stack[1:], skip_layers=found.setup.skipped, inverse=found.setup.inverse)


def active(model: nn.Module) -> tuple[str, ...]:
    """The active stack, from the bottom; empty where no adapter is active."""
    found = attached(model)
    return found.setup.active if found is not None else ()


def remove(model: nn.Module, *names: str) -> None:
    """Take adapters out of a model; without names all of them, which gives the model back as it was.

    The base model then has the bits, the forward and the ``requires_grad`` flags that it had before the first adapter.

    Raises:
        AdapterError: for an unknown name.
    """
    found = holding(model, names, "removed")
    if found is None:
        return
    for name in names or tuple(found.configs):
        found.take(name)
    if not found.configs:
        found.detach()
    found.keep_out_of_saves(inner(model))


def holding(model: nn.Module, names: Sequence[str], request: str) -> Attached | None:
    """The adapters of a model, among them these; None where it has none and none is named.

    Raises:
        AdapterError: for a name that the model has no adapter of, saying what it cannot be.
    """
    found = attached(model)
    if found is None and names:
        raise AdapterError(f"{names[0]!r} cannot be {request}: the model has no adapters. Add or load it first.")
    if found is not None:
        for name in names:
            require(found, name)
    return found


def require(found: Attached, name: str) -> None:
    """Refuse a name that the model has no adapter of.

    Raises:
        AdapterError: if it has none.
    """
    if name not in found.configs:
        raise AdapterError(
            f"The model has no adapter {name!r}.{nearest(name, found.configs)} It has {', '.join(found.configs)}."
        )


def layer_numbers(found: Attached, layers: int | Iterable[int]) -> frozenset[int]:
    """A number of layers from the bottom, or their own numbers, as numbers.

    Raises:
        AdapterError: for one that the model does not have.
    """
    count = len(found.base.get_submodule(found.architecture.layers))
    if isinstance(layers, int) and not 0 <= layers <= count:
        raise AdapterError(f"Cannot skip {layers} layers: the model has {count}. Give 0 to {count}.")
    numbers = frozenset(range(layers) if isinstance(layers, int) else layers)
    if not numbers <= set(range(count)):
        raise AdapterError(
            f"Cannot skip layer {sorted(numbers - set(range(count)))[0]}: there are 0 to {count - 1}. "
            f"Give numbers of these."
        )
    return numbers


def train(model: nn.Module, *names: str) -> None:
    """Train these adapters and the head: every other parameter gets ``requires_grad=False``.

    The head is what is outside of the base model, but not the output embeddings of a language model; a pooler belongs
    to the base. Layer norms that an adapter tunes (``ln_scope``) are copies, so the model's own stay as they are.
    Call it before the optimizer is built. What is active does not change: see :func:`activate`.

    Args:
        model: with adapters.
        names: what to train; without any, every parameter of the model gets the flag that it had before the first
            adapter, and all adapters are frozen.

    Raises:
        AdapterError: for an unknown name.
    """
    found = holding(model, names, "trained")
    if found is None:
        return
    for parameter in inner(model).parameters():
        parameter.requires_grad_(False)
    if not names:
        found.restore_flags()
        return
    for parameter in head_parameters(model):
        parameter.requires_grad_(True)
    for name in names:
        for parameter in found.blocks(name).parameters():
            parameter.requires_grad_(True)


def parameters(model: nn.Module, name: str) -> list[Parameter]:
    """The parameters of one adapter, with its copies of layer norms.

    Raises:
        AdapterError: for an unknown name.
    """
    found = holding(model, (name,), "looked at")
    assert found is not None
    return list(found.blocks(name).parameters())


def head_parameters(model: nn.Module) -> list[Parameter]:
    """The parameters of the head: outside of the base model, and not the output embeddings."""
    host = inner(model)
    if host.base_model is host:
        return []
    output = output_embeddings(host)
    others = {id(p) for module in (host.base_model, output) if module is not None for p in module.parameters()}
    return [parameter for parameter in host.parameters() if id(parameter) not in others]
