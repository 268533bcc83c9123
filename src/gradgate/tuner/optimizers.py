"""Find the optimizers that step one model inside their wrappers, and refuse a parameter in two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Any

import torch
from torch import Tensor

from gradgate.errors import AttachError

_TRAINERS = frozenset({"accelerate", "lightning", "pytorch_lightning"})
_NO_STEP = getattr(torch.optim.Optimizer.step, "__wrapped__", torch.optim.Optimizer.step)


class Optimizers:
    """The torch optimizers inside what a tuner was given, in order; each has a step of its own.

    Accelerate's wrapper stands for the optimizer inside it, and an optimizer that keeps others in its attributes, such
    as one that Trainer's optimizer factories make of Muon and AdamW, for all of these.

    Args:
        given: one optimizer, or a list or tuple of them.

    Attributes:
        wrappers: class names of the objects that are not optimizers of torch, but have one that they step.

    Raises:
        AttachError: for anything else, for an empty list, for one optimizer given twice, and for optimizers whose
            steps cannot be followed.
    """

    def __init__(self, given: Any) -> None:
        self.given: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else (given,)
        self._each = tuple(inner for one in self.given for inner in _stepped(_checked(one)))
        if not self._each:
            raise AttachError("No optimizer was given: the list is empty. Expected one with the trainable parameters.")
        self.wrappers = tuple(
            type(one).__name__ for one in self.given if not (isinstance(one, torch.optim.Optimizer) or _of_trainer(one))
        )
        for number, optimizer in enumerate(self._each):
            if any(optimizer is other for other in self._each[:number]):
                raise AttachError(
                    f"The same {type(optimizer).__name__} is given twice, so one step would count as two. Pass "
                    f"each optimizer once; one that is inside a wrapper is already given by the wrapper."
                )

    def __len__(self) -> int:
        return len(self._each)

    def __iter__(self) -> Iterator[torch.optim.Optimizer]:
        return iter(self._each)

    def with_inner(self) -> Iterator[torch.optim.Optimizer]:
        """Yield the optimizers and those that they step with: each has states of the parameters."""
        for one in self._each:
            yield from nested(one)

    def label(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the name of an optimizer in messages: its class, with a number if several have the same class."""
        names = [type(one).__name__ for one in self._each]
        number = next(number for number, one in enumerate(self._each) if one is optimizer)
        name = names[number]
        return name if names.count(name) == 1 else f"{name} (number {number + 1})"

    @property
    def labels(self) -> str:
        """The labels of all optimizers."""
        return " and ".join(self.label(one) for one in self._each)

    def refuse_shared(self, names: Mapping[int, str]) -> None:
        """Check that no parameter is in two of the optimizers.

        Args:
            names: canonical name by the ``id`` of a parameter.

        Raises:
            AttachError: naming the parameter and both optimizers.
        """
        holder: dict[int, torch.optim.Optimizer] = {}
        for optimizer in self._each:
            for parameter in held_by(optimizer):
                other = holder.setdefault(id(parameter), optimizer)
                if other is not optimizer:
                    name = names.get(id(parameter), f"A parameter of shape {tuple(parameter.shape)}")
                    raise AttachError(
                        f"{name} is in two optimizers, {self.label(other)} and {self.label(optimizer)}: each would "
                        f"step it in every training step. Leave it in one of them."
                    )

    def names(self, names: Mapping[int, str]) -> list[Any]:
        """Return the canonical names of the parameters in order: a list for one optimizer, else a list of lists."""
        each = [[names.get(id(parameter), "?") for parameter in held_by(one)] for one in self._each]
        return each[0] if len(each) == 1 else [*each]

    def holding(self, parameters: Iterable[Tensor]) -> set[torch.optim.Optimizer]:
        """Return the optimizers that hold at least one of the parameters."""
        if len(self._each) == 1:
            return set(self._each)
        wanted = {id(parameter) for parameter in parameters}
        return {one for one in self._each if any(id(parameter) in wanted for parameter in held_by(one))}


def held_by(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Yield the parameters that an optimizer holds, in its order."""
    for group in optimizer.param_groups:
        yield from group["params"]


def smallest_with_gradient(optimizer: torch.optim.Optimizer, count: int) -> list[Tensor]:
    """Return the smallest parameters with a gradient: to keep these until the next step takes little memory."""
    return nsmallest(count, (one for one in held_by(optimizer) if one.grad is not None), key=Tensor.numel)


def nested(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """Return the optimizer and those in its attributes: a rule such as SAM or Lookahead steps with another's."""
    # Its state has an entry per parameter.
    values = [value for name, value in vars(optimizer).items() if name != "state"]
    inside = [one for value in values for one in _items(value) if isinstance(one, torch.optim.Optimizer)]
    return [optimizer, *(part for one in inside if one is not optimizer for part in nested(one))]


def acting(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer whose step updates the weights: the innermost of a wrapper that has all its parameters."""
    inside = nested(optimizer)
    if len(inside) == 1:
        return optimizer
    wanted = {id(parameter) for parameter in held_by(optimizer)}
    same = [one for one in inside if wanted <= {id(parameter) for parameter in held_by(one)}]
    return same[-1]


def _checked(given: Any) -> torch.optim.Optimizer:
    """Unwrap the optimizer from a trainer's wrapper, which only passes its step on, and check it.

    Raises:
        AttachError: for what is not an optimizer, and for one whose updates cannot be followed.
    """
    while _passes_on(given):
        given = given.optimizer
    name = type(given).__name__
    if not isinstance(given, torch.optim.Optimizer):
        raise AttachError(
            f"{name} is not a torch.optim.Optimizer, so nothing can act before and after its steps. Expected an "
            f"optimizer of PyTorch's kind, or a list of them"
            f"{'; schedulefree has AdamWScheduleFree and SGDScheduleFree' if name.startswith('ScheduleFree') else ''}."
        )
    schedule_free = type(given).__module__.startswith("schedulefree.")
    if isinstance(given, torch.optim.LBFGS) or (schedule_free and not hasattr(given, "train")):
        raise AttachError(f"{name} computes gradients inside its step, where gates cannot act. Use another optimizer.")
    step: Any = type(given).step
    if callable(getattr(given, "fused_backward", None)) or getattr(step, "__wrapped__", step) is _NO_STEP:
        raise AttachError(
            f"{name} updates weights within the backward pass and has no step of its own, where gates could act. Use "
            f"an optimizer that updates in step(); release_gradients=True saves the same memory."
        )
    if not getattr(step, "hooked", False) or not hasattr(given, "_optimizer_step_pre_hooks"):
        inside = " If it only forwards its step, pass the optimizer inside it to the tuner." * (len(nested(given)) > 1)
        raise AttachError(
            f"{name} does not call torch.optim.Optimizer.__init__, so torch runs no hook before and after its step, "
            f"and what it writes to closed weights could not be prevented. Use an optimizer that does.{inside}"
        )
    return given


def _passes_on(given: Any) -> bool:
    """Return True for a wrapper of accelerate or Lightning, whose own hooks are never called, and for an object."""
    if not isinstance(getattr(given, "optimizer", None), torch.optim.Optimizer):
        return False
    return _of_trainer(given) or not isinstance(given, torch.optim.Optimizer)


def _of_trainer(given: Any) -> bool:
    return not _TRAINERS.isdisjoint(parent.__module__.split(".")[0] for parent in type(given).__mro__)


def _stepped(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """Return the optimizers that a wrapper of several steps; a list of the optimizer itself if it wraps none."""
    inside: list[torch.optim.Optimizer] = []
    for value in vars(optimizer).values():
        inner = [one for one in _items(value) if isinstance(one, torch.optim.Optimizer)]
        if inner and isinstance(value, dict) and any(isinstance(key, Tensor) for key in value):
            raise AttachError(
                f"{type(optimizer).__name__} keeps an optimizer for each parameter, which steps while gradients are "
                f"still computed, or on a copy of the weights: no gate could act. Use an optimizer that steps all of "
                f"its parameters at once."
            )
        inside += inner
    distinct = list({id(one): one for one in inside}.values())
    if len(distinct) > 1:
        return [part for one in distinct for part in _stepped(_checked(one))]
    # A single one belongs to a rule such as SAM or Lookahead: see StepHooks.
    _checked(acting(optimizer))
    return [optimizer]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]
