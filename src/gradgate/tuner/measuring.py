"""Measure what a method decides by before a plan: numbers of groups, such as Fisher traces, and single weights."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.distributed.shards import whole
from gradgate.errors import AttachError, MethodError
from gradgate.layers import LayerMap
from gradgate.measure import Batch, Batches, FisherRequest, Measurement, OutlierRequest, SelectionRequest, WatchRequest
from gradgate.measure.outliers import outlier_shares
from gradgate.measure.selection import choose
from gradgate.measure.signal import signal_of_groups
from gradgate.measure.trace import trace
from gradgate.methods.base import Method
from gradgate.methods.traits import MethodState
from gradgate.tuner.gating import Gating


class Measuring:
    """Measures what a method asks for on one model, with equal results in all processes.

    Args:
        model: without wrappers such as DDP.
        method: makes the requests.
        layers: of the model.
        gating: knows which parameters may open, and applies what is chosen.
        replicas: the processes.
        data: see :class:`gradgate.Tuner`.

    Raises:
        AttachError: if the method measures on training data and there is none, or the weights are sharded.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        layers: LayerMap,
        gating: Gating,
        replicas: Replicas,
        data: Batches | None,
    ) -> None:
        on_data = method.traits.measures == "data"
        if on_data and data is None:
            raise AttachError(
                f"The method {method.spec!r} measures the Fisher information, or gradients, of training batches: pass "
                f"fisher_data=lambda step: batches to Tuner, or to GateCallback if the training data are a stream."
            )
        if on_data and replicas.sharded:
            raise AttachError(
                f"{method.spec!r} measures the Fisher information, or gradients, of whole weights, and FSDP2 stores "
                f"shards. Use DDP, or follow the plan.yaml of a run in one process: plan:FILE."
            )
        self._model, self._method, self._layers = model, method, layers
        self._gating, self._replicas, self._data = gating, replicas, data

    def before(self, clock: Clock, memory: MethodState) -> MethodState:
        """Measure what is due before the next step. Return the memory with the results."""
        if clock.step == clock.total_steps:  # no step is left that could need it
            return memory
        for request in self._method.requests(clock, self._layers, memory):
            if not isinstance(request, SelectionRequest | WatchRequest):
                memory = self._method.learned(self._replicas.mean(self._measured(request, clock)), clock, memory)
        for request in self._method.requests(clock, self._layers, memory):
            if isinstance(request, SelectionRequest):
                self._choose(request, clock)
        return memory

    def _choose(self, request: SelectionRequest, clock: Clock) -> None:
        groups = self._members(request.scores.groups)
        chosen = choose(self._model, groups, lambda: self._batches(clock), request)
        self._gating.load_tensors(self._replicas.first(chosen))

    def _measured(self, request: Measurement, clock: Clock) -> dict[str, float]:
        """Return group to the requested number."""
        groups = self._members(request.groups)
        if isinstance(request, FisherRequest):
            return trace(self._model, groups, self._batches(clock), request)
        if isinstance(request, OutlierRequest):
            return outlier_shares(self._model, groups, self._batches(clock), request)
        return signal_of_groups(groups, lambda name: whole(self._gating.parameters[name]))

    def _batches(self, clock: Clock) -> Iterable[Batch]:
        if self._data is None or self._method.traits.measures != "data":
            raise MethodError(
                f"{type(self._method).__name__}.requests() asks for a measurement on training data, but its traits "
                f"have measures={self._method.traits.measures!r}. Return Traits(measures='data') from traits."
            )
        self._replicas.note_choice()
        batches = self._data(clock.step)
        if not isinstance(batches, Iterable):
            raise AttachError(
                f"fisher_data returned {type(batches).__name__} for step {clock.step}. Expected batches: dictionaries "
                f"with the keyword arguments of the model, in a list or a generator."
            )
        return batches

    def _members(self, groups: tuple[str, ...]) -> dict[str, list[str]]:
        return {name: self._gating.groups[name] for name in groups}
