"""The tuner joins a model, its optimizer and a method, and keeps the gates through optimizer hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import nn

from gradgate.activation_cache import ActivationCache, FrozenPrefix, Horizon, Tally
from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.errors import AttachError, RunError
from gradgate.fisher import Batches
from gradgate.layers import LayerMap, map_layers
from gradgate.layers.names import unwrap
from gradgate.methods.base import Memory, Method, Plan
from gradgate.methods.catalog import method as read_method
from gradgate.methods.plan_file import Phase, Timeline
from gradgate.tuner.audit import Audit, audited
from gradgate.tuner.backward import Checkpointing, GraphLimits
from gradgate.tuner.checks import (
    check_alone,
    check_finite,
    check_reachable,
    note_attached,
    note_detached,
    reached_names,
)
from gradgate.tuner.gating import Gating
from gradgate.tuner.held_weights import Holding
from gradgate.tuner.measuring import Measuring
from gradgate.tuner.mixout import Mixing
from gradgate.tuner.optimizer_groups import LearningRates, check_state_policy, forget
from gradgate.tuner.optimizer_hooks import StepHooks, innermost, was_skipped
from gradgate.tuner.state import check_state, load_tensors, tensors_of


class Tuner:
    """Makes the parameters of a model learn as a method says, in any PyTorch loop.

    The plan for a step is in force before its forward pass: a closed group has ``requires_grad=False``, and a
    sparse one has its gradient gated as autograd produces it, before accumulation and clipping. After each
    optimizer step that happened the clock ticks and the next plan is set. Parameters that do not require a
    gradient when the tuner attaches are never opened.

    Args:
        model: any model whose layers can be mapped; wrapped (DDP, compiled, PEFT) or not.
        optimizer: holds every parameter that the method will open.
        method: a method or its text, such as ``"gradual:every=50"``.
        total_steps: optimizer steps of the whole training; needed by methods that count epochs.
        steps_per_epoch: optimizer steps in one pass over the data; needed by methods that count epochs.
        seed: of every random draw that the method makes.
        audit: compare tensors bit for bit at each change of phase; see :class:`gradgate.tuner.audit.Audit`. None is
            False unless the environment variable ``GRADGATE_AUDIT`` is 1.
        layers: a layer map, or the path of the layer stack for :func:`map_layers`; by default found.
        fisher_data: called with the number of steps done where a method measures the Fisher information; returns
            training batches, each the keyword arguments of the model.
        state: what :meth:`state_dict` gave, to continue there: as :meth:`load_state_dict` right afterwards, but
            nothing is measured before.
        activation_cache: keeps the output of the closed layers at the bottom, so that it is computed once for each
            example. Needs ``steps_per_epoch``; by default nothing is kept.

    Closed groups at the bottom run in evaluation mode: dropout there would only disturb what no longer learns.

    Raises:
        AttachError: if the optimizer lacks a parameter that the method will open, nothing can be opened, or the
            model already has a tuner.
        MethodError: if the method does not fit the model.
        LayerMapError: if the layers cannot be found.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        method: Method | str,
        *,
        total_steps: int | None = None,
        steps_per_epoch: int | None = None,
        seed: int = 0,
        audit: bool | None = None,
        layers: LayerMap | str | None = None,
        fisher_data: Batches | None = None,
        state: Mapping[str, Any] | None = None,
        activation_cache: ActivationCache | None = None,
    ) -> None:
        self.method = read_method(method)
        self._model = unwrap(model)
        self._replicas = Replicas(model, optimizer, self._model)
        self.layers = layers if isinstance(layers, LayerMap) else map_layers(model, layers=layers)
        self.method.check(self.layers)
        self.clock = Clock(0, steps_per_epoch, total_steps)
        self.memory = Memory(seed=seed)
        self.timeline = Timeline()
        self.optimizer = innermost(optimizer)
        check_state_policy(self.optimizer, self.method.state_of_closed)
        check_alone(self._model)
        self._gating = Gating(self._model, self.layers, self.method, seed)
        check_reachable(self.method, self.layers, self._gating.groups, self._gating.parameters, self.optimizer)
        self._rates = LearningRates(self.optimizer)
        self._holding = Holding(self.optimizer)
        self._checkpointing = Checkpointing(self._model)
        self._graph_limits = GraphLimits()
        self._total = sum(parameter.numel() for parameter in self._gating.parameters.values())
        self._open_sum = 0.0
        self._steps: StepHooks | None = None
        self._audit = Audit(self._gating.parameters, self._replicas) if audited(audit) else None
        self._measuring = Measuring(self._model, self.method, self.layers, self._gating, self._replicas, fisher_data)
        self._mixing: Mixing | None = None
        horizon = (
            Horizon(self.method, self.layers, self.clock, seed, activation_cache.passes) if activation_cache else None
        )
        self._prefix = FrozenPrefix(self._model, self.layers, activation_cache, horizon)
        if state is None:
            self.memory = self._measuring.before(self.clock, self.memory)
        first = self._next_plan()
        self._replicas.expect(
            reached_names(self.method, self.layers, self._gating.groups),
            self._opened_at,
            self.clock,
            ahead=not self.method.decides_by_measuring,
        )
        try:
            self._attach(first)
            if state is not None:
                self.load_state_dict(state)
        except BaseException:
            self.detach(audit=False)
            raise

    def _attach(self, first: Plan) -> None:
        self._steps = StepHooks(self.optimizer, self._begin_step, self._end_step, self._give_back_groups)
        note_attached(self._model, self.method.spec)
        if self.method.mixing:
            opening = {name for names in self._gating.groups.values() for name in names}
            self._mixing = Mixing(self._model, self.method.mixing, opening, self.memory.seed)
        self._replicas.watch()
        self._set_plan(first)
        self._begin_phase()

    def __enter__(self) -> Tuner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach(audit=error is None)

    @property
    def plan(self) -> Plan:
        """The gates for the step that comes next, by group."""
        return self._gating.plan

    @property
    def open_fraction(self) -> float:
        """Share of all parameters that the coming step may change; a sparse gate counts with its share."""
        return self._gating.open_elements / self._total

    @property
    def mean_open_fraction(self) -> float:
        """Mean of :attr:`open_fraction` over the steps done so far; 0.0 before the first."""
        return self._open_sum / self.clock.step if self.clock.step else 0.0

    @property
    def parameters_opened(self) -> int:
        """How many parameters were open in at least one step so far."""
        return sum(self._gating.parameters[name].numel() for name in self.names_opened)

    @property
    def names_opened(self) -> frozenset[str]:
        """The canonical names of those parameters."""
        opened = {group for phase in self.timeline.phases for group in (*phase.open, *phase.sparse)}
        return frozenset(name for group in opened for name in self._gating.groups[group])

    @property
    def prefix_rows(self) -> Tally | None:
        """Rows of batches whose closed layers were read from the activation cache and computed; None without one."""
        return self._prefix.tally

    def detach(self, *, audit: bool = True) -> None:
        """Remove every hook and give each parameter the ``requires_grad`` that it had before.

        Args:
            audit: let the audit, if there is one, compare what is closed a last time. False where other weights
                were loaded since the last step.
        """
        if self._steps is None:
            return
        self._steps.release()
        self._steps = None
        note_detached(self._model)
        self._replicas.release()
        self._graph_limits.release()
        self._give_back_groups()
        self._prefix.release()
        self._gating.release()
        self._checkpointing.release()
        if self._mixing:
            self._mixing.release()
        if self._audit and audit:
            self._audit.end(self.clock.step)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed training needs, as JSON values.

        Of a method that needs them, such as mixout, the entry ``tensors`` has tensors by name.
        """
        state = {
            "version": 1,
            "method": self.method.spec,
            "seed": self.memory.seed,
            "step": self.clock.step,
            "notes": dict(self.memory.notes),
            "open_sum": self._open_sum,
            "timeline": [phase.to_dict() for phase in self.timeline.phases],
            "optimizer_parameters": self._optimizer_names(),
        }
        tensors = tensors_of(self._mixing, self._gating)
        return {**state, "tensors": tensors} if tensors else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken.

        Raises:
            RunError: if it is no state, or that of another method or seed, or of an optimizer that holds its
                parameters in another order, in which case its moments would land on the wrong tensors.
        """
        check_state(state, self.method.spec, self.memory.seed, self._optimizer_names())
        load_tensors(state.get("tensors", {}), self._mixing, self._gating)
        self.memory = Memory(seed=self.memory.seed, notes=dict(state["notes"]))
        self.timeline = Timeline([Phase.from_dict(phase) for phase in state["timeline"]])
        self._open_sum = float(state["open_sum"])
        self._go_to(state["step"])

    def resume_at(self, step: int) -> None:
        """Continue after ``step`` optimizer steps where no state was saved: the plan is a function of the step."""
        if self.method.decides_by_measuring or self._mixing:
            needed = "the weights that it began with" if self._mixing else "what it measured"
            raise RunError(f"{self.method.spec!r} needs {needed}, so it cannot resume without its saved state.")
        self.timeline, self._open_sum = Timeline(), 0.0
        for done in range(step):
            self.clock = replace(self.clock, step=done)
            self._set_plan(self._next_plan())
            self._open_sum += self.open_fraction
        self._go_to(step)

    def _go_to(self, step: int) -> None:
        self.clock = replace(self.clock, step=step)
        self._set_plan(self._next_plan())
        self._begin_phase()  # the weights may have been loaded since the phase before began

    def _next_plan(self) -> Plan:
        plan = self.method.checked_plan(self.clock, self.layers, self.memory)
        if not any(self._gating.groups[group] and not gate.closed for group, gate in plan.items()):
            raise AttachError(
                f"The method {self.method.spec!r} opens nothing for step {self.clock.step + 1}: there would be no "
                f"gradient to compute. Does the model have a head, or adapters in the groups that it opens?"
            )
        return plan

    def _opened_at(self, clock: Clock) -> set[str]:
        return self._gating.opened(self.method.plan(clock, self.layers, self.memory))

    def _begin_phase(self) -> None:
        if self._audit:
            closed = set(self._gating.parameters) - set(self._gating.names(lambda gate: not gate.closed))
            self._audit.begin(closed, self.clock.step)

    def _set_plan(self, plan: Plan) -> None:
        opened = self._gating.opened(plan)
        self._replicas.admit(opened, self.clock.step)
        self.timeline.record(self.clock.step, plan)
        self._gating.enforce(plan, opened)
        self._graph_limits.admit(tuple(gate.share > 0.0 for gate in plan.values()))
        self._checkpointing.follow(not self._gating.learns(self.layers.names[0]))
        self._prefix.follow(plan, self.clock.step, self.timeline)
        if self._mixing:
            self._mixing.step = self.clock.step

    def _begin_step(self) -> None:
        self._gating.before_step()
        if getattr(self.optimizer, "found_inf", None) is None:  # else a gradient scaler looks at them itself
            check_finite(self._gating, self.clock.step)
        self._rates.scale(self._gating.lr_factors())
        if self._audit:  # which expects what a parameter's own learning rate lets move
            learning = self._gating.names(lambda gate: gate.share > 0.0)
            self._audit.before_step(learning, self.optimizer, self.clock.step)
        self._holding.begin(self._gating.held())

    def _end_step(self) -> None:
        self._holding.end()
        self._rates.restore()
        if was_skipped(self.optimizer):
            return
        self._open_sum += self.open_fraction
        self.clock = self.clock.ticked()
        self.memory = self._measuring.before(self.clock, self.memory)
        plan = self._next_plan()
        new_phase = _closed_groups(self.plan) != _closed_groups(plan)
        if self._audit:
            self._audit.after_step(self.clock.step)
            if new_phase:
                self._audit.check_closed(self.clock.step)
        closing = self._gating.closing(plan)
        self._set_plan(plan)
        forget(self.optimizer, closing, self.method.state_of_closed)
        if new_phase:
            self._begin_phase()

    def _give_back_groups(self) -> None:
        """Undo what a step that raised has left of the optimizer's parameter groups."""
        self._holding.abandon()
        self._rates.restore()

    def _optimizer_names(self) -> list[str]:
        self._give_back_groups()
        names = {id(p): name for name, p in self._gating.parameters.items()}
        return [names.get(id(p), "?") for group in self.optimizer.param_groups for p in group["params"]]


def _closed_groups(plan: Plan) -> list[bool]:
    return [gate.closed for gate in plan.values()]
