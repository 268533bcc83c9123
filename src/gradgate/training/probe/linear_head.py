"""Find the linear classifier in a model's head, and the features that it classifies.

A head often has fresh layers below its last one: a dense layer with an activation, drawn at random, as in RoBERTa.
Features behind random weights would be worse than those before them. Such a layer is set to pass its input through:
as a multiple of the identity that is small enough for a tanh, or shifted to where ReLU and GELU are the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.errors import RunError

_SCALE = 1e-4  # tanh(x) = x to 1e-6 for |x| up to 20
_MARGIN = 10.0  # GELU(x) = x to 1e-20
_TOLERANCE = 16  # roundings of the model's dtype, for a layer that passes its input through

Batch = dict[str, Any]


@dataclass(frozen=True)
class PassThrough:
    """A fresh dense layer that hands its input to the classifier: as ``scale * x + shift``."""

    layer: nn.Linear
    scale: float
    shift: float

    def set(self) -> None:
        """Set the layer's weights."""
        with torch.no_grad():
            self.layer.weight.copy_(self.scale * torch.eye(self.layer.in_features))
            if self.layer.bias is not None:
                self.layer.bias.fill_(self.shift)


@dataclass(frozen=True)
class LinearHead:
    """The linear classifier of a model.

    Attributes:
        name: of the last layer, which has one output per label.
        classifier: that layer.
        passing: the fresh layer below whose input is the features; None if the features enter the classifier.
        random: names of fresh layers below the classifier that stay as they were drawn.
    """

    name: str
    classifier: nn.Linear
    passing: PassThrough | None = None
    random: tuple[str, ...] = ()

    def features(self, model: nn.Module, forward: Callable[[Batch], Any], batches: Iterable[Batch]) -> Tensor:
        """Return the features of rows, shape ``(rows, features)``, float32 on the CPU.

        Args:
            model: that has this head.
            forward: runs the model on a batch and returns its output, with ``logits``.
            batches: of the rows, without labels.
        """
        if self.passing is not None:
            rows = []
            for batch in batches:
                with _inputs_of(self.passing.layer) as found:
                    forward(batch)
                rows.append(found[-1])  # a cache that proves itself runs the model once more before
            return torch.cat(rows)
        # Models of the GPT family classify every token and take the last: in place of the layer, that is the features.
        parent = model.get_submodule(self.name.rpartition(".")[0])
        setattr(parent, self.name.rpartition(".")[2], nn.Identity())
        try:
            return torch.cat([forward(batch)["logits"].detach().float().cpu() for batch in batches])
        finally:
            setattr(parent, self.name.rpartition(".")[2], self.classifier)

    def set(self, weight: Tensor, bias: Tensor) -> None:
        """Set the classifier to ``features @ weight.T + bias``.

        Args:
            weight: ``(labels, features)``, float64.
            bias: ``(labels,)``, float64; zeros for a classifier without bias.
        """
        if self.passing is not None:
            self.passing.set()
            weight = weight / self.passing.scale
            bias = bias - self.passing.shift * weight.sum(dim=1)
        with torch.no_grad():
            self.classifier.weight.copy_(weight)
            if self.classifier.bias is not None:
                self.classifier.bias.copy_(bias)


def find_linear_head(model: nn.Module, labels: int, fresh: frozenset[str], forward: Callable[[], Any]) -> LinearHead:
    """Find the linear classifier of a model, and let fresh layers below it pass their input on if they can.

    Args:
        model: with a head for one label per row.
        labels: outputs of the head.
        fresh: names of the parameters that the pretrained weights lack.
        forward: runs the model on some rows, in evaluation mode.

    Raises:
        RunError: if the head does not end in a linear layer.
    """
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    name = next((name for name in reversed(linear) if f"{name}.weight" in fresh and _outputs(linear[name], labels)), "")
    name = name or next((name for name in reversed(linear) if _outputs(linear[name], labels)), "")
    if not name:
        raise RunError(
            f"probe fits a linear layer with {labels} outputs, one per label, but the head of {type(model).__name__} "
            f"ends in none. Train with 'head' instead."
        )
    classifier = linear.pop(name)
    below = {other: module for other, module in linear.items() if f"{other}.weight" in fresh}
    square = [module for module in below.values() if module.in_features == module.out_features]
    if len(below) == 1 and square and square[0].in_features == classifier.in_features:
        passing = _passing(square[0], classifier, forward)
        if passing is not None:
            return LinearHead(name, classifier, passing)
    return LinearHead(name, classifier, random=tuple(below))


def _outputs(layer: nn.Linear, labels: int) -> bool:
    return layer.out_features == labels


def _passing(layer: nn.Linear, classifier: nn.Linear, forward: Callable[[], Any]) -> PassThrough | None:
    """Return how a layer passes its input to the classifier; None, with its weights as they were, if it cannot."""
    before = {name: value.detach().clone() for name, value in layer.named_parameters()}
    with _inputs_of(layer) as entering:
        forward()
    largest = float(torch.cat(entering).abs().max())
    ways = [PassThrough(layer, _SCALE, 0.0)]
    if layer.bias is not None:
        ways.append(PassThrough(layer, 1.0, 4 * largest + _MARGIN))
    for way in ways:
        way.set()
        with _inputs_of(layer) as entering, _inputs_of(classifier) as leaving:
            forward()
        expected = way.scale * torch.cat(entering) + way.shift
        found = torch.cat(leaving)
        allowed = _TOLERANCE * torch.finfo(layer.weight.dtype).eps * float(expected.abs().max())
        if found.shape == expected.shape and float((found - expected).abs().max()) <= allowed:
            return way
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.copy_(before[name])
    return None


@contextmanager
def _inputs_of(layer: nn.Linear) -> Iterator[list[Tensor]]:
    """Collect what enters a layer within the body: ``(rows, features)`` in float32 on the CPU, a tensor per pass."""
    found: list[Tensor] = []

    def read(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found.append(inputs[0].detach().float().cpu().reshape(-1, inputs[0].shape[-1]))

    hook = layer.register_forward_pre_hook(read)
    try:
        yield found
    finally:
        hook.remove()
