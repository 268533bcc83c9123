"""Check what a training needs: reachable parameters, enough steps, matching copies, finite gradients."""

from __future__ import annotations

import operator
import warnings
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn

from gradgate.activation_cache import ActivationCache
from gradgate.activation_cache.frozen_prefix import is_noisy
from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.distributed.shards import all_finite
from gradgate.errors import AttachError, GradgateWarning, NonFiniteError, UsageError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.combined import MethodWrapper
from gradgate.methods.options import idle_options
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import changes
from gradgate.methods.traits import MethodState
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizers import Optimizers, held_by
from gradgate.tuner.step_plan import representative


class EmptyGroups(Effect):
    """Warns if a method that closes some groups opens layers in which everything was frozen before."""

    def __init__(self, method: Method, layers: LayerMap) -> None:
        whole, reached = layers.at("layer"), {layers[name].layer for name in method.reaches(layers) if name in layers}
        self._spec, self._towers = method.spec, whole.towers
        while isinstance(method, MethodWrapper):
            method = method.wrapped
        tower = getattr(method, "tower", "")  # what such a method leaves open all the time is not a schedule of it
        layers_of_it = whole.towers.get(tower, ()) if tower else whole.layers
        self._empty = [g.name for g in layers_of_it if g.name in reached and not whole.can_learn(g.name)]

    def on_plan(self, coming: ComingStep) -> None:
        """Report them once, when the tuner attaches, unless the method opens everything, as usual for adapters."""
        empty, self._empty = self._empty, []
        if not empty or not any(gate.closed for gate in coming.plan.values()):
            return
        learn = [tower for tower, groups in self._towers.items() if not {group.name for group in groups} <= {*empty}]
        hint = f", or name the tower that can learn (tower={learn[0]})" if len(learn) == 1 else ""
        warnings.warn(
            f"{self._spec!r} opens {_runs(empty)}, in which nothing can learn: all parameters there were frozen before "
            f"the tuner attached, and what is frozen then is never opened. Expected layers that can learn; let the "
            f"tuner do the freezing{hint}.",
            GradgateWarning,
            stacklevel=2,
        )


class SharedWeights(Effect):
    """Warns if a method opens some of the layers that run the same weights, and closes others."""

    def __init__(self, method: Method, layers: LayerMap) -> None:
        self._spec, self._layers = method.spec, layers
        self._sharing: dict[str, list[str]] = {}
        for name in (name for name in layers.shared if name not in layers.frozen):
            others = self._sharing.setdefault(layers.group_of(name).layer, [])
            others += [layer for layer in layers.shared[name] if layer not in others]

    def on_plan(self, coming: ComingStep) -> None:
        """Report it once, at the first plan that separates them."""
        if not self._sharing:
            return
        opened = {self._layers[name].layer for name, gate in coming.plan.items() if not gate.closed}
        for own, others in self._sharing.items():
            if {own, *others} & opened and not opened >= {own, *others}:
                self._sharing = {}
                warnings.warn(
                    f"{self._spec!r} opens and closes {own} and {_runs(others)} separately, but they run the same "
                    f"weights, which belong to {own}: these learn only in steps in which {own} is open. Use 'full', "
                    f"'head' or 'graddrop', which treat all layers alike.",
                    GradgateWarning,
                    stacklevel=2,
                )
                return


class DistributedChecks(Effect):
    """Checks that DDP can follow each plan, also a DDP that is found in the first forward pass."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def attach(self) -> None:
        """Look for a DDP that is not known yet."""
        self._replicas.watch()

    def on_plan(self, coming: ComingStep) -> None:
        """Refuse a plan that DDP cannot follow."""
        self._replicas.admit(coming.opened, coming.done)

    def release(self) -> None:
        """Stop looking."""
        self._replicas.release()


class MomentumOfAdam(Effect):
    """Checks that each optimizer has the momentum that a plan's gates ask for."""

    def __init__(self, optimizers: Optimizers) -> None:
        self._optimizers = optimizers

    def on_plan(self, coming: ComingStep) -> None:
        """Refuse a plan that needs a momentum that an optimizer does not have."""
        check_momentum(coming.plan, self._optimizers)


class FiniteGradients(Effect):
    """Refuses a step with gradients that are not finite, before it changes a weight."""

    def __init__(self, optimizers: Optimizers, gating: Gating) -> None:
        self._optimizers, self._gating = optimizers, gating

    def before_step(self, step: OptimizerStep) -> None:
        """Check one of the optimizer's gradients, which stands for all of them.

        Raises:
            NonFiniteError: naming the step.
        """
        if getattr(step.optimizer, "found_inf", None) is not None:  # a gradient scaler looks at them itself
            return
        opened = self._gating.gradients("open", step)
        gated = [] if opened else self._gating.gradients("sparse", step)
        gradient = representative(opened, gated, Tensor.numel)
        if gradient is not None and not all_finite(gradient):
            whose = "" if step.own is None else f" of {self._optimizers.label(step.optimizer)}"
            raise NonFiniteError(
                f"The gradients{whose} of step {step.number} are not finite; the weights{whose} are still those of "
                f"step {step.number - 1}. "
                f"Lower the learning rate, clip gradients, or use bf16 or fp32 instead of fp16."
            )


def _runs(names: Sequence[str]) -> str:
    """Return names in one text, at most the first and the last three of them."""
    return ", ".join(names) if len(names) < 7 else f"{', '.join(names[:3])} to {', '.join(names[-3:])}"


def check_reachable(method: Method, layers: LayerMap, gating: Gating, optimizers: Optimizers) -> None:
    """Check that the method opens something, and that exactly one optimizer has each parameter that it opens.

    Args:
        method: says which groups it opens.
        layers: of the model.
        gating: has the model's parameters, and says which may open.
        optimizers: all that will be stepped.

    Raises:
        AttachError: if nothing is opened, or an opened parameter is in no optimizer or in two.
    """
    optimizers.refuse_shared({id(parameter): name for name, parameter in gating.parameters.items()})
    stepped = {id(parameter) for optimizer in optimizers for parameter in held_by(optimizer)}
    wanted = reached_names(method, layers, gating.groups)
    if not wanted:
        reached = method.reaches(layers)
        raise AttachError(
            f"The method {method.spec!r} would never open anything: its groups "
            f"({', '.join(sorted(reached)) or 'none'}) have no parameter that requires grad and that it trains. "
            f"Groups of this model: {', '.join(gating.groups)}."
        )
    missing = [name for name in wanted if id(gating.parameters[name]) not in stepped]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        if len(optimizers) == 1:
            lacking = "the optimizer does not hold it"
            remedy = "Build the optimizer from all of model.parameters() before closing any."
        else:
            lacking = f"none of the optimizers ({optimizers.labels}) holds it"
            remedy = (
                "Add it to one of them before closing any: Muon takes the matrices inside the layers, AdamW whatever "
                "else there is in model.parameters()."
            )
        raise AttachError(
            f"{missing[0]}{more} will be opened by {method.spec!r}, but {lacking}, so it would never learn. {remedy} "
            f"Weights that must not learn, such as a teacher's, need requires_grad=False before the tuner attaches."
        )


def warn_of_idle_options(method: Method) -> None:
    """Warn of options that another option makes idle: a training without them is the same."""
    for part in getattr(method, "methods", (method,)):
        for idle in idle_options(part):
            warnings.warn(f"{part.spec!r}: {idle}. Leave it out, or change the other.", GradgateWarning, stacklevel=2)


def warn_of_unopened(method: Method, layers: LayerMap, clock: Clock, memory: MethodState) -> None:
    """Warn if a training is too short for its schedule, so that some of what it opens would never learn.

    Args:
        method: says whether it has a schedule, and what it opens when.
        layers: the model's map, at the method's unit.
        clock: before the first step; nothing is said if its total is unknown.
        memory: of the method, before the first step.
    """
    traits = method.traits
    if clock.total_steps is None or not traits.by_schedule or traits.decides_by_measuring:
        return
    closed = _never_opened(method, layers, clock, memory)
    if not closed:
        return
    every = _fitting_interval(method, layers, clock, memory)
    faster = f"every={every} or less" if every else "a faster schedule"
    warnings.warn(
        f"{method.spec!r} leaves {_runs(closed)} closed to the end of this training: it would open them after more "
        f"than its {clock.total_steps} steps. Use {faster}, or train for more steps.",
        GradgateWarning,
        stacklevel=2,
    )


def _never_opened(method: Method, layers: LayerMap, clock: Clock, memory: MethodState) -> list[str]:
    """Return the groups that can learn and that the method reaches, but opens in no step of the training."""
    reached = method.reaches(layers)
    closed = [name for name in layers.names if name in reached and layers.can_learn(name)]
    # Most schedules close nothing, so that the plan of the last step decides and the others need not be made.
    last = method.checked_plan(replace(clock, step=clock.known_total - 1), layers, memory)
    for plan in chain([last], (plan for _, plan in changes(method, layers, clock, memory))):
        closed = [name for name in closed if plan[name].closed]
        if not closed:
            break
    return closed


def _fitting_interval(method: Method, layers: LayerMap, clock: Clock, memory: MethodState) -> int:
    """Return the largest ``every`` with which a method opens all that it reaches; 0 if there is none."""
    while isinstance(method, MethodWrapper):
        method = method.wrapped
    every = getattr(method, "every", 1)

    def is_too_long(interval: int) -> bool:
        return bool(_never_opened(replace(method, every=interval), layers, clock, memory))  # type: ignore[call-arg]

    return bisect_left(range(1, every), True, key=is_too_long)


def check_quantized(method: Method, layers: LayerMap, gating: Gating, quantized: Container[str]) -> None:
    """Check that the method opens no matrix that is stored in 4 or 8 bits.

    Under an adapter, a group that opens means its adapter: the matrices below are frozen for good.

    Args:
        method: says which groups it opens, and which weights in them.
        layers: of the model.
        gating: says which parameters may open.
        quantized: names of the parameters that are stored in 4 or 8 bits.

    Raises:
        AttachError: if it would, with what fits instead.
    """
    selection, reached = method.selection(layers), method.reaches(layers)
    chosen = None if selection is None else {*selection.names}
    for group in layers:
        named = (name for name in group.parameter_names if name in quantized and (chosen is None or name in chosen))
        matrix = next(named, None)
        has_adapter = any(layers.weights[name].part == "adapter" for name in gating.groups[group.name])
        if matrix is not None and group.name in reached and not has_adapter:
            raise AttachError(
                f"The method {method.spec!r} would open {group.name}, but {matrix} is quantized: it has no gradient "
                f"and cannot learn. Expected an adapter on the quantized model, whose layers the method then opens: "
                f"get_peft_model(model, LoraConfig(...)) before the tuner attaches, or -m 'lora:r=16 + {method.spec}' "
                f"where arms are given. Methods that open no quantized matrix, such as head and bitfit, need none."
            )


def reached_names(method: Method, layers: LayerMap, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the canonical names of all parameters that the method opens at some step."""
    reached = method.reaches(layers)
    return [name for group in groups if group in reached for name in groups[group]]


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return an argument that is a whole number, of Python or of NumPy.

    Raises:
        UsageError: for anything else, or a smaller one.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise UsageError(f"{name}={value!r}: expected a whole number, {least} or more.")
    return number


def new_clock(steps_per_epoch: int | None, total_steps: int | None) -> Clock:
    """Return a clock before the first step; raise UsageError as :func:`whole_number`."""
    given = {"steps_per_epoch": steps_per_epoch, "total_steps": total_steps}
    return Clock(0, *(None if n is None else whole_number(name, n, least=1) for name, n in given.items()))


def check_types(*, layers: object, fisher_data: object, activation_cache: object, lr_scale: object) -> None:
    """Check the types of a tuner's arguments that would be read later.

    Raises:
        UsageError: naming what is expected.
    """
    expected = {
        "layers": (layers, isinstance(layers, LayerMap | str), "a layer map, or the path of the layer stack"),
        "fisher_data": (fisher_data, callable(fisher_data), "a function of the step that returns batches"),
        "activation_cache": (
            activation_cache,
            isinstance(activation_cache, ActivationCache),
            "gradgate.ActivationCache(folder=...)",
        ),
        "lr_scale": (lr_scale, isinstance(lr_scale, Mapping), "a mapping such as {'head': 10.0}"),
    }
    for name, (value, fits, wanted) in expected.items():
        if value is not None and not fits:
            raise UsageError(f"{name}={value!r:.80} is a {type(value).__name__}; expected {wanted}.")


def check_cacheable(model: nn.Module, cache: ActivationCache | None, *, frozen_dropout: bool) -> None:
    """Check that the output of closed layers can be kept, if a cache is to keep it.

    Raises:
        AttachError: if noise makes it differ in each forward pass.
    """
    if cache is None:
        return
    noise = "NEFTune's noise" if any(map(is_noisy, model.modules())) else "frozen_dropout" if frozen_dropout else ""
    if noise:
        option = "frozen_dropout" if noise == "frozen_dropout" else "neftune_noise_alpha"
        raise AttachError(
            f"With {noise} the output of the closed layers differs in each forward pass, so an activation cache cannot "
            f"keep it. Leave out activation_cache or {option}."
        )


def check_momentum(plan: Plan, optimizers: Optimizers) -> None:
    """Check that each optimizer has the momentum that the gates of a plan ask for.

    Raises:
        AttachError: naming an optimizer without it.
    """
    if not any(gate.momentum for gate in plan.values()):
        return
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
            raise AttachError(
                f"The method updates the elements with the largest momentum of Adam, its first moment, but "
                f"{optimizers.label(optimizer)} keeps another state, or none. Use torch.optim.AdamW or Adam "
                f"(optim='adamw_torch')."
            )
