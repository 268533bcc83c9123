"""Notice what other code changes in a model while a tuner is attached: flags, and weights that it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter, is_not
from typing import Any, ClassVar

import torch
from torch import nn

from gradgate.distributed.shards import is_sharded
from gradgate.errors import AttachError, some_of
from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.learning import forget_learning, remember_learning
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.switched_adapters import switched_parameters

_FLAG = attrgetter("requires_grad")
_NAMED = 3  # parameters named in a message


class ForeignChanges(Effect):
    """Refuses a step if other code set flags that the plan sets, or replaced weights that the optimizer holds.

    Both are compared before each step of the optimizer, by two passes in C over the parameters and modules: tens of
    microseconds in a model of a few hundred. Flags that PEFT opens when it switches adapters are left to
    :class:`SwitchedAdapters`. In shards, which FSDP2 replaces in each pass, only flags are compared.

    Args:
        model: without wrappers such as DDP.
        layers: its map.
        gating: says what is open.
        audited: an audit compares the flags, so that only replaced weights are looked for here.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, model: nn.Module, layers: LayerMap, gating: Gating, *, audited: bool) -> None:
        self._model, self._gating, self._audited = model, gating, audited
        self._names = tuple(gating.parameters)
        self._parameters = tuple(gating.parameters.values())
        self._expected: list[bool] = []
        # In layers nothing is resized; libraries resize tables and heads, some without another tensor.
        inside = {name for group in layers.layers for name in group.parameter_names}
        self._ends = {name: p for name, p in gating.parameters.items() if name not in inside and not is_sharded(p)}
        self._shapes: list[torch.Size] = []
        self._known: frozenset[int] = frozenset()
        self._homes: tuple[Any, ...] = ()
        self._keys: tuple[str, ...] = ()
        self._values: tuple[object, ...] = ()

    def attach(self) -> None:
        """Note what can learn, and where each parameter is."""
        remember_learning(self._model)
        self._shapes = [parameter.shape for parameter in self._ends.values()]
        self._look()

    def on_plan(self, coming: ComingStep) -> None:
        """Note which parameters the plan opens."""
        self._expected = [name in coming.opened for name in self._names]

    def before_step(self, step: OptimizerStep) -> None:
        """Compare flags and parameters with those of the plan.

        Raises:
            AttachError: naming what was changed.
        """
        if not self._audited and list(map(_FLAG, self._parameters)) != self._expected:
            self._refuse_flags(step.number)
        resized = [parameter.shape for parameter in self._ends.values()] != self._shapes
        if resized or any(map(is_not, map(dict.get, self._homes, self._keys), self._values)):
            self._refuse_replaced(step.number)

    def release(self) -> None:
        """Forget what can learn."""
        forget_learning(self._model)

    def _look(self) -> None:
        self._known = frozenset(map(id, self._model.parameters()))
        places = [] if any(map(is_sharded, self._parameters)) else list(_places(self._model))
        self._homes, self._keys, self._values = zip(*places, strict=True) if places else ((), (), ())

    def _refuse_flags(self, number: int) -> None:
        each = zip(self._names, self._parameters, self._expected, strict=True)
        changed = {name: expected for name, parameter, expected in each if parameter.requires_grad is not expected}
        switched = {id(parameter) for parameter in switched_parameters(self._model)}
        for opened, did in ((False, "True"), (True, "False")):
            names = [name for name, expected in changed.items() if expected is opened]
            names = [name for name in names if opened or id(self._gating.parameters[name]) not in switched]
            if names:
                state = f"{'is' if len(names) == 1 else 'are'} {'open' if opened else 'closed'} in step {number}"
                raise AttachError(
                    f"{some_of(names, _NAMED)} {state}, but other code set requires_grad to {did} while the tuner was "
                    f"attached. Only one may do so: remove the other (a callback such as BackboneFinetuning or "
                    f"FinetuningScheduler, model.freeze(), a loop over requires_grad), or let it freeze before the "
                    f"tuner attaches; what is frozen then is never opened."
                )

    def _refuse_added(self, number: int) -> None:
        now = named_parameters(self._model)
        if added := [name for name, p in now.items() if p.requires_grad and id(p) not in self._known]:
            raise AttachError(
                f"{some_of(added, _NAMED)} {'was' if len(added) == 1 else 'were'} added before step {number}, while "
                f"the tuner was attached, so no optimizer steps {'it' if len(added) == 1 else 'them'}. Expected the "
                f"same tensors until detach(): replace output layers and cut ties first, then make the optimizer and "
                f"the tuner."
            )

    def _refuse_replaced(self, number: int) -> None:
        present = {id(parameter) for parameter in self._model.parameters()}
        before = dict(zip(self._ends, self._shapes, strict=True))
        each = self._gating.parameters.items()
        lost = [name for name, p in each if id(p) not in present or p.shape != before.get(name, p.shape)]
        if not lost:  # a module was wrapped, a tie was cut, or what replaces a module has the same parameters
            self._refuse_added(number)
            self._look()
            return
        now = named_parameters(self._model).get(lost[0])
        old = tuple(before.get(lost[0], self._gating.parameters[lost[0]].shape))
        if now is None:
            how = "it is no longer in the model"
        elif old != tuple(now.shape):
            how = f"its shape was {old} and is {tuple(now.shape)}"
        else:
            how = "it is another tensor"
        raise AttachError(
            f"{some_of(lost, _NAMED)} {'was' if len(lost) == 1 else 'were'} replaced, resized or removed before step "
            f"{number}, while the tuner was attached ({lost[0]}: {how}). The optimizer has the old tensors. "
            f"Expected the same tensors until detach(): resize embeddings, replace heads and tie weights first, then "
            f"make the optimizer and the tuner."
        )


def _places(model: nn.Module) -> Iterator[tuple[dict[str, Any], str, object]]:
    """Yield where each parameter, and each module with parameters, is registered: dictionary, key and value."""
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                yield module._parameters, key, parameter
        for key, child in module._modules.items():
            if child is not None and next(child.parameters(), None) is not None:
                yield module._modules, key, child
