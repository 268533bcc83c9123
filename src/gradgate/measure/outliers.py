"""Measure the layerwise outlier distribution (LOD): the share of weights that stand out, weighted by their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.errors import AttachError, NonFiniteError
from gradgate.layers.names import canonical_name
from gradgate.measure import Batch, OutlierRequest
from gradgate.measure.trace import described
from gradgate.torch_state import preserved_state


def outlier_shares(
    model: nn.Module, groups: Mapping[str, Iterable[str]], batches: Iterable[Batch], request: OutlierRequest
) -> dict[str, float]:
    """Return the share of outliers in each group, after OWL (Yin et al. 2024, Eq. 1: https://arxiv.org/abs/2310.05175).

    A weight's metric is that of Wanda: its size times the root of the sum over tokens of its squared input. It is an
    outlier if the metric is above ``threshold`` times its mean over all linear layers of the group.

    Args:
        model: not wrapped by DDP or similar; linear layers that no batch runs through do not count.
        groups: group name to canonical parameter names.
        batches: keyword arguments of the model; tokens that ``attention_mask`` leaves out do not count, nor those
            of a decoder that ``decoder_attention_mask`` does.
        request: how to measure.

    Returns:
        Group name to share, in [0, 1].

    Raises:
        AttachError: if there is no batch, the model does not take it, or no group has a linear layer.
        NonFiniteError: if an input is not finite.
    """
    owners = _owners(model, {name: group for group, names in groups.items() for name in names})
    inputs: dict[nn.Module, Tensor] = {}
    with preserved_state(model, training=False, seed=request.seed), _watched(model, owners, inputs) as tokens:
        for batch in islice(batches, request.batches):
            _run(model, batch, tokens)
    if not inputs:
        raise AttachError(
            "Outliers are measured in linear layers, on at least one training batch. None ran: pass batches by "
            "fisher_data, or use draw=uniform for a model without linear layers."
        )
    members = {group: [module for module in inputs if owners[module] == group] for group in groups}
    return {group: _share(group, [(m, inputs[m]) for m in members[group]], request) for group in groups}


def _owners(model: nn.Module, wanted: Mapping[str, str]) -> dict[nn.Module, str]:
    """Return linear layer to group, for each with a wanted weight."""
    return {
        module: wanted[name]
        for prefix, module in model.named_modules()
        if is_linear(module) and (name := canonical_name(f"{prefix}.weight")) in wanted
    }


def is_linear(module: nn.Module) -> bool:
    """Return whether a module multiplies its input by one matrix; GPT-2's Conv1D does, with it transposed."""
    return isinstance(module, nn.Linear) or _is_transposed(module)


def _is_transposed(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


class _Tokens:
    """The tokens of a batch that count in the input of a module.

    In an encoder-decoder, the source's mask is that of the encoder, and of its output where the decoder reads it.
    """

    def __init__(self, model: nn.Module) -> None:
        of_model: Any = model
        decodes = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        self.encoder: nn.Module | None = of_model.get_encoder() if decodes else None
        self._inside = frozenset(self.encoder.modules()) if self.encoder is not None else frozenset(model.modules())
        self._source: Tensor | None = None
        self._target: Tensor | None = None
        self._states: Tensor | None = None

    def begin(self, batch: Mapping[str, Any]) -> None:
        """Take the masks of a batch."""
        self._source, self._target = batch.get("attention_mask"), batch.get("decoder_attention_mask")

    def encoded(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Note the encoder's output, as a forward hook."""
        self._states = output[0]

    def counted(self, module: nn.Module, given: Tensor) -> Tensor:
        """Return the rows of an input that count, shape ``(rows, features)``."""
        mask = self._source if module in self._inside or given is self._states else self._target
        if mask is not None and given.shape[:-1] == mask.shape:
            given = given[mask.bool()]
        return given.reshape(-1, given.shape[-1])


@contextmanager
def _watched(model: nn.Module, owners: Mapping[nn.Module, str], inputs: dict[nn.Module, Tensor]) -> Iterator[_Tokens]:
    """Sum the squared inputs of the modules over the tokens that count."""
    tokens = _Tokens(model)

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        squares = tokens.counted(module, args[0]).detach().float().square().sum(dim=0)
        inputs[module] = inputs[module] + squares if module in inputs else squares

    hooks = [module.register_forward_pre_hook(note) for module in owners]
    if tokens.encoder is not None:
        hooks.append(tokens.encoder.register_forward_hook(tokens.encoded))
    try:
        yield tokens
    finally:
        for hook in hooks:
            hook.remove()


def _run(model: nn.Module, batch: Batch, tokens: _Tokens) -> None:
    device = next(model.parameters()).device
    try:
        given = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()}
        tokens.begin(given)
        model(**given)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise AttachError(
            f"Outliers are measured by calling {type(model).__name__} with a training batch as keyword arguments, "
            f"which failed for {described(batch)}: {error}. Use draw=uniform, or pass "
            f"batches that the model takes as fisher_data=lambda step: batches, to Tuner or GateCallback."
        ) from error


def _share(group: str, members: list[tuple[nn.Module, Tensor]], request: OutlierRequest) -> float:
    """Return the share of outliers in the linear layers of one group, with one weighted matrix at a time."""
    elements = sum(_matrix(module).numel() for module, _ in members)
    if not elements:
        return 0.0
    mean = sum(float(_metric(module, squares).sum(dtype=torch.float64)) for module, squares in members) / elements
    if mean != mean or mean == float("inf"):
        raise NonFiniteError(
            f"The inputs of {group} are not finite, so its outliers cannot be counted. Use bf16 or fp32, not fp16."
        )
    edge = request.threshold * mean
    return sum(int((_metric(module, squares) > edge).sum()) for module, squares in members) / elements


def _metric(module: nn.Module, squares: Tensor) -> Tensor:
    return _matrix(module).abs() * squares.sqrt()


def _matrix(module: nn.Module) -> Tensor:
    """Return the weight of a linear layer in float32, with one row per output."""
    owner: Any = module  # a linear layer or Conv1D
    weight: Tensor = owner.weight.detach().float()
    return weight.T if _is_transposed(module) else weight
