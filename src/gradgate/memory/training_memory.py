"""Compute the peak memory of each phase of a training: its weights and states, passes and optimizer step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from gradgate.layers import LayerMap
from gradgate.measure import FisherRequest, OutlierRequest, Request, SelectionRequest
from gradgate.memory.measurements import Measurements
from gradgate.memory.open_pattern import OpenPattern
from gradgate.memory.optimizer_cost import OptimizerCost, ParameterCost
from gradgate.memory.passes import Loss, Passes, StepTrace
from gradgate.memory.phases import PlannedPhase
from gradgate.memory.quantized import QuantizedBase
from gradgate.memory.sharding import Sharding
from gradgate.memory.shrunken import layer_stacks
from gradgate.memory.usage import PhaseMemory, Usage, in_words
from gradgate.memory.workload import Workload
from gradgate.methods.base import Method
from gradgate.methods.plan import OPEN, Gate, Plan
from gradgate.training.arguments import scored_rows
from gradgate.tuner.checks import check_quantized
from gradgate.tuner.gating import Gating
from gradgate.tuner.mixout import Mixing
from gradgate.tuner.optimizer_states import HALF
from gradgate.tuner.step_plan import chunks, copy_bytes, look_bytes, representative, restore_bytes, watch_bytes


@dataclass(frozen=True)
class Step:
    """The parameters of one optimizer step.

    Attributes:
        names: of the parameters that are stepped, in order.
        zeros: of these, those that get a gradient of zeros.
        masked: of these, those with elements that keep their bits.
        watched: those that the method watches.
    """

    names: tuple[str, ...]
    zeros: frozenset[str]
    masked: frozenset[str]
    watched: frozenset[str]


@dataclass(frozen=True)
class State:
    """The state of a training at the end of a phase.

    Attributes:
        stepped: the parameters that the optimizer has a state of.
        gradients: bytes of the last step's gradients, which are alive if a measurement follows.
    """

    stepped: frozenset[str] = frozenset()
    gradients: int = 0


class TrainingMemory:
    """Computes the memory of one method on one model.

    Args:
        model: with or without data; only shapes are used.
        layers: its map.
        method: decides what learns when.
        workload: of one step.
        optimizer: costs of the optimizer.
        masters: whether open 16-bit weights have a float32 copy that the optimizer steps.
        shards: number of FSDP2 processes.
        quantized: what is stored in 4 or 8 bits.
        scores_dev: whether the training scores dev, as that of a run does.

    Raises:
        AttachError: if the method opens a quantized matrix.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: LayerMap,
        method: Method,
        workload: Workload,
        optimizer: OptimizerCost,
        masters: bool,
        shards: int,
        quantized: QuantizedBase,
        scores_dev: bool = False,
    ) -> None:
        self._layers = layers.at(method.traits.unit)
        self._inside = {group.name for group in layers.at("layer").layers}
        self._method, self._optimizer, self._masters = method, optimizer, masters
        self._traits = method.traits
        selection = method.selection(self._layers)
        self._gating = Gating(model, self._layers, selection, 0, {})
        check_quantized(method, self._layers, self._gating, quantized.bytes)
        self._quantized = quantized
        self._parameters = self._gating.parameters
        self._rows = frozenset(selection.partial if selection is not None else ())
        self._sharding = Sharding(self._parameters, self._layers.at("layer"), shards)
        stacks = layer_stacks(model, layers)
        self._released = workload.released
        self._passes = Passes(model, self._layers, method, workload, stacks, released=self._is_released)
        self._repeated: Passes | None = None
        if workload.accumulate > 1:
            self._repeated = Passes(model, self._layers, method, workload, stacks, repeated=True)
        self._measurements = Measurements(model, self._layers, method, workload, stacks, self._gating)
        self._inputs = workload.input_bytes(model)
        self._scoring: Passes | None = None
        if scores_dev:
            scored = replace(workload, batch_size=scored_rows(workload.batch_size))
            loss = Loss(training=False, differentiated=False)
            self._scoring = Passes(model, self._layers, method, scored, stacks, loss)
            self._scored_inputs = scored.input_bytes(model)
        self._fixed = self._weights(model)
        self._computed: dict[Any, tuple[Usage, State]] = {}

    def phases(self, plans: list[PlannedPhase]) -> tuple[PhaseMemory, ...]:
        """Return the peak of each phase of a training, in order."""
        state = State()
        peaks = []
        frozen = self._layers.frozen
        trainable = [group.name for group in self._layers if not frozen.issuperset(group.parameter_names)]
        for phase in plans:
            gates = tuple(_as_memory_sees(gate) for gate in phase.plan.values())
            key = gates, state, phase.steps > 1, tuple(map(_without_seed, phase.measured)), phase.watched
            if key not in self._computed:
                self._computed[key] = self._phase(phase, state)
            usage, state = self._computed[key]
            learning = [name for name, gate in phase.plan.items() if gate.share > 0.0 and self._gating.groups[name]]
            words = in_words(learning, trainable)
            peaks.append(PhaseMemory(phase.step, phase.steps, words, usage, phase.supposed))
        return tuple(peaks)

    def _weights(self, model: nn.Module) -> int:
        """Return the bytes of parameters and buffers, and of the initial weights that mixout stores."""
        buffers = {id(buffer): buffer.nbytes for buffer in model.buffers()}
        stored = self._quantized.bytes
        plain = (name for name in self._parameters if name not in stored)
        size = self._sharding.bytes(plain) + sum(stored.values()) + sum(buffers.values())
        if self._traits.mixing:
            mixing = Mixing(model, self._traits.mixing, self._gating.trainable, 0)
            size += sum(self._parameters[name].nbytes for name in mixing.names)
        return size

    def _phase(self, phase: PlannedPhase, state: State) -> tuple[Usage, State]:
        """Return the peak of a phase that begins with a state, and the state at its end."""
        stepped = state.stepped
        pattern = OpenPattern(phase.plan, self._gating, self._layers)
        trace = self._passes.trace(pattern)
        alive = pattern.opened | pattern.dropped
        if self._traits.state_of_closed in ("drop", "offload"):
            stepped &= {name for group, gate in phase.plan.items() if not gate.closed for name in self._names(group)}
        masked = [n for n, _ in self._gating.gated(lambda gate: gate.chosen and not gate.closed, phase.plan)]
        base = Usage(
            weights=self._fixed + sum(-(-self._parameters[name].numel() // 8) for name in masked),  # a bit per weight
            masters=sum(4 * self._sharding.elements(name) for name in alive if self._has_master(name)),
            activations=self._inputs,
        )
        watched = frozenset(name for group in phase.watched for name in self._names(group))
        step = self._step_of(pattern, trace, watched)
        before = base.plus(optimizer=self._states(state.stepped), gradients=state.gradients)
        peaks = [usage for request in phase.measured for usage in self._measurements.peaks(request, before)]
        pattern = OpenPattern(phase.plan, self._gating, self._layers)  # measurements have opened other weights
        past = self._watching(watched, step)[0] if self._traits.watches == "change" else 0
        # Two steps cover a phase: the first one creates states, and the second one has them from the beginning.
        for number in range(min(2, phase.steps)):
            now = base.plus(optimizer=self._states(stepped), activations=past if number or phase.step else 0)
            passed = list(self._passed(now, trace, step, stepped))
            peaks += passed
            if self._repeated is not None:
                passed = list(self._passed(passed[-1], self._repeated.trace(pattern), step, stepped))
                peaks += passed
            done = frozenset(release.name for segment in trace.segments for release in segment.releases)
            left = replace(step, names=tuple(name for name in step.names if name not in done))
            peaks += self._stepped(replace(passed[-1], at="step"), left, stepped | done)
            stepped |= set(step.names)
        peaks += self._scored(base.plus(optimizer=self._states(stepped)), step)
        alive_now = left.names if self._traits.decides_by_measuring else ()
        gradients = sum(self._sharding.nbytes(name) for name in alive_now)
        return max(peaks, key=lambda usage: usage.peak), State(stepped, gradients)

    def _is_released(self, name: str) -> bool:
        """Return whether a parameter is stepped in the backward pass, under the plan that is traced."""
        gate = self._gating.gate_of(name) if self._released else None
        return gate is not None and gate.share > 0.0

    def _states(self, names: frozenset[str]) -> int:
        """Return the bytes of the optimizer's states of parameters."""
        return sum(self._cost(name).state for name in names)

    def _names(self, group: str) -> list[str]:
        return self._gating.groups[group]

    def _passed(self, now: Usage, trace: StepTrace, step: Step, stepped: frozenset[str]) -> Iterator[Usage]:
        """Yield the usage at the peak of each segment of the passes, and at their end."""
        gradients = now.gradients + self._sharding.reduced(sum(segment.gradients for segment in trace.segments))
        for unsharded in trace.segments:
            segment = self._sharding.of_segment(unsharded)
            for release in segment.releases:
                yield _added(replace(now, at=segment.at), release.peak, 0)
                at = _added(replace(now, at="step"), release.now, release.gradients)
                yield from self._chunk(at, (release.name,), step, stepped)
                if release.name not in stepped:
                    now = now.plus(optimizer=self._cost(release.name).state)
            matrix = self._quantized.largest if segment.group in self._inside else 0
            yield _added(replace(now, at=segment.at), segment.peak + matrix, segment.gradients_at_peak)
            now = _added(now, segment.delta, segment.gradients)
        yield replace(now, at="backward", gradients=gradients)

    def _scored(self, now: Usage, step: Step) -> Iterator[Usage]:
        """Yield the usage at the peaks while dev is scored, which takes no gradients, but may take more rows."""
        if self._scoring is not None:
            # No pass has a plan that opens nothing; without gradients, every plan takes the same.
            pattern = OpenPattern(Plan(dict.fromkeys(self._gating.groups, OPEN)), self._gating, self._layers)
            now = now.plus(activations=self._scored_inputs)
            yield from self._passed(now, self._scoring.trace(pattern), step, frozenset())

    def _step_of(self, pattern: OpenPattern, trace: StepTrace, watched: frozenset[str]) -> Step:
        learning = pattern.opened - trace.unused
        names = tuple(name for name in self._parameters if name in learning or name in pattern.dropped)
        masked = dict(self._gating.gated(attrgetter("masks_weights"), pattern.plan))
        return Step(
            names,
            pattern.dropped,
            frozenset(n for n in names if (n in masked or n in self._rows) and n in learning),
            watched,
        )

    def _stepped(self, now: Usage, step: Step, stepped: frozenset[str]) -> Iterator[Usage]:
        """Yield the usage at the peak of each parameter's step."""
        now = now.plus(gradients=sum(self._sharding.nbytes(name) for name in step.zeros))
        yield now.plus(activations=self._look_at_gradients(step))
        stored, moment = self._watching(step.watched, step)
        now = now.plus(activations=stored if self._traits.watches == "weights" else 0)
        yield now.plus(activations=moment)
        for chunk in self._chunks(step):
            yield from self._chunk(now, chunk, step, stepped)
            now = now.plus(optimizer=self._states(frozenset(chunk) - stepped))

    def _chunk(self, now: Usage, chunk: tuple[str, ...], step: Step, stepped: frozenset[str]) -> Iterator[Usage]:
        """Yield the usage at the peaks while the parameters of a chunk are stepped, whose gradients are in ``now``."""
        if chunk:
            copies = sum(self._copies(name, step.masked) for name in chunk)
            # The optimizer creates the states of all parameters of a chunk before it steps the first one.
            now = now.plus(optimizer=self._states(frozenset(chunk) - stepped))
            left = 0
            for name in chunk:
                cost = self._cost(name)
                yield now.plus(activations=copies + left + (cost.later if name in stepped else cost.first))
                left = cost.left
            for name in chunk if copies else ():
                yield now.plus(activations=copies + self._restoring(name))

    def _watching(self, watched: frozenset[str], step: Step) -> tuple[int, int]:
        """Return the bytes that a method stores to watch parameters in a step, and those that it needs for a moment."""
        sizes = [self._sharding.nbytes(name) for name in step.names if name in watched]
        return watch_bytes(self._traits.watches, sizes)

    def _chunks(self, step: Step) -> list[tuple[str, ...]]:
        """Return the parameters that are stepped together; those without copies are in the last chunk."""
        copied = [name for name in step.names if name in step.masked or self._has_master(name)]
        first = [tuple(chunk) for chunk in chunks(copied, self._copied)][:-1]
        before = set(chain.from_iterable(first))
        return [*first, tuple(name for name in step.names if name not in before)]

    def _copied(self, name: str) -> int:
        return self._sharding.elements(name) * self._acting(name).itemsize

    def _copies(self, name: str, masked: frozenset[str]) -> int:
        elements, item = self._sharding.elements(name), self._acting(name).itemsize
        return copy_bytes(elements, item, masked=name in masked, has_master=self._has_master(name))

    def _look_at_gradients(self, step: Step) -> int:
        """Return the bytes of the check that gradients are finite."""
        gates = {name: self._gating.gate_of(name) for name in step.names if name not in step.zeros}
        opened = [name for name, gate in gates.items() if gate is not None and gate.open]
        name = representative(opened, list(gates), self._sharding.elements)
        return 0 if name is None else look_bytes(self._sharding.elements(name), self._parameters[name].element_size())

    def _restoring(self, name: str) -> int:
        items = self._acting(name).itemsize, self._parameters[name].element_size()
        return restore_bytes(self._sharding.elements(name), *items, self._gating.gate_of(name))

    def _has_master(self, name: str) -> bool:
        return self._masters and self._parameters[name].dtype in HALF

    def _acting(self, name: str) -> torch.dtype:
        """Return the dtype of the tensor that the optimizer steps: the master's, or the parameter's."""
        return torch.float32 if self._has_master(name) else self._parameters[name].dtype

    def _cost(self, name: str) -> ParameterCost:
        return self._optimizer.of(self._sharding.shape(name), self._acting(name))


def _as_memory_sees(gate: Gate) -> Gate:
    """Return a gate without the values that do not affect memory, as a key."""
    window = (gate.lo, gate.hi) if not gate.sparse or gate.share >= 1.0 else (0.0, 0.5)
    return Gate(
        lo=window[0],
        hi=window[1],
        scale=2.0 if gate.sparse and gate.share >= 1.0 else 1.0,
        hold=gate.hold,
        scope=gate.scope,
        chosen=gate.chosen,
        momentum=gate.momentum,
    )


def _without_seed(request: Request) -> Request:
    if isinstance(request, SelectionRequest):
        return replace(request, scores=replace(request.scores, seed=0))
    return replace(request, seed=0) if isinstance(request, FisherRequest | OutlierRequest) else request


def _added(now: Usage, total: int, gradients: int) -> Usage:
    return now.plus(gradients=gradients, activations=total - gradients)
