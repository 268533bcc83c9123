"""Train those of each kind of matrix that have the clearest signal (Spectrum)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap, Unit
from gradgate.layers.names import is_bias
from gradgate.layers.selectors import Selection, select
from gradgate.measure import Request, SignalRequest
from gradgate.methods.blocks import Ends, open_ends
from gradgate.methods.mixins import HasUnitOption
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, Traits

SNR = "snr"


@dataclass(frozen=True, kw_only=True)
class Spectrum(HasUnitOption):
    """Train, of each kind of matrix such as ``attention.q_proj``, those with the highest signal-to-noise ratio.

    The ratio is measured on the weights before the first step, and is in the memory's note ``snr``, by group; see
    :func:`gradgate.measure.signal.signal_to_noise`. No data is needed. The chosen matrices learn throughout the
    training; biases and norms in the layers stay closed, as do all other matrices. ``gradgate layers MODEL --snr``
    prints the ratios of a model on disk.

    Args:
        share: of the units of each kind that learn, in (0, 1], rounded down.
        ends: ``open`` trains the embeddings and the head, as the authors' code does; ``closed`` keeps the embeddings
            and an output layer over tokens closed, while the head of a task, which begins with random weights, learns.
        unit: what is chosen: a ``module``, or a ``part`` or a whole ``layer`` by the mean over its matrices. The ratio
            of a tensor of several experts is the mean over the experts.
    """

    name: ClassVar[str] = "spectrum"
    summary: ClassVar[str] = "the matrices with the highest signal-to-noise ratio of each kind learn"
    source: ClassVar[str] = "Spectrum (Hartford et al. 2024), Sec. 3: https://arxiv.org/abs/2406.06623"
    deviates: ClassVar[str] = (
        "The authors' code also opens the biases of a chosen module, ranks norms, which have a single singular value, "
        "and keeps the last norm closed; here the biases and norms of the layers stay closed, and the last norm goes "
        "with the head. It also ranks each projection of each expert by itself; here the experts of a layer that "
        "transformers joins to one tensor, with gate and up projections in one matrix, open together, by the mean of "
        "their ratios."
    )

    share: float = 0.25
    ends: Ends = "open"
    unit: Unit = "module"

    def __post_init__(self) -> None:
        self._require(share=(0.0 < self.share <= 1.0, "0 < share <= 1"))

    def check(self, layers: LayerMap) -> None:
        kinds = kinds_of(layers)
        if not clearest(kinds, {}, self.share):
            most = max(map(len, kinds.values()), default=0)
            needed = f"Use share={ceil(1000 / most) / 1000:g} or more" if most else "Use 'full' or 'head'"
            raise MethodError(
                f"{self.spec!r} opens no {self.unit}: {layers.model} has at most {most} of one kind with a matrix that "
                f"can learn, and a share of {self.share} of these rounds to none. {needed}."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        chosen = clearest(kinds_of(layers), memory.notes.get(SNR, {}), self.share)
        return Plan.opening(layers, dict.fromkeys((*chosen, *open_ends(layers, self.ends)), True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
        return () if SNR in memory.notes else (SignalRequest(tuple(_members(kinds_of(layers)))),)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        return replace(memory, notes={**memory.notes, SNR: scores})

    @property
    def traits(self) -> Traits:
        return replace(super().traits, measures="weights")

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return open_ends(layers, self.ends).union(_members(kinds_of(layers)))

    def selection(self, layers: LayerMap) -> Selection | None:
        """Return the matrices of the layers, and the ends that are open; None for a map without shapes."""
        if not layers.weights:
            return None
        whole, reached = select(layers, "re:.*"), self.reaches(layers)
        inner = {group.name for group in layers.layers}
        kept = {
            name
            for group in layers
            if group.name in reached
            for name in group.parameter_names
            if group.name not in inner or (len(whole.shapes[name]) > 1 and not is_bias(name))
        }
        rows = {name: ranges for name, ranges in whole.rows.items() if name in kept}
        return Selection(self.spec, rows, {name: whole.shapes[name] for name in rows})


def kinds_of(layers: LayerMap) -> dict[str, list[str]]:
    """Return kind to its groups with a matrix that can learn, from the bottom.

    Groups have one kind if they are the same unit of different layers of one tower, such as ``attention.q_proj``.
    """
    kinds: dict[str, list[str]] = {}
    for group in layers.layers:
        matrices = [name for name in group.parameter_names if _is_matrix(name, layers) and name not in layers.frozen]
        if matrices:
            unit = group.name.removeprefix(group.layer).removeprefix(".") or "layer"
            kinds.setdefault(f"{group.tower}:{unit}" if group.tower else unit, []).append(group.name)
    return kinds


def clearest(kinds: Mapping[str, list[str]], ratios: Mapping[str, float], share: float) -> list[str]:
    """Return the groups with the highest ratios, a share of each kind; in a tie, those that come first.

    Args:
        kinds: kind to groups.
        ratios: group to signal-to-noise ratio; a group without one has 0.
        share: of each kind, in (0, 1], rounded down.
    """
    return [
        name
        for names in kinds.values()
        for name in sorted(names, key=lambda name: -ratios.get(name, 0.0))[: int(len(names) * share + 1e-9)]
    ]


def _members(kinds: Mapping[str, Iterable[str]]) -> list[str]:
    return [name for names in kinds.values() for name in names]


def _is_matrix(name: str, layers: LayerMap) -> bool:
    """Return whether a parameter has two or more axes and is not a bias; in a map without shapes, any may."""
    return not is_bias(name) and (not layers.weights or len(layers.weights[name].shape) > 1)
