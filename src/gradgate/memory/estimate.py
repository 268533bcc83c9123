"""Estimate the memory of a training without running it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from gradgate.clock import Clock
from gradgate.errors import UsageError
from gradgate.layers import LayerMap
from gradgate.layers.find import fitting_map
from gradgate.measure import SignalRequest
from gradgate.memory.known_weights import KnownWeights
from gradgate.memory.optimizer_cost import OWN_PRECISION, MakeOptimizer, OptimizerCost
from gradgate.memory.phases import planned_phases, suppositions
from gradgate.memory.quantized import QuantizedBase
from gradgate.memory.training_memory import TrainingMemory
from gradgate.memory.usage import MemoryEstimate
from gradgate.memory.workload import Workload
from gradgate.methods.base import Method
from gradgate.methods.catalog import method as read_method

Master = Literal["float32", "none"]


@dataclass(frozen=True)
class Setup:
    """The settings of a training apart from model and method.

    Attributes:
        workload: what one step computes.
        optimizer: a name of Trainer's, or a function that makes an optimizer of parameters.
        master: ``float32`` keeps a float32 copy of open 16-bit weights; None does so if the optimizer supports it.
        shards: FSDP2 processes that share weights, gradients, states and masters.
        total_steps: optimizer steps.
        steps_per_epoch: optimizer steps in one pass over the data.
        seed: of the method's draws.
        scores_dev: whether dev is scored during the training.
    """

    workload: Workload
    optimizer: str | MakeOptimizer = "adamw_torch"
    master: Master | None = None
    shards: int = 1
    total_steps: int = 1000
    steps_per_epoch: int | None = None
    seed: int = 0
    scores_dev: bool = False

    def __post_init__(self) -> None:
        if self.workload.quantization is not None and self.shards > 1:
            raise UsageError(
                f"weights={self.workload.weights!r} and shards={self.shards} cannot be combined: a quantized base is "
                f"estimated in one process alone. Leave one of them out."
            )
        if self.master == "float32" and self.optimizer in OWN_PRECISION:
            raise UsageError(
                f"master='float32' and optim={self.optimizer!r} cannot be combined: that optimizer keeps numbers in a "
                f"format of its own. Use adamw_torch, or master='none'."
            )

    @property
    def masters(self) -> bool:
        """True if 16-bit weights have float32 masters."""
        return self.master != "none" and self.optimizer not in OWN_PRECISION


class Estimator:
    """Estimates methods on one model, whose layers are mapped once.

    Args:
        model: from transformers, on any device, also the meta device.
        setup: how it is trained.
        layers: its map, or the path of its layer stack; by default detected.
        source: name of the model whose files hold the weights, if ``model`` has none.

    Raises:
        LayerMapError: if the layers cannot be found, or ``layers`` is the map of another model.
        UsageError: for a length that the model has no positions for.
    """

    def __init__(
        self, model: nn.Module, setup: Setup, layers: LayerMap | str | None = None, source: str | None = None
    ) -> None:
        setup.workload.check_length(model)
        self._model, self.setup = model, setup
        self.layers = fitting_map(model, layers)
        self._cost = OptimizerCost(setup.optimizer)
        self._weights = KnownWeights(model, source)
        quantization = setup.workload.quantization
        self._quantized = QuantizedBase.of(model, self.layers, quantization) if quantization else QuantizedBase()

    def of(self, method: Method | str, label: str | None = None) -> MemoryEstimate:
        """Estimate the memory of a training with a method.

        Args:
            method: a method or its text.
            label: name of the estimate; by default the method's text.

        Raises:
            MethodError: if the method does not fit the model.
            RunError: if a step of the model cannot be computed without data.
        """
        return self._of(read_method(method), self.setup, label)

    def with_workload(self, method: Method | str, workload: Workload) -> MemoryEstimate:
        """Estimate the memory with another workload."""
        return self._of(read_method(method), replace(self.setup, workload=workload), None)

    def _of(self, method: Method, setup: Setup, label: str | None) -> MemoryEstimate:
        clock = Clock(0, setup.steps_per_epoch or setup.total_steps, setup.total_steps)
        layers = self.layers.at(method.traits.unit)
        missing: list[SignalRequest] = []

        def known(request: SignalRequest) -> dict[str, float] | None:
            found = self._weights.signal(request, layers)
            missing.extend(() if found else (request,))
            return found

        # What a measuring method opens may be unknown before the training, so take the worst of the supposed orders.
        supposed = [planned_phases(method, layers, clock, setup.seed, order, known) for order in suppositions(method)]
        choice = _choice(method, bool(missing))
        memory = TrainingMemory(
            self._model,
            self.layers,
            method,
            setup.workload,
            self._cost,
            setup.masters,
            setup.shards,
            self._quantized,
            setup.scores_dev,
        )
        estimates = [
            MemoryEstimate(label or str(method), memory.phases(plans), setup.workload.accumulate, choice)
            for plans in supposed
        ]
        return max(estimates, key=lambda estimate: estimate.peak_bytes)


def _choice(method: Method, missing: bool) -> Literal["measured", "supposed"] | None:
    """Return whether what a method chooses was measured or supposed; None if it measures nothing."""
    if method.traits.measures is None:
        return None
    return "measured" if method.traits.measures == "weights" and not missing else "supposed"
