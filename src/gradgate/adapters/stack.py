"""Manage a model's adapters: add, activate and stack them, exchange the lowest one, skip layers, remove them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from torch import nn
from torch.nn import Parameter

from gradgate.adapters.architectures import architecture_of
from gradgate.adapters.attach import Attached, attach, attached, check_name, inner, output_embeddings
from gradgate.adapters.build import build
from gradgate.adapters.config import SEEDS, AdapterConfig, adapter_config, is_seed
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

    The model keeps its class, and ``save_pretrained`` writes only the base model. Adapter parameters are in the dtype
    and on the device of the model.

    Args:
        model: from transformers, of an architecture in :data:`ARCHITECTURES`; wrapped or not.
        name: of the adapter; a part of the names of its parameters.
        kind: a kind with options, such as ``"pfeiffer:reduction=16"`` or ``"houlsby:size=64"``, or a configuration
            with AdapterHub's field names.
        train: make it the one active adapter and what is trained: see :func:`train`.
        seed: of the initial weights, unless the configuration has one; no global generator is touched.

    Raises:
        AdapterError: for an unknown kind, architecture or option, a name that is taken or invalid, or a seed that torch
            cannot take.
    """
    config = adapter_config(kind)
    if not is_seed(seed):
        raise AdapterError(f"seed={seed!r:.100}: expected {SEEDS}. Pass another one.")
    host = inner(model)
    check_new(host, name)
    blocks = build(host.base_model, architecture_of(host), config, seed)
    # Closed here, as with train=False nothing else would close them.
    for parameter in blocks.parameters():
        parameter.requires_grad_(False)
    adapters = attach(host)
    adapters.put(host, name, config, blocks)
    adapters.keep_out_of_saves(host)
    if train:
        _use_alone(host, name)


def _use_alone(model: nn.Module, name: str) -> None:
    activate(model, name)
    train(model, name)


def added(model: nn.Module) -> dict[str, AdapterConfig]:
    """Return the adapters of a model by name, in the order in which they were added."""
    adapters = attached(model)
    return dict(adapters.configs) if adapters is not None else {}


def check_new(model: nn.Module, name: str) -> None:
    """Refuse an invalid name, or one that the model's adapters already have.

    Raises:
        AdapterError: if the name is invalid or taken.
    """
    check_name(name)
    if name in added(model):
        raise AdapterError(f"The model already has an adapter {name!r}. Remove it, or use another name.")


def activate(model: nn.Module, *names: str, skip_layers: int | Iterable[int] = (), inverse: bool = True) -> None:
    """Make a stack of adapters active, from the bottom; without names, switch all of them off.

    In MAD-X the language adapter comes first: ``activate(model, "lang", "task")``. The invertible adapter of the lowest
    one maps the embeddings, if it has one. What is trained does not change: see :func:`train`.

    Args:
        model: with adapters.
        names: of adapters that the model has, each at most once.
        skip_layers: layers that run without adapters until the next call: how many from the bottom, or the layers' own
            numbers (AdapterDrop, https://arxiv.org/abs/2010.11918).
        inverse: run the inverse of the invertible adapter before the output embeddings of a language model. It is how
            a language adapter of MAD-X is trained; AdapterHub's library does so in its own model classes, and not in
            stock ones such as BertForMaskedLM, for whose adapters it must be False.

    Raises:
        AdapterError: for an unknown name, a name given twice, a parallel adapter in a stack (it would not see the
        others), or a layer that does not exist.
    """
    adapters = holding(model, names, "active")
    if adapters is None:
        return
    if len(set(names)) < len(names):
        raise AdapterError(f"An adapter can be in a stack only once; got {', '.join(names)}. Name each once.")
    parallel = [name for name in names if adapters.configs[name].is_parallel]
    if parallel and len(names) > 1:
        raise AdapterError(
            f"{parallel[0]!r} is a parallel adapter: it reads the input of the sub-layer, so in a stack it would "
            f"ignore the output of the others. Activate it alone."
        )
    # Nothing changes before all checks have passed.
    adapters.setup.skipped = layer_numbers(adapters, skip_layers)
    adapters.setup.active = tuple(names)
    adapters.setup.inverse = inverse


def switch(model: nn.Module, name: str) -> None:
    """Put another adapter at the bottom of the active stack: MAD-X's change of language at evaluation.

    Raises:
        AdapterError: if nothing is active, or as :func:`activate` does.
    """
    stack = active(model)
    adapters = attached(model)
    if adapters is None or not stack:
        raise AdapterError(
            f"There is no active stack in which {name!r} could replace the lowest adapter. Use activate first."
        )
    # Only the bottom changes: skipped layers and the inverse stay as they are.
    activate(model, name, *stack[1:], skip_layers=adapters.setup.skipped, inverse=adapters.setup.inverse)


def active(model: nn.Module) -> tuple[str, ...]:
    """Return the active stack, from the bottom; empty if no adapter is active."""
    adapters = attached(model)
    return adapters.setup.active if adapters is not None else ()


def remove(model: nn.Module, *names: str) -> None:
    """Take adapters out of a model; without names, all of them, which restores the model.

    The base model then has the bits, the forward and the ``requires_grad`` flags that it had before the first adapter.

    Raises:
        AdapterError: for an unknown name.
    """
    adapters = holding(model, names, "removed")
    if adapters is None:
        return
    for name in names or tuple(adapters.configs):
        adapters.take(name)
    if not adapters.configs:
        adapters.detach()
    # Also after detach(), which leaves no names: save_pretrained works as before.
    adapters.keep_out_of_saves(inner(model))


def holding(model: nn.Module, names: Sequence[str], request: str) -> Attached | None:
    """Return a model's adapters after a check that it has those of these names; None if it has no adapters.

    Raises:
        AdapterError: for an unknown name; the message says what it cannot be (``request``).
    """
    adapters = attached(model)
    if adapters is None and names:
        raise AdapterError(f"{names[0]!r} cannot be {request}: the model has no adapters. Add or load it first.")
    if adapters is not None:
        for name in names:
            require(adapters, name)
    return adapters


def require(adapters: Attached, name: str) -> None:
    """Refuse a name of which the model has no adapter.

    Raises:
        AdapterError: for an unknown name.
    """
    if name not in adapters.configs:
        raise AdapterError(
            f"The model has no adapter {name!r}.{nearest(name, adapters.configs)} It has {', '.join(adapters.configs)}."
        )


def layer_numbers(adapters: Attached, layers: int | Iterable[int]) -> frozenset[int]:
    """Return the numbers of layers, given as a count from the bottom or as the numbers themselves.

    Raises:
        AdapterError: for one that the model does not have, or anything but whole numbers.
    """
    count = len(adapters.base.get_submodule(adapters.architecture.layers))
    if isinstance(layers, int) and not 0 <= layers <= count:
        raise AdapterError(f"Cannot skip {layers} layers: the model has {count}. Use 0 to {count}.")
    numbers = range(layers) if isinstance(layers, int) else whole_numbers("skip_layers", layers)
    beyond = [number for number in numbers if number not in range(count)]
    if beyond:
        raise AdapterError(f"Cannot skip layer {min(beyond)}: there are 0 to {count - 1}. Use numbers in this range.")
    return frozenset(numbers)


def whole_numbers(what: str, numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of layers in an argument.

    Raises:
        AdapterError: for anything but whole numbers; the message begins with ``what``.
    """
    is_list = isinstance(numbers, Iterable) and not isinstance(numbers, str | bytes)
    found = tuple(numbers) if is_list else ()
    if not is_list or not all(isinstance(number, Integral) for number in found):
        raise AdapterError(f"{what}: expected numbers of layers, such as [0, 1], got {numbers!r:.100}. Pass a list.")
    return tuple(map(int, found))


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
    adapters = holding(model, names, "trained")
    if adapters is None:
        return
    for parameter in inner(model).parameters():
        parameter.requires_grad_(False)
    if not names:  # the flags that the base model had before the first adapter
        adapters.restore_flags()
        return
    for parameter in head_parameters(model):
        parameter.requires_grad_(True)
    for name in names:
        for parameter in adapters.blocks(name).parameters():
            parameter.requires_grad_(True)


def parameters(model: nn.Module, name: str) -> list[Parameter]:
    """Return the parameters of one adapter, with its copies of layer norms.

    Raises:
        AdapterError: for an unknown name.
    """
    adapters = holding(model, (name,), "looked at")
    assert adapters is not None
    return list(adapters.blocks(name).parameters())


def head_parameters(model: nn.Module) -> list[Parameter]:
    """Return the parameters of the head: outside of the base model, and not the output embeddings."""
    host = inner(model)
    if host.base_model is host:  # a bare encoder or decoder has no head
        return []
    # Output embeddings are often tied to the input's, and belong to the pretrained weights.
    output = output_embeddings(host)
    others = {id(p) for module in (host.base_model, output) if module is not None for p in module.parameters()}
    return [parameter for parameter in host.parameters() if id(parameter) not in others]
