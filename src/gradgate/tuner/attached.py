"""Attach one tuner to a model at a time, keep its traces out of copies of the model, and detach it by the model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, WeakMethod, WeakSet

import torch
from torch import nn

from gradgate.errors import AttachError
from gradgate.layers.names import unwrap
from gradgate.model_copies import CleanCopies
from gradgate.tuner.effect import Effect


@dataclass(frozen=True)
class _Attachment:
    """A tuner on a model, which it does not keep alive.

    Attributes:
        method: the text of its method.
        parameters: the ``id`` of each parameter of the model.
        optimizers: that its tuner follows.
        detach: returns the tuner's ``detach``; None if the tuner is gone.
    """

    method: str
    parameters: frozenset[int]
    optimizers: WeakSet[torch.optim.Optimizer]
    detach: Callable[[], Any]


_ATTACHED: WeakKeyDictionary[nn.Module, _Attachment] = WeakKeyDictionary()


def detach(model: nn.Module) -> None:
    """Detach the tuner of a model, if it has one: remove its hooks, and restore the ``requires_grad`` of parameters.

    Use it if you no longer have the tuner, such as after an exception in a notebook. A tuner on a model that contains
    this one, or is part of it, is detached too. An audit does not compare the weights a last time.

    Args:
        model: any model; wrapped (DDP, compiled, PEFT) or not.
    """
    for attachment in _on(model):
        detach_tuner = attachment.detach()
        if detach_tuner is not None:
            detach_tuner(audit=False)


class TunerMark(Effect):
    """Marks a model as having a tuner, so that a second is refused and copies of the model are made without it.

    A second tuner would mistake what the first one closed for permanently frozen. Two tuners of one optimizer would
    each restore what the other has changed in its groups for a step.

    Args:
        model: without wrappers such as DDP.
        optimizers: that the tuner follows.
        method: the text of the tuner's method.
        detach: the tuner's method of this name.

    Raises:
        AttachError: if a parameter of the model, or an optimizer, has a tuner, naming its method.
    """

    on_model: ClassVar[bool] = True

    def __init__(
        self, model: nn.Module, optimizers: Iterable[torch.optim.Optimizer], method: str, detach: Callable[..., None]
    ) -> None:
        followed = WeakSet(optimizers)
        if _on(model) or _of(followed):
            gc.collect()  # a tuner that nobody holds ends with its optimizer
        for attachment in _on(model):
            raise AttachError(
                f"This model already has a tuner ({attachment.method!r}), and a second would take what that one "
                f"closed as permanently frozen. Call its detach(), or gradgate.detach(model) if you no longer have it; "
                f"or use it in a with block."
            )
        for attachment in _of(followed):
            raise AttachError(
                f"This optimizer already has a tuner ({attachment.method!r}), on another model, and each would undo "
                f"what the other changes in a step. Put both models into one module (nn.ModuleDict) with one tuner, or "
                f"give each an optimizer of its own."
            )
        parameters = frozenset(map(id, model.parameters()))
        self._model, self._attachment = model, _Attachment(method, parameters, followed, WeakMethod(detach))
        self._copies = CleanCopies(model, (p for p in model.parameters() if p.requires_grad))

    def attach(self) -> None:
        """Mark the model."""
        _ATTACHED[self._model] = self._attachment
        self._copies.begin()

    def release(self) -> None:
        """Forget the model."""
        self._copies.end()
        if _ATTACHED.get(self._model) is self._attachment:
            del _ATTACHED[self._model]


def _on(model: nn.Module) -> list[_Attachment]:
    """Return the attachments that have a parameter of the model."""
    ids = frozenset(map(id, unwrap(model).parameters()))
    return [one for one in list(_ATTACHED.values()) if not ids.isdisjoint(one.parameters)]


def _of(optimizers: WeakSet[torch.optim.Optimizer]) -> list[_Attachment]:
    """Return the attachments of tuners that follow one of these optimizers."""
    return [one for one in list(_ATTACHED.values()) if not optimizers.isdisjoint(one.optimizers)]


def free(effects: Iterable[Effect]) -> None:
    """Release the effects of a tuner that was never detached; the first acted first."""
    for effect in [*effects][::-1]:
        effect.release()
