"""Trace forward and backward passes on a model with few layers, and compose the traces for all layers."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from gradgate.errors import RunError
from gradgate.hub import first_line
from gradgate.layers import LayerMap
from gradgate.layers.names import canonical_name
from gradgate.memory.data_free import data_free
from gradgate.memory.live_bytes import LiveBytes
from gradgate.memory.open_pattern import OpenPattern, form, selection_within
from gradgate.memory.shrunken import LayerStack, shrunken, without
from gradgate.memory.workload import Workload
from gradgate.methods.base import Method
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import Timeline
from gradgate.tuner.effect import ComingStep, Effects
from gradgate.tuner.effects import Trained, effects_of_passes
from gradgate.tuner.frozen_layers import FrozenBottom
from gradgate.tuner.gating import Gating

FORWARD, BACKWARD = "forward", "backward"


class Release(NamedTuple):
    """The moment in a segment at which a gradient is complete, stepped and freed.

    ``peak`` is the most bytes since the release before, and ``now`` those at the moment, with the gradient, both
    relative to the segment's start; ``gradients`` is the part of ``now`` in gradients.
    """

    name: str
    peak: int
    now: int
    gradients: int


class Segment(NamedTuple):
    """A part of a step, with the bytes that it leaves (``delta``) and its ``peak``, both relative to its start.

    ``gradients`` and ``gradients_at_peak`` are the parts of both in gradients of parameters. ``group`` is the layer
    that ran; empty outside of the stacks. ``releases`` are those of gradients, if they are released; ``peak`` is then
    that after the last one.
    """

    at: str
    group: str
    delta: int
    peak: int
    gradients: int
    gradients_at_peak: int
    releases: tuple[Release, ...] = ()


@dataclass(frozen=True)
class StepTrace:
    """The forward and backward pass under one plan.

    Attributes:
        segments: in order.
        unused: canonical names of the open parameters that get no gradient.
    """

    segments: tuple[Segment, ...]
    unused: frozenset[str]


def own_loss(model: Any, output: Any) -> Tensor:
    """Return the loss that a model computes from labels."""
    loss: Tensor = output.loss if hasattr(output, "loss") else output[0]
    return loss


@dataclass(frozen=True)
class Loss:
    """The quantity that a step differentiates.

    Attributes:
        of: function of the model and its output that returns a scalar.
        training: whether the model is in training mode.
        retained: whether the graph outlives the backward pass.
        differentiated: whether there is a graph and a backward pass.
    """

    of: Callable[[Any, Any], Tensor] = own_loss
    training: bool = True
    retained: bool = False
    differentiated: bool = True


class Passes:
    """Traces one model's steps under any plan.

    The memory that a layer adds depends on which of its weights are open, on whether anything below it is open, and on
    its place in the stack: bottom, top, or between. One layer of each such kind is executed and represents all.

    Args:
        model: whose parameters that never learn do not require a gradient.
        layers: its map, at the method's unit.
        method: decides what is open.
        workload: what one step computes.
        stacks: the layers that can be left out.
        loss: the quantity that is differentiated; by default the model's loss in training mode.
        repeated: trace the second of the passes that one optimizer step accumulates, which begins with gradients.
        released: name -> whether its gradient is freed as soon as it is complete; by default none is.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: LayerMap,
        method: Method,
        workload: Workload,
        stacks: list[LayerStack],
        loss: Loss | None = None,
        repeated: bool = False,
        released: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._released = released
        self._loss, self._repeated = loss or Loss(), repeated
        self._model, self._layers, self._method, self._workload = model, layers, method, workload
        self._stacks = stacks
        self._forms = {group: form(stack.module(group)) for stack in stacks for group in stack.layers}
        self._of_layer: dict[Any, dict[str, Segment]] = {}
        self._unused: dict[Any, frozenset[str]] = {}
        self._around: dict[Any, list[Segment]] = {}
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)

    def trace(self, pattern: OpenPattern) -> StepTrace:
        """Return the trace of a step, executing it only if a kind of layer is new."""
        kinds = pattern.kinds(self._stacks, self._forms)
        around = pattern.around(self._stacks)
        if around not in self._around or any(kind not in self._of_layer for kind in kinds.values()):
            self._execute(pattern, kinds, around)
        segments: list[Segment] = []
        for segment in self._around[around]:
            segments += self._expanded(segment, kinds) if segment.group else [segment]
        unused = set(self._unused[around])
        for stack in self._stacks:
            for group, key in stack.layers.items():
                unused |= {f"{stack.path}.{key}.{name}" for name in self._unused[kinds[group]]}
        return StepTrace(tuple(segments), frozenset(unused))

    def _expanded(self, segment: Segment, kinds: dict[str, Any]) -> Iterator[Segment]:
        """Yield the segments of all layers of a stack, in the order in which they run."""
        stack = next(stack for stack in self._stacks if segment.group in stack.layers)
        groups = list(stack.layers)
        for group in groups if segment.at == FORWARD else reversed(groups):
            if of_kind := self._of_layer[kinds[group]].get(segment.at):
                prefix = f"{stack.path}.{stack.layers[group]}."
                of_kind = of_kind._replace(group=group)
                yield of_kind._replace(releases=tuple(_renamed(each, prefix) for each in of_kind.releases))

    def _execute(self, pattern: OpenPattern, kinds: dict[str, Any], around: Any) -> None:
        """Run a step of a model with one layer of each kind."""
        first = {kind: group for group, kind in reversed(kinds.items())}
        dropped = kinds.keys() - set(first.values())
        with self._mode, shrunken(self._model, self._stacks, dropped):
            layers = without(self._layers, dropped)
            settings: Any = getattr(self._model, "config", None)  # shrunken restores it with the weights
            if getattr(settings, "problem_type", "") is None and getattr(settings, "num_labels", 1) > 1:
                settings.problem_type = "single_label_classification"  # else some models read the labels' values
            plan = Plan({group.name: pattern.plan[group.name] for group in layers})
            with self._in_force(layers, plan):
                segments, unused = self._measured(kinds.keys() - dropped)
        # The first segment of each stack and direction marks where trace() inserts all of its layers.
        seen: set[tuple[str, str]] = set()
        outer: list[Segment] = []
        for segment in segments:
            path = next((stack.path for stack in self._stacks if segment.group in stack.layers), "")
            if segment.group:
                stack = next(stack for stack in self._stacks if stack.path == path)
                prefix = f"{path}.{stack.layers[segment.group]}."
                # The name in the layer, after a dot; other names, such as an embedding's below the first layer, stay.
                own = (each._replace(name=_within(each.name, prefix)) for each in segment.releases)
                segment = segment._replace(releases=tuple(own))
                self._of_layer.setdefault(kinds[segment.group], {})[segment.at] = segment
            if not path or (path, segment.at) not in seen:
                outer.append(segment)
            seen.add((path, segment.at))
        self._around[around] = outer
        for group, kind in kinds.items():
            if group not in dropped:
                self._of_layer.setdefault(kind, {})  # a layer may have no segment, such as one that never runs
        self._note_unused(unused, kinds, around)

    def _note_unused(self, unused: set[str], kinds: dict[str, Any], around: Any) -> None:
        left = set(unused)
        for stack in self._stacks:
            for group, key in stack.layers.items():
                prefix = f"{stack.path}.{key}."
                of_layer = {name for name in unused if name.startswith(prefix)}
                left -= of_layer
                if of_layer or kinds[group] not in self._unused:
                    self._unused[kinds[group]] = frozenset(name.removeprefix(prefix) for name in of_layer)
        self._unused[around] = frozenset(left)

    @contextmanager
    def _in_force(self, layers: LayerMap, plan: Plan) -> Iterator[None]:
        """Apply the effects that a tuner has on forward and backward passes within the body."""
        model = self._model
        gating = Gating(model, layers, selection_within(self._method.selection(self._layers), layers), 0, {})
        gating.masks.chosen = {  # one bit per weight; which ones are set makes no difference to memory
            name: torch.zeros(-(-gating.parameters[name].numel() // 8), dtype=torch.uint8)
            for group, gate in plan.items()
            for name in (gating.groups[group] if gate.chosen else ())
        }
        trained = Trained(model, layers, self._method, gating, 0, FrozenBottom(model, layers))
        effects = Effects([gating, *effects_of_passes(trained)])
        with self._workload.in_training(model, self._loss.training), data_free(model), _no_log():
            try:
                effects.attach()
                effects.on_plan(ComingStep(plan, gating.opened(plan), 0, Timeline()))
                yield
            finally:
                effects.release()

    def _measured(self, groups: Any) -> tuple[list[Segment], set[str]]:
        """Return the segments of one step, and the open parameters without a gradient."""
        model: Any = self._model
        inputs = self._workload.inputs(model)
        live = LiveBytes()
        live.count([*model.parameters(), *model.buffers(), *(v for v in inputs.values() if isinstance(v, Tensor))])
        recorder = _Recorder(live)
        opened = {name: p for name, p in model.named_parameters() if p.requires_grad}
        with ExitStack() as hooks:
            for stack in self._stacks:
                executed = [group for group in stack.layers if group in groups]
                for group in executed:
                    for hook in recorder.watch(stack.module(group), group, last=group == executed[-1]):
                        hooks.callback(hook.remove)
            seen: set[str] = set()
            for raw, parameter in opened.items():
                name = canonical_name(raw)
                released = name if self._released(name) else ""
                note = partial(recorder.note_gradient, seen, raw, released)
                hook = parameter.register_post_accumulate_grad_hook(note)
                hooks.callback(hook.remove)
            collecting = gc.isenabled()
            gc.disable()  # a collection would free the tensors of reference cycles at an arbitrary point
            try:
                with live, _named_errors(model):
                    for _ in range(2 if self._repeated else 1):
                        recorder.begin(FORWARD)
                        recorder.segments.clear()  # those of the first pass, if repeated
                        with self._workload.autocast(), torch.set_grad_enabled(self._loss.differentiated):
                            loss = self._loss.of(model, model(**inputs))
                        if self._loss.differentiated:
                            recorder.begin(BACKWARD)
                            torch.autograd.backward(loss, retain_graph=self._loss.retained)
                        recorder.end()
                        del loss  # else its graph would be alive in the second pass
            finally:
                if collecting:
                    gc.enable()
        unused = {name for name, parameter in opened.items() if name not in seen}
        for parameter in opened.values():
            parameter.grad = None
        return recorder.segments, unused


def _within(name: str, prefix: str) -> str:
    return f".{name.removeprefix(prefix)}" if name.startswith(prefix) else name


def _renamed(release: Release, prefix: str) -> Release:
    own = release.name.startswith(".")
    return release._replace(name=prefix + release.name[1:]) if own else release


@contextmanager
def _named_errors(model: nn.Module) -> Iterator[None]:
    """Turn errors of a model's own code into a RunError that names the model."""
    try:
        yield
    except Exception as error:  # any model's code runs here
        raise RunError(
            f"Cannot trace a training step of {type(model).__name__} without data ({first_line(error)}). Expected a "
            f"model whose control flow does not depend on the values of its tensors; to measure this one, train it "
            f"for two steps and look at torch.cuda.max_memory_allocated()."
        ) from error


@contextmanager
def _no_log() -> Iterator[None]:
    """Silence torch's log of errors of fake tensors, which it raises as well."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


class _Recorder:
    """Cuts a step into segments at the layers' hooks."""

    def __init__(self, live: LiveBytes) -> None:
        self.segments: list[Segment] = []
        self._live = live
        self._at, self._group = "", ""
        self._start = (0, 0)
        self._releases: list[Release] = []

    def begin(self, at: str, group: str = "") -> None:
        """End the current segment and begin another."""
        self.end()
        self._at, self._group = at, group
        self._live.restart_peak()
        self._start = self._live.now, self._live.gradients
        self._releases = []

    def end(self) -> None:
        """End the current segment, if there is one."""
        live, (now, gradients) = self._live, self._start
        if self._at:
            self.segments.append(
                Segment(
                    self._at,
                    self._group,
                    live.now - now,
                    live.peak - now,
                    live.gradients - gradients,
                    live.gradients_at_peak - gradients,
                    tuple(self._releases),
                )
            )

    def watch(self, layer: nn.Module, group: str, last: bool) -> list[Any]:
        """Register hooks that begin a segment when a layer's forward or backward pass begins, and return them."""

        def enter(module: nn.Module, args: object) -> None:
            if self._at == FORWARD:  # and not if a checkpoint runs the layer again in the backward pass
                self.begin(FORWARD, group)

        def leave(module: nn.Module, args: object, output: Any) -> None:
            if self._at != FORWARD:
                return
            tensors = (value for value in tree_leaves(output) if isinstance(value, Tensor))
            hidden = next(tensors, None)
            if hidden is not None and hidden.requires_grad:
                hook: Any = hidden.register_hook  # untyped in torch
                # The gradient of a layer's output is ready just before its backward pass.
                hook(lambda _: self.begin(BACKWARD, group))
            if last:
                self.begin(FORWARD)

        return [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]

    def note_gradient(self, seen: set[str], raw: str, released: str, parameter: Tensor) -> None:
        """Count a parameter's gradient as one, and free it if ``released`` is a name."""
        seen.add(raw)
        if parameter.grad is not None:
            self._live.as_gradient(parameter.grad)
        if released:
            live, (now, gradients) = self._live, self._start
            self._releases.append(Release(released, live.peak - now, live.now - now, live.gradients - gradients))
            parameter.grad = None
            live.restart_peak()
