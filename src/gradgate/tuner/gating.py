"""Enforce a plan on the parameters of a model: set ``requires_grad`` flags and gate gradients with hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.distributed.shards import is_sharded, local
from gradgate.errors import RunError
from gradgate.gates.gradients import GradientBatch, Window, is_unshared
from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.lr_scale import lr_factors
from gradgate.layers.quantized import weight_count
from gradgate.layers.selectors import Selection
from gradgate.methods.plan import OPEN, Gate, Plan
from gradgate.tuner import backward
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.element_masks import ElementMasks


@dataclass(frozen=True)
class MaskedParameter:
    """A parameter with masked weights.

    Attributes:
        restore: called with an optimizer, the tensor that it stepped (the parameter or its master) and a copy of the
            local shard before the step; puts the old values of masked elements back.
    """

    name: str
    parameter: Parameter
    restore: Callable[[torch.optim.Optimizer, Tensor, Tensor], None]


class Gating(Effect):
    """Opens, closes and gates the parameters of a model, and scales their learning rates.

    Parameters that do not require a gradient when it is made are never opened, nor those that the method's
    selection leaves out. :meth:`release` restores every flag.

    Attributes:
        parameters: canonical name to parameter.
        groups: group name to the names of the parameters that may open.
        beside: names of frozen parameters that are in no group, such as those of a teacher.
        masks: of single elements.
    """

    on_model: ClassVar[bool] = True
    state_name: ClassVar[str] = "chosen"

    def __init__(
        self,
        model: nn.Module,
        layers: LayerMap,
        selection: Selection | None,
        seed: int,
        lr_scale: Mapping[str, float],
    ) -> None:
        self.parameters: Mapping[str, Parameter] = named_parameters(model)
        self._kinds: dict[str, tuple[object, ...]] | None = None
        self._trainable = [name for name, parameter in self.parameters.items() if parameter.requires_grad]
        mapped = {name for group in layers for name in group.parameter_names}
        self.beside = frozenset(self.parameters).difference(mapped, self._trainable)
        may_open = set(self._trainable)
        if selection is not None:
            may_open &= set(selection.names)
        self._rows = {} if selection is None else selection.partial
        self.masks = ElementMasks(self.parameters, self._rows, seed)
        self.groups = {group.name: [n for n in group.parameter_names if n in may_open] for group in layers}
        self._group_of = {name: group for group, names in self.groups.items() for name in names}
        self._lr_scale = lr_factors(layers, lr_scale, self._rows)
        self._scaled = {self._group_of[name] for name in self._lr_scale if name in self._group_of}
        self._never = [name for name in self._trainable if name not in self._group_of]
        self._hooks: dict[str, Any] = {}
        self._elements = sum(map(weight_count, self.parameters.values()))
        self._opened: Set[str] | None = None
        self._listed: dict[str, list[str]] = {}
        self._share: float | None = None
        self.plan = Plan({})
        self._batch = GradientBatch(model)
        self._gated_shards: dict[str, Tensor] = {}

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan
        kinds = {group: gate.kind for group, gate in plan.items()}
        if kinds != self._kinds:
            self._kinds, self._listed, self._share, self._opened = kinds, {}, None, None

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the masks of the elements that pass gates with ``chosen``."""
        return self.masks.chosen

    def load_tensors(self, masks: Mapping[str, Tensor]) -> None:
        """Set the masks of the elements that pass gates with ``chosen``; raise RunError if they fit no parameter."""
        self.masks.load(masks)

    def check_chosen(self, plan: Plan) -> None:
        """Check that there are masks of the elements that pass a plan's gates with ``chosen``.

        Raises:
            RunError: if a parameter has none.
        """
        names = [name for group, gate in plan.items() if gate.chosen for name in self.groups[group]]
        lacking = [name for name in names if name not in self.masks.chosen]
        if lacking:
            raise RunError(
                f"The saved state has no choice of weights in {lacking[0]}, of which only some learn. Load the state "
                f"with the tensors that it was saved with; in a checkpoint they are in a file of their own."
            )

    @property
    def trainable(self) -> frozenset[str]:
        """The names of all parameters that may open."""
        return frozenset(self._group_of)

    @property
    def by_group(self) -> dict[str, dict[str, Parameter]]:
        """The parameters of each group that may open, by name."""
        return {group: {name: self.parameters[name] for name in names} for group, names in self.groups.items()}

    def on_plan(self, coming: ComingStep) -> None:
        """Open and close every parameter for the coming step."""
        self.plan = coming.plan
        if coming.previous is not None and self._opened == coming.opened:
            return
        self._opened = coming.opened
        for name in self._never:
            self._close(name)
        for group, gate in coming.plan.items():
            for name in self.groups[group]:
                self._open(name, gate) if name in coming.opened else self._close(name)

    def opened(self, plan: Plan) -> set[str]:
        """Return the names of the parameters that require a gradient under a plan."""
        # A backward pass needs at least one tensor that requires a gradient; if every group is dropped, use those.
        idle = not any(gate.share > 0.0 and self.groups[group] for group, gate in plan.items())
        opened: set[str] = set()
        for group, gate in plan.items():
            if gate.share > 0.0 or (idle and gate.dropped):
                opened.update(self.groups[group])
        return opened

    def closing(self, previous: Plan, plan: Plan) -> list[Parameter]:
        """Return the parameters that a plan closes and the previous one does not."""
        groups = [group for group, gate in plan.items() if gate.closed and not previous[group].closed]
        return [self.parameters[name] for group in groups for name in self.groups[group]]

    def before_step(self, step: OptimizerStep) -> None:
        """Leave the optimizer only the gradients that it may see."""
        self._batch.finish()
        self._gated_shards.clear()
        for name in self._never:
            self.parameters[name].grad = None
        for name in self.listed("closed"):
            if self.parameters[name].grad is not None and step.holds(self.parameters[name]):
                self.parameters[name].grad = None
        for name in self.listed("dropped"):
            if step.holds(self.parameters[name]):
                self.parameters[name].grad = torch.zeros_like(self.parameters[name])

    def masked_parameters(self, step: OptimizerStep) -> list[MaskedParameter]:
        """Return the parameters with masked weights or closed rows that must not move in an optimizer's step."""
        names = dict.fromkeys([*self.listed("masks_weights"), *self._rows])
        candidates = [self.masked_parameter(name) for name in names if self.parameters[name].grad is not None]
        return [one for one in candidates if one is not None and step.holds(one.parameter)]

    def masked_parameter(self, name: str) -> MaskedParameter | None:
        """Return a parameter if it has masked weights or closed rows that must not move while it is open, else None."""
        gate = self.gate_of(name)
        if gate is None or not (gate.masks_weights or (name in self._rows and gate.share > 0.0)):
            return None
        return MaskedParameter(name, self.parameters[name], partial(self.masks.restore, name, gate))

    def zero_masked(self, name: str, tensor: Tensor) -> None:
        """Zero the masked elements in a tensor with the shape of this process's shard of a parameter."""
        gate = self.gate_of(name)
        if gate is not None and gate.masks_weights:
            self.masks.zero(name, gate, tensor)

    def redrawn(self, previous: Plan) -> list[str]:
        """Return the parameters whose gate masks other elements than under the previous plan."""
        return [
            name
            for group, gate in self.plan.items()
            if gate.masks_weights and replace(gate, lr=1.0) != replace(previous[group], lr=1.0)
            for name in self.groups[group]
        ]

    def release(self) -> None:
        """Remove every hook and restore the ``requires_grad`` of each parameter."""
        self._batch.forget()
        for hook in self._hooks.values():
            hook.remove()
        self._hooks, self._opened = {}, None
        for name in self._trainable:
            self.parameters[name].requires_grad_(True)

    def gate_of(self, name: str) -> Gate | None:
        """Return the gate in force on one parameter; None for one that never opens."""
        group = self._group_of.get(name)
        return None if group is None else self._own(name, self.plan[group])

    def gated(self, wanted: Callable[[Gate], bool], plan: Plan | None = None) -> Iterator[tuple[str, Gate]]:
        """Yield the name and gate of each parameter whose gate is wanted, by default under the plan in force."""
        for group, gate in (self.plan if plan is None else plan).items():
            if gate.scope == "attention" or gate.momentum:  # the parameters of the group have different gates
                each = [(name, self._own(name, gate)) for name in self.groups[group]]
                yield from [(name, single) for name, single in each if wanted(single)]
            elif wanted(gate):
                yield from [(name, gate) for name in self.groups[group]]

    def names(self, wanted: Callable[[Gate], bool]) -> list[str]:
        """Return the names of the parameters whose gate is wanted."""
        return [name for name, _ in self.gated(wanted)]

    def listed(self, trait: str) -> list[str]:
        """Return the names of the parameters whose gate has a trait, found once for plans that differ only in masks.

        Args:
            trait: a property of :class:`Gate`.
        """
        if trait not in self._listed:
            self._listed[trait] = self.names(attrgetter(trait))
        return self._listed[trait]

    def gradients(self, trait: str, step: OptimizerStep) -> list[Tensor]:
        """Return the gradients that an optimizer steps on, of the parameters whose gate has a trait."""
        parameters = [self.parameters[name] for name in self.listed(trait)]
        if step.own is not None:
            parameters = [parameter for parameter in parameters if step.holds(parameter)]
        return [gradient for gradient in [parameter.grad for parameter in parameters] if gradient is not None]

    def size(self, group: str) -> int:
        """Count the elements of the group that may open."""
        return sum(self.count(name) for name in self.groups[group])

    def count(self, name: str) -> int:
        """Count the elements of a parameter that may open: all, or those of its open rows."""
        parameter = self.parameters[name]
        if name not in self._rows:
            return weight_count(parameter)
        return sum(stop - start for start, stop in self._rows[name]) * (parameter.numel() // parameter.shape[0])

    def lr_factors(self) -> dict[Tensor, float]:
        """Return the learning-rate factor of each parameter whose factor is not 1."""
        scaled = {group: gate for group, gate in self.plan.items() if gate.lr != 1.0 or group in self._scaled}
        factors = {
            name: gate.lr * self._lr_scale.get(name, 1.0)
            for group, gate in scaled.items()
            if not gate.closed
            for name in self.groups[group]
        }
        return {self.parameters[name]: factor for name, factor in factors.items() if factor != 1.0}

    @property
    def share(self) -> float:
        """The expected share of the elements that a step under the plan in force may change."""
        if self._share is None:
            self._share = self.open_share(self.plan)
        return self._share

    def open_share(self, plan: Plan) -> float:
        """Compute the expected share of the elements that a step under this plan may change."""
        gated = self.gated(lambda gate: gate.share > 0.0, plan)
        opened = sum(self.count(name) * gate.share for name, gate in gated)
        return opened / self._elements

    def _own(self, name: str, gate: Gate) -> Gate:
        """Return the gate of one parameter in a group with this gate."""
        masked = gate.masks(name, self.parameters[name].dim())
        return gate if masked or gate.share <= 0.0 else replace(OPEN, lr=gate.lr)

    def _open(self, name: str, gate: Gate) -> None:
        parameter = self.parameters[name]
        if not parameter.requires_grad:
            parameter.requires_grad_(True)
        if (gate.masks_gradients or name in self._rows) and name not in self._hooks:
            if is_sharded(parameter):  # its gradient comes from FSDP2, which calls no other hook
                shard_hook: Any = parameter.register_post_accumulate_grad_hook
                self._hooks[name] = shard_hook(lambda _: self._gate_shard(name))
                return
            hook: Any = parameter.register_hook  # untyped in torch
            self._hooks[name] = hook(lambda gradient: self._gate_gradient(name, gradient))

    def _close(self, name: str) -> None:
        parameter = self.parameters[name]
        if parameter.requires_grad:
            parameter.requires_grad_(False)
        if parameter.grad is not None:
            parameter.grad = None

    def _gate_gradient(self, name: str, gradient: Tensor) -> Tensor | None:
        self._batch.settle(self.parameters[name])
        gate = self.gate_of(name)
        if gate is None or not (gate.masks_gradients or name in self._rows):
            return None
        if gradient.requires_grad:  # a second derivative follows, so the gate must be part of the graph
            return gradient * self.masks.gate(name, gate, torch.ones_like(gradient))
        # A compiled backward pass shares tensors in ways that reference counts do not show.
        unshared = is_unshared(gradient) and not backward.in_use()
        if unshared and self._batch.pays(gradient) and not (gate.chosen or gate.noise or name in self._rows):
            window = Window(gate.lo, gate.hi, gate.scale, self.masks.key(name, gate))
            if self._batch.takes(self.parameters[name], gradient, window):
                return None
        return self.masks.gate(name, gate, gradient if unshared else gradient.clone())

    def _gate_shard(self, name: str) -> None:
        """Gate this process's shard of a gradient, right after FSDP2 has reduced it."""
        gradient, gate = self.parameters[name].grad, self.gate_of(name)
        if gradient is None or gate is None or not (gate.masks_gradients or name in self._rows):
            return
        # A mask may act twice, as it gives the same zeros; a factor or noise may not.
        again = self._gated_shards.get(name) is gradient
        if again and (gate.scale != 1.0 or gate.noise):
            raise RunError(
                f"FSDP2 reduced the gradient of {name} twice for one step, and its gate has a factor, which must act "
                f"once. Reduce it with the last batch alone: model.set_requires_gradient_sync(False) for the others."
            )
        self.masks.gate(name, gate, local(gradient)[0])
        self._gated_shards[name] = gradient
