"""Says which parameters learn beside an adapter."""

from __future__ import annotations

from torch import nn
from torch.nn import Parameter

from gradgate.adapters.attach import inner, output_embeddings
from gradgate.adapters.compose import holding


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
