"""Forward and backward passes, executed on a model with few layers and composed for all of them."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from gradgate.errors import RunError
from gradgate.hub import first_line
from gradgate.layers import LayerMap
from gradgate.memory.live_bytes import LiveBytes
from gradgate.memory.open_pattern import OpenPattern, form, selection_within
from gradgate.memory.shrunken import LayerStack, shrunken, without
from gradgate.memory.workload import Workload, without_padding
from gradgate.methods.base import Method
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import Timeline
from gradgate.tuner.effect import ComingStep, Effects
from gradgate.tuner.effects import Trained, effects_of_passes
from gradgate.tuner.frozen_layers import FrozenLayers
from gradgate.tuner.gating import Gating

FORWARD, BACKWARD = "forward", "backward"


class Segment(NamedTuple):
    """A stretch of a step: what it leaves behind, and the most that it has, both beyond what was alive before it.

    Of both, the part in gradients of parameters. ``group`` is the layer that ran; empty outside of the stacks.
    """

    at: str
    group: str
    delta: int
    peak: int
    gradients: int
    gradients_at_peak: int


@dataclass(frozen=True)
class StepTrace:
    """The forward and backward pass of one plan.

    Attributes:
        segments: in order.
        unused: canonical names of the parameters that are open and get no gradient.
    """

    segments: tuple[Segment, ...]
    unused: frozenset[str]


def own_loss(model: Any, output: Any) -> Tensor:
    """The loss that a model returns with labels."""
    loss: Tensor = output.loss if hasattr(output, "loss") else output[0]
    return loss


@dataclass(frozen=True)
class Loss:
    """What a step derives.

    Attributes:
        of: called with the model and its output, returns one number.
        training: the mode of the model.
        retained: whether the graph outlives the backward pass.
    """

    of: Callable[[Any, Any], Tensor] = own_loss
    training: bool = True
    retained: bool = False


class Passes:
    """Traces of one model's steps under any plan.

    What a layer adds to the memory depends on what of it is open, on whether anything below it is, and on where in its
    stack it is: at the bottom, at the top, or between. One layer of each such kind is executed and stands for all.

    Args:
        model: in which parameters that never learn do not require a gradient.
        layers: its map, at the method's unit.
        method: decides what is open.
        workload: what one step computes.
        stacks: the layers that can be left out.
        loss: what is derived and how; by default a training step.
        repeated: trace the second of the passes that one optimizer step accumulates, which begins with gradients.
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
    ) -> None:
        self._loss, self._repeated = loss or Loss(), repeated
        self._model, self._layers, self._method, self._workload = model, layers, method, workload
        self._stacks = stacks
        self._forms = {group: form(stack.module(group)) for stack in stacks for group in stack.layers}
        self._of_layer: dict[Any, dict[str, Segment]] = {}
        self._unused: dict[Any, frozenset[str]] = {}
        self._around: dict[Any, list[Segment]] = {}
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)

    def trace(self, pattern: OpenPattern) -> StepTrace:
        """The trace of a step."""
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
        """The segments of all layers of a stack, in the order in which they run."""
        stack = next(stack for stack in self._stacks if segment.group in stack.layers)
        groups = list(stack.layers)
        for group in groups if segment.at == FORWARD else reversed(groups):
            if found := self._of_layer[kinds[group]].get(segment.at):
                yield found._replace(group=group)

    def _execute(self, pattern: OpenPattern, kinds: dict[str, Any], around: Any) -> None:
        """Run a step of a model with one layer of each kind."""
        first = {kind: group for group, kind in reversed(kinds.items())}
        dropped = kinds.keys() - set(first.values())
        with self._mode, shrunken(self._model, self._stacks, dropped):
            layers = without(self._layers, dropped)
            settings: Any = getattr(self._model, "config", None)  # restored with the weights
            if getattr(settings, "problem_type", "") is None and getattr(settings, "num_labels", 1) > 1:
                settings.problem_type = "single_label_classification"  # else some models look for the labels' values
            plan = Plan({group.name: pattern.plan[group.name] for group in layers})
            with self._in_force(layers, plan):
                segments, unused = self._measured(kinds.keys() - dropped)
        begun: set[tuple[str, str]] = set()
        kept: list[Segment] = []
        for segment in segments:
            path = next((stack.path for stack in self._stacks if segment.group in stack.layers), "")
            if segment.group:
                self._of_layer.setdefault(kinds[segment.group], {})[segment.at] = segment
            if not path or (path, segment.at) not in begun:
                kept.append(segment)
            begun.add((path, segment.at))
        self._around[around] = kept
        for group, kind in kinds.items():
            if group not in dropped:
                self._of_layer.setdefault(kind, {})
        self._note_unused(unused, kinds, around)

    def _note_unused(self, unused: set[str], kinds: dict[str, Any], around: Any) -> None:
        left = set(unused)
        for stack in self._stacks:
            for group, key in stack.layers.items():
                prefix = f"{stack.path}.{key}."
                own = {name for name in unused if name.startswith(prefix)}
                left -= own
                if own or kinds[group] not in self._unused:
                    self._unused[kinds[group]] = frozenset(name.removeprefix(prefix) for name in own)
        self._unused[around] = frozenset(left)

    @contextmanager
    def _in_force(self, layers: LayerMap, plan: Plan) -> Iterator[None]:
        """Put in force what a tuner does to forward and backward passes."""
        model = self._model
        gating = Gating(model, layers, selection_within(self._method.selection(self._layers), layers), 0, {})
        gating.chosen = {
            name: torch.zeros(-(-gating.parameters[name].numel() // 8), dtype=torch.uint8)
            for group, gate in plan.items()
            for name in (gating.groups[group] if gate.chosen else ())
        }
        trained = Trained(model, layers, self._method, gating, 0, FrozenLayers(model, layers))
        effects = Effects([gating, *effects_of_passes(trained)])
        with self._workload.in_training(model, self._loss.training), without_padding(), _no_log():
            try:
                effects.attach()
                effects.on_plan(ComingStep(plan, gating.opened(plan), 0, Timeline()))
                yield
            finally:
                effects.release()

    def _measured(self, groups: Any) -> tuple[list[Segment], set[str]]:
        """The segments of one step, and the open parameters without a gradient."""
        model: Any = self._model
        inputs = self._workload.inputs(model)
        live = LiveBytes()
        live.count([*model.parameters(), *model.buffers(), *(v for v in inputs.values() if isinstance(v, Tensor))])
        recorder = _Recorder(live)
        opened = {name: p for name, p in model.named_parameters() if p.requires_grad}
        with ExitStack() as hooks:
            for stack in self._stacks:
                kept = [group for group in stack.layers if group in groups]
                for group in kept:
                    for hook in recorder.watch(stack.module(group), group, last=group == kept[-1]):
                        hooks.callback(hook.remove)
            for parameter in opened.values():
                hook = parameter.register_post_accumulate_grad_hook(recorder.note_gradient)
                hooks.callback(hook.remove)
            collecting = gc.isenabled()
            gc.disable()  # a collection in the middle would free what a cycle holds, at some point or other
            try:
                with live, _named_errors(model):
                    for _ in range(2 if self._repeated else 1):
                        recorder.begin(FORWARD)
                        recorder.segments.clear()
                        with self._workload.autocast():
                            loss = self._loss.of(model, model(**inputs))
                        recorder.begin(BACKWARD)
                        torch.autograd.backward(loss, retain_graph=self._loss.retained)
                        recorder.end()
                        del loss
            finally:
                if collecting:
                    gc.enable()
        unused = {name for name, parameter in opened.items() if parameter.grad is None}
        for parameter in opened.values():
            parameter.grad = None
        return recorder.segments, unused


@contextmanager
def _named_errors(model: nn.Module) -> Iterator[None]:
    """Say of a model's own errors where they come from."""
    try:
        yield
    except Exception as error:  # any model's code runs here
        raise RunError(
            f"A step of {type(model).__name__} cannot be followed without data ({first_line(error)}). Expected a model "
            f"whose computation does not depend on values; where it routes tokens to experts, try weights='bfloat16'."
        ) from error


@contextmanager
def _no_log() -> Iterator[None]:
    """Let torch not print the errors of fake tensors that it raises."""
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

    def begin(self, at: str, group: str = "") -> None:
        """End the segment before, and begin one."""
        self.end()
        self._at, self._group = at, group
        self._live.restart_peak()
        self._start = self._live.now, self._live.gradients

    def end(self) -> None:
        """End the segment."""
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
                )
            )

    def watch(self, layer: nn.Module, group: str, last: bool) -> list[Any]:
        """Hooks that begin a segment where a layer's pass begins."""

        def enter(module: nn.Module, args: object) -> None:
            if self._at == FORWARD:  # and not where a checkpoint runs the layer again
                self.begin(FORWARD, group)

        def leave(module: nn.Module, args: object, output: Any) -> None:
            if self._at != FORWARD:
                return
            tensors = (value for value in tree_leaves(output) if isinstance(value, Tensor))
            hidden = next(tensors, None)
            if hidden is not None and hidden.requires_grad:
                hook: Any = hidden.register_hook  # untyped in torch
                hook(lambda _: self.begin(BACKWARD, group))
            if last:
                self.begin(FORWARD)

        return [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]

    def note_gradient(self, parameter: Tensor) -> None:
        """Count a parameter's gradient among the gradients."""
        if parameter.grad is not None:
            self._live.as_gradient(parameter.grad)
