"""Stop training matrices one by one as their gradients settle (GradES)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.layers import Group, LayerMap, Unit
from gradgate.measure import WatchRequest
from gradgate.methods.mixins import HasStateOption, HasUnitOption
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, State, Traits

STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class GradES(HasStateOption, HasUnitOption):
    """Close a matrix for good if its gradient changes by less than ``tau`` from one step to the next.

    The change is the sum over elements of ``|g_t - g_(t-1)|`` (the L1 norm), with the gradients that the
    optimizer steps on: of all micro-batches and processes, after clipping. Nothing closes before the share ``alpha``
    of the steps is done. The biases of a module count and close with its matrix; norms and other units without a
    matrix, the embeddings and the head learn to the end. The last matrix stays open, too.

    The memory's note ``stopped`` lists what closed: ``step`` (steps done), ``group`` and ``size``, as measured.

    Args:
        tau: the threshold, above 0. The right one depends on the size of a matrix, the loss and the metric.
        alpha: share of the training before anything may close, in [0, 1).
        metric: ``change`` of the gradient, which stores the gradients of one step until the next; the ``norm`` of the
            gradient itself, which stores nothing; ``weights``, how far the step moved the matrix, which stores a copy
            of it during a step.
    """

    name: ClassVar[str] = "grades"
    summary: ClassVar[str] = "each matrix learns until its gradient changes by less than a threshold"
    source: ClassVar[str] = "GradES (Wen et al. 2025, version 3), Sec. 3: https://arxiv.org/abs/2509.01842"
    deviates: ClassVar[str] = (
        "The paper tunes tau and alpha to each model; alpha is the released code's default. Version 1 of the paper "
        "compares the gradient itself (metric=norm), the released code how far the weights have moved "
        "(metric=weights). The code ends the training when every matrix is closed; here the last one stays open. It "
        "watches only named projections; here every module of a layer that has a matrix. Its optimizer keeps the "
        "state of what is closed (state=keep)."
    )

    tau: float
    alpha: float = 0.3
    metric: Literal["change", "norm", "weights"] = "change"
    unit: Unit = "module"
    state: State = "drop"

    def __post_init__(self) -> None:
        self._require(tau=(self.tau > 0.0, "above 0"), alpha=(0.0 <= self.alpha < 1.0, "0 <= alpha < 1"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        stopped = {event["group"] for event in memory.notes.get(STOPPED, [])}
        return Plan.opening(layers, {name: name not in stopped for name in layers.names})

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return max(clock.step + 1, self._first(clock))

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[WatchRequest, ...]:
        if clock.step + 2 < self._first(clock):  # the step before the first decision is the one to compare it with
            return ()
        plan = self.plan(clock, layers, memory)
        watched = [g.name for g in layers.layers if not plan[g.name].closed and _has_matrix(layers, g)]
        return (WatchRequest(tuple(watched)),)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        settled = [name for name, size in scores.items() if size < self.tau]
        if clock.step < self._first(clock) or not settled:
            return memory
        if len(settled) == len(scores):
            settled.remove(max(settled, key=lambda name: scores[name]))
        events = [{"step": clock.step, "group": name, "size": scores[name]} for name in settled]
        return replace(memory, notes={**memory.notes, STOPPED: [*memory.notes.get(STOPPED, []), *events]})

    @property
    def traits(self) -> Traits:
        return replace(super().traits, watches=self.metric)

    def _first(self, clock: Clock) -> int:
        """Return the steps done when a matrix may first close."""
        return max(1, int(clock.known_total * self.alpha))


def _has_matrix(layers: LayerMap, group: Group) -> bool:
    shapes = [layers.weights[name].shape for name in group.parameter_names if name in layers.weights]
    return not shapes or any(len(shape) > 1 for shape in shapes)
