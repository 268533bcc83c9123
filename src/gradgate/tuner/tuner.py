"""Join a model, its optimizer and a method, and act through the optimizer's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any
from weakref import finalize

import torch
from torch import nn

from gradgate.activation_cache import ActivationCache, Horizon, RowCounts
from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.errors import AttachError, UsageError
from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.find import fitting_map
from gradgate.layers.lr_scale import checked_lr_scale
from gradgate.layers.names import unwrap
from gradgate.layers.offloaded import check_can_learn
from gradgate.layers.quantized import quantized_parameters
from gradgate.measure import Batches
from gradgate.methods.base import Method
from gradgate.methods.catalog import method as read_method
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import Timeline
from gradgate.methods.traits import MethodState
from gradgate.tuner.attached import TunerMark, free
from gradgate.tuner.audit import audited
from gradgate.tuner.checks import (
    check_cacheable,
    check_quantized,
    check_reachable,
    check_types,
    new_clock,
    reached_names,
    warn_of_idle_options,
    warn_of_unopened,
    whole_number,
)
from gradgate.tuner.effect import ComingStep, Effects, OptimizerStep
from gradgate.tuner.effects import Stepping, Trained, ordered_effects
from gradgate.tuner.frozen_layers import FrozenBottom
from gradgate.tuner.gating import Gating
from gradgate.tuner.masters import MasterPrecision, Masters
from gradgate.tuner.measuring import Measuring
from gradgate.tuner.optimizer_hooks import StepHooks, was_skipped
from gradgate.tuner.optimizers import Optimizers, held_by
from gradgate.tuner.rounds import Rounds
from gradgate.tuner.state import TunerState, check_resumable, settings_of
from gradgate.tuner.watching import watched_groups, watching


class Tuner:
    """Trains the parameters of a model that a method opens, in any PyTorch loop.

    The plan for a step is in force before its forward pass: a closed group has ``requires_grad=False``, and a
    sparse one has its gradient gated before it is added to an earlier one, and before clipping. On CUDA, the gradients
    of a pass are gated together when it ends, unless hooks or a process group could use them before. After each
    optimizer step that happened the clock ticks and the next plan is set. Parameters that do not require a
    gradient when the tuner attaches are never opened.

    Several optimizers, such as Muon for matrices and AdamW for the rest, make one step of the training together: the
    clock ticks when each of them has stepped on the gradients of one backward pass, in any order. If a gradient scaler
    skips the step of one, none is counted, and the next step has the same plan and masks; an optimizer that steps
    twice before another has restarts that step. The clock does not wait for an optimizer if all of its parameters are
    closed. A ``torch.amp.GradScaler`` raises for an optimizer without a gradient: step it without the scaler then, or
    train in bf16.

    A hook after the optimizer's step that reads weights, such as one that averages them, is to be registered after the
    tuner is made: masked weights are put back, and 16-bit ones rounded, at the end of the step. Write to 16-bit weights
    under ``torch.no_grad()``, not through ``.data``, which their float32 masters do not see.

    Args:
        model: any model whose layers can be mapped; wrapped (DDP, compiled, PEFT) or not.
        optimizer: one, or a list of several. Each parameter that the method will open is in exactly one of them. One
            that steps several others, such as those of Trainer's optimizer factories, stands for these.
        method: a method or its text, such as ``"gradual:every=50"``.
        total_steps: optimizer steps of the whole training; needed by methods that count epochs.
        steps_per_epoch: optimizer steps in one pass over the data; needed by methods that count epochs.
        seed: of every random draw that the method makes.
        audit: compare tensors bit for bit at each phase change; see :class:`gradgate.tuner.audit.TensorAudit`. None is
            False unless the environment variable ``GRADGATE_AUDIT`` is 1.
        layers: a layer map, or the path of the layer stack for :func:`map_layers`; detected by default.
        fisher_data: called with the number of steps done when a method measures the Fisher information; returns
            training batches, each the keyword arguments of the model.
        state: what :meth:`state_dict` returned, to continue from: like :meth:`load_state_dict` right after the
            tuner is made, but without a measurement before it.
        activation_cache: stores the output of the closed layers at the bottom, so that it is computed once per
            example. Needs ``steps_per_epoch``, and ``total_steps`` unless the method decides by what it measures; by
            default nothing is stored.
        frozen_dropout: keep dropout on in the closed groups at the bottom, as in plain training code, which only sets
            ``requires_grad``: FUN's released code does so, and no paper says otherwise. By default these groups run in
            evaluation mode: noise does not help weights that no longer learn.
        lr_scale: selector to a factor on the learning rate of what it names, such as ``{"head": 10.0, "@lora": 2.0}``,
            times the method's own; see :func:`gradgate.select`. No parameter may be named twice.
        master: ``"float32"``: the optimizer steps a float32 copy of each parameter in 16 bits, which exists while the
            parameter is open, and whose rounding is the parameter; ``"none"``: it steps the parameters themselves. By
            default float32, unless the optimizer makes up for rounding by itself, as those in 8 bits do. States of
            the optimizer stay in float32 after :meth:`detach`; ``optimizer.load_state_dict(optimizer.state_dict())``
            casts them to the type of the weights, for steps without a tuner.
        release_gradients: step each parameter within the backward pass, as soon as its gradient is complete, and then
            free the gradient: the same weights, with few gradients in memory. Call ``optimizer.step()`` as usual, after
            each backward pass. Your own code must not clip, scale or read gradients before it.

    Raises:
        UsageError: for a factor that is not a finite number above 0, an unknown ``master``, or a value of another type.
        SelectorError: if a selector of ``lr_scale`` names nothing, or what another one names.
        AttachError: if no optimizer holds a parameter that the method will open, two of them hold one, nothing can be
            opened, the model or the optimizer already has a tuner, an activation cache is given with
            ``frozen_dropout`` or NEFTune's noise, or a float32 master for an optimizer that has none; gradients are to
            be released and that would not be exact; or parameters are not in memory, such as those that a
            ``device_map`` offloads.
        MethodError: if the method does not fit the model.
        LayerMapError: if the layers cannot be found, or ``layers`` is the map of another model.
    """

    _lost: finalize[Any, Any] | None = None

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
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
        frozen_dropout: bool = False,
        lr_scale: Mapping[str, float] | None = None,
        master: MasterPrecision | None = None,
        release_gradients: bool = False,
    ) -> None:
        self.method = read_method(method)
        seed = whole_number("seed", seed, least=0)
        self.clock = new_clock(steps_per_epoch, total_steps)
        check_types(layers=layers, fisher_data=fisher_data, activation_cache=activation_cache, lr_scale=lr_scale)
        self._model = unwrap(model)
        check_can_learn(self._model)
        self._replicas = Replicas(model, optimizer, self._model)
        self._optimizers = Optimizers(optimizer)
        self.layers = self._mapped(fitting_map(model, layers))
        self.method.check(self.layers)
        self.memory, self.timeline, self._open_sum = MethodState(seed=seed), Timeline(), 0.0
        attached = TunerMark(self._model, self._optimizers.with_inner(), self.method.spec, self.detach)
        scale = checked_lr_scale(lr_scale or {})
        self._gating = Gating(self._model, self.layers, self.method.selection(self.layers), seed, scale)
        self._settings = settings_of(self._gating.groups, lr_scale or {}, frozen_dropout)
        check_quantized(self.method, self.layers, self._gating, quantized_parameters(self._gating.parameters))
        check_reachable(self.method, self.layers, self._gating, self._optimizers)
        self._frozen_layers = self._quiet_frozen_layers(activation_cache, frozen_dropout)
        self._masters = Masters(self._gating, self._optimizers, master)
        self._watching = watching(self._gating, self._replicas, self.method)
        trained = Trained(self._model, self.layers, self.method, self._gating, seed, self._frozen_layers)
        stepping = Stepping(self._optimizers, self._replicas, self._masters, self._watching)
        effects = ordered_effects(trained, stepping, audit=audited(audit), release=release_gradients)
        self._effects = Effects([attached, *effects])
        self._measuring = Measuring(self._model, self.method, self.layers, self._gating, self._replicas, fisher_data)
        self._last_share: float | None = None
        self._rounds, self._steps = Rounds(self._optimizers), list[StepHooks]()
        self._attach(state)

    def _mapped(self, layer_map: LayerMap) -> LayerMap:
        """Return the map in the method's unit, with what was frozen before as never to be opened."""
        frozen = (name for name, parameter in named_parameters(self._model).items() if not parameter.requires_grad)
        return layer_map.at(self.method.traits.unit).with_frozen(frozen)

    def _quiet_frozen_layers(self, cache: ActivationCache | None, dropout: bool) -> FrozenBottom | None:
        check_cacheable(self._model, cache, frozen_dropout=dropout)
        if dropout:
            return None
        if cache is None:
            return FrozenBottom(self._model, self.layers)
        horizon = Horizon(self.method, self.layers, self.clock, self.memory.seed, cache.passes)
        if lacking := horizon.lacking:
            cache.note(f"The activation cache is not used: how long layers stay closed needs {' and '.join(lacking)}.")
        return FrozenBottom(self._model, self.layers, cache, horizon)

    def _attach(self, state: Mapping[str, Any] | None) -> None:
        if state is None:
            self.memory = self._measuring.before(self.clock, self.memory)
        first = self._next_plan()
        if state is None:
            warn_of_idle_options(self.method)
            warn_of_unopened(self.method, self.layers, self.clock, self.memory)
        to_open = reached_names(self.method, self.layers, self._gating.groups)
        self._replicas.expect(to_open, self._opened_at, self.clock, ahead=not self.method.traits.decides_by_measuring)
        try:
            for optimizer in self._optimizers:
                begin, end = partial(self._begin_step, optimizer), partial(self._end_step, optimizer)
                self._steps.append(StepHooks(optimizer, begin, end, self._effects.cancel_step))
            self._lost = finalize(self, free, self._effects.on_model)
            self._effects.attach()
            self._set_plan(first)
            if state is not None:
                self.load_state_dict(state)
        except BaseException:
            self.detach(audit=False)
            raise

    def __enter__(self) -> Tuner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach(audit=error is None)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise AttachError(
            "A tuner belongs to one model and its optimizer, so it cannot be copied or pickled. Keep it outside of the "
            "module that is copied, and save its state_dict()."
        )

    @property
    def optimizers(self) -> tuple[torch.optim.Optimizer, ...]:
        """The optimizers that the tuner follows, without wrappers such as accelerate's."""
        return tuple(self._optimizers)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The only optimizer; AttributeError if there are several (see ``optimizers``)."""
        if len(self._optimizers) > 1:
            raise AttributeError(
                f"This tuner has {len(self._optimizers)} optimizers ({self._optimizers.labels}). Use its optimizers."
            )
        return next(iter(self._optimizers))

    @property
    def plan(self) -> Plan:
        """The gates for the step that comes next, by group."""
        return self._gating.plan

    @property
    def open_fraction(self) -> float:
        """Share of all parameters that the coming step may change; a sparse gate counts with its share."""
        return self._gating.share

    @property
    def mean_open_fraction(self) -> float:
        """Mean of :attr:`open_fraction` over the steps done so far; 0.0 before the first."""
        return self._open_sum / self.clock.step if self.clock.step else 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """The values to log for the step just done; empty before the first step and right after a resume.

        ``gradgate/open_share`` is its :attr:`open_fraction`, and ``gradgate/phase`` counts the plans so far, from 1; a
        mask that is new at each step is not a new plan.
        """
        done = self.clock.step
        phase = sum(phase.step < done for phase in self.timeline.phases)
        if self._last_share is None:
            return {}
        return {"gradgate/open_share": self._last_share, "gradgate/phase": float(phase)}

    @property
    def parameters_opened(self) -> int:
        """Number of elements of the parameters that were open in at least one step so far."""
        return sum(self.counts_opened.values())

    @property
    def counts_opened(self) -> dict[str, int]:
        """The canonical names of those parameters, and how many elements of each may open: all, or some rows."""
        return {name: self._gating.count(name) for name in self.names_opened}

    @property
    def names_opened(self) -> frozenset[str]:
        """The canonical names of those parameters."""
        opened = self.timeline.first_steps()
        return frozenset(name for group in opened for name in self._gating.groups[group])

    @property
    def cached_rows(self) -> RowCounts | None:
        """Numbers of batch rows read from the activation cache and computed; None without a cache."""
        return self._frozen_layers.counts if self._frozen_layers else None

    def detach(self, *, audit: bool = True) -> None:
        """Remove every hook and give each parameter the ``requires_grad`` that it had before.

        Args:
            audit: let the audit, if there is one, compare what is closed a last time. Use False if other weights
                were loaded since the last step.
        """
        if not self._steps:
            return
        for hooks in self._steps:
            hooks.release()
        self._steps = []
        if self._lost is not None:
            self._lost.detach()
        self._effects.release()
        if audit:
            self._effects.finish(self.clock.step)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed training needs, as JSON values.

        If the method needs tensors, as mixout does, the entry ``tensors`` has them by name.
        """
        state = TunerState(
            method=self.method.fingerprint,
            seed=self.memory.seed,
            step=self.clock.step,
            notes=self.memory.notes,
            open_sum=self._open_sum,
            timeline=self.timeline,
            optimizer_parameters=self._optimizer_names(),
            tensors=self._effects.tensors(),
            settings=self._settings,
            length={"total_steps": self.clock.total_steps, "steps_per_epoch": self.clock.steps_per_epoch},
        )
        return state.to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state that :meth:`state_dict` returned.

        Warns if the training has another length, on which the method depends.

        Raises:
            RunError: if it is not a state, lacks its tensors, or is that of another method, seed, layer map,
                ``lr_scale`` or ``frozen_dropout``, or of an optimizer with its parameters in another order, so that its
                moments would land on the wrong tensors.
        """
        saved = TunerState.from_dict(state)
        saved.check_continues(self.method.fingerprint, self.memory.seed, self._optimizer_names(), self._settings)
        self._effects.load_tensors(saved.tensors)
        saved.check_tensors()
        memory = MethodState(seed=self.memory.seed, notes=saved.notes)
        if saved.step != self.clock.total_steps:  # after the last step nothing was chosen for another one
            self._gating.check_chosen(self.method.plan(replace(self.clock, step=saved.step), self.layers, memory))
        self._replicas.forget_choice()
        self.memory = memory
        self.timeline, self._open_sum = saved.timeline, saved.open_sum
        self._go_to(saved.step)
        saved.warn_of_length(self.method, self.clock, self.layers, self.memory)

    def resume_at(self, step: int) -> None:
        """Resume after ``step`` optimizer steps without a saved state: the plan is a function of the step.

        Raises:
            UsageError: for anything but a step of the training.
            RunError: if the method also needs what it measured, or the weights that it began with.
        """
        step, total = whole_number("step", step, least=0), self.clock.total_steps
        if total is not None and step > total:
            raise UsageError(f"step={step}: expected at most total_steps={total}, the end of the training.")
        check_resumable(self.method, "There is no saved state", "Pass that state to Tuner as state=.")
        self.timeline, self._open_sum = Timeline(), 0.0
        for done in range(step):
            self.clock = replace(self.clock, step=done)
            plan = self._next_plan()
            self.timeline.record(done, plan)
            self._open_sum += self._gating.open_share(plan)
        self._go_to(step)

    def _go_to(self, step: int) -> None:
        self.clock = replace(self.clock, step=step)
        self._set_plan(self._next_plan())

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

    def _set_plan(self, plan: Plan, previous: Plan | None = None) -> None:
        self.timeline.record(self.clock.step, plan)
        opened = self._gating.opened(plan)
        moved = [name for group, gate in plan.items() if not gate.closed for name in self._gating.groups[group]]
        self._rounds.expect(self._optimizers.holding(map(self._gating.parameters.__getitem__, moved)))
        ends = self._watching is None or self.clock.step == self.clock.total_steps
        watched = () if ends else watched_groups(self.method, self.clock, self.layers, self.memory)
        self._effects.on_plan(ComingStep(plan, opened, self.clock.step, self.timeline, previous, watched))

    def _begin_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._rounds.begin(optimizer)
        if not self._rounds.is_late:
            self._effects.before_step(self._step_of(optimizer))

    def _end_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._rounds.is_late:
            return
        if was_skipped(optimizer):
            self._effects.cancel_step()
            return
        self._effects.after_step(self._step_of(optimizer))
        if not self._rounds.end(optimizer):
            return
        self._open_sum += (share := self.open_fraction)
        self._last_share = share
        self.clock = self.clock.ticked()
        if self._watching and (sizes := self._watching.sizes()):
            self.memory = self.method.noted(sizes, self.clock, self.memory)
        self.memory = self._measuring.before(self.clock, self.memory)
        self._set_plan(self._next_plan(), previous=self.plan)
        self._rounds.remember(optimizer)

    def _step_of(self, optimizer: torch.optim.Optimizer) -> OptimizerStep:
        several = len(self._optimizers) > 1
        own = {id(parameter) for parameter in held_by(optimizer)} if several else None
        return OptimizerStep(self.clock.step + 1, optimizer, own)

    def _optimizer_names(self) -> list[Any]:
        self._effects.cancel_step()
        return self._optimizers.names({id(parameter): name for name, parameter in self._gating.parameters.items()})
