"""Train the same weights at every step: everything, the head, a probe, the upper layers, the biases, named groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import Group, LayerMap
from gradgate.layers.names import is_bias
from gradgate.layers.selectors import Selection, select
from gradgate.layers.units import HEAD
from gradgate.methods.base import Method
from gradgate.methods.options import needed_without
from gradgate.methods.plan import Plan
from gradgate.methods.towers import axes_of, embeddings_follow, tower_check
from gradgate.methods.traits import MethodState

CLASSIFICATION = "classification"
"""The kind of task that a probe fits."""


@dataclass(frozen=True, kw_only=True)
class Fixed(Method):
    """A method that opens the same groups at every step."""

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan.opening(layers, dict.fromkeys(self.reaches(layers), True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Full(Fixed):
    """Train every parameter at every step: standard fine-tuning."""

    name: ClassVar[str] = "full"
    summary: ClassVar[str] = "every parameter learns, always"
    source: ClassVar[str] = "standard fine-tuning; the baseline of all five papers"


@dataclass(frozen=True, kw_only=True)
class Head(Fixed):
    """Train only the head: linear probing if the head is one layer.

    The head is everything that runs after the top layer, including a pooler and a final norm.
    """

    name: ClassVar[str] = "head"
    summary: ClassVar[str] = "only the head learns"
    source: ClassVar[str] = "What would Elsa do? (Lee et al. 2019), Sec. 3 with N = L: https://arxiv.org/abs/1911.03090"

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return frozenset({"head"})


@dataclass(frozen=True, kw_only=True)
class Probe(Head):
    """Fit a logistic regression on the features of the frozen model, and set it as the model's head.

    A run of it takes no optimizer steps: the frozen model computes the features of each row once, scikit-learn fits
    them (standardized, with an L2 penalty), and the weights become the last linear layer of the head. For
    classification only. ``Tuner`` and ``GateCallback`` have no rows to fit: there it opens the head, as ``head`` does.

    Args:
        c: inverse strength of the penalty, above 0; by default the best of 0.01, 0.1, 1 and 10 on dev.
    """

    name: ClassVar[str] = "probe"
    summary: ClassVar[str] = "logistic regression on the frozen model's features"
    source: ClassVar[str] = "linear classifier probes (Alain and Bengio 2016), Sec. 3: https://arxiv.org/abs/1610.01644"
    deviates: ClassVar[str] = "probes the features that enter the head, and no layer below; fitted by lbfgs"

    c: float | None = None

    def __post_init__(self) -> None:
        self._require(c=(self.c is None or 0.0 < self.c < float("inf"), "above 0"))

    def check_task(self, kind: str) -> None:
        if kind != CLASSIFICATION:
            raise MethodError(
                f"{self.spec!r} fits one label per row, so it is only for {CLASSIFICATION}; this task is {kind}. "
                f"Train with 'head' instead."
            )


@dataclass(frozen=True, kw_only=True)
class Freeze(Fixed):
    """Close the embeddings and the lowest ``layers`` layers; the rest learns at every step.

    Args:
        layers: how many layers are closed, from 0 (embeddings only) to the number of layers (head only), or ``all``;
            this number in each network if several run side by side, such as query and passage encoders.
        only: selectors (:func:`gradgate.select`) of what to close, instead of ``layers``: ``freeze:only=@attention``.
        tower: ``vision``, ``audio``, ``projector``, ``text``, ``encoder``, ``decoder`` or the name of a network: count
            only the layers of that tower, and leave the others open. The embeddings are closed if they belong to it.
    """

    name: ClassVar[str] = "freeze"
    summary: ClassVar[str] = "embeddings and the lowest N layers are closed"
    source: ClassVar[str] = "What would Elsa do? (Lee et al. 2019), Sec. 3: https://arxiv.org/abs/1911.03090"

    layers: int | Literal["all"] | None = needed_without("only", None)
    only: tuple[str, ...] = ()
    tower: str = ""

    def __post_init__(self) -> None:
        if self.layers is None and not self.only:
            raise MethodError(
                f"The method {self.name!r} needs layers=..., the number of closed layers, or only=..., a selector."
            )
        self._require(
            layers=(not isinstance(self.layers, int) or self.layers >= 0, "0 or more"),
            tower=tower_check(self.tower),
            only=(not self.only or (self.layers is None and not self.tower), "neither layers nor tower with it"),
        )

    def check(self, layers: LayerMap) -> None:
        if self.only:
            self.selection(layers)
            return
        axes = axes_of(self, layers)
        count = min(map(len, axes), default=0)
        if self.closed_of(count) > count:
            where, end = ("tower", "closes all of it") if self.tower else ("model", "trains the head alone")
            where = where if len(axes) < 2 else f"shortest of its networks ({', '.join(_networks(axes))})"
            raise MethodError(
                f"{self.spec!r} asks for {self.layers} closed layers, but the {where} has {count}. "
                f"Use 0 to {count}; {count} {end}."
            )

    def closed_of(self, count: int) -> int:
        """Return how many of ``count`` layers are closed."""
        return self.layers if isinstance(self.layers, int) else count

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        if learns := self.selection(layers):
            return groups_of(learns, layers)
        closed = {group.name for axis in axes_of(self, layers) for group in axis[: self.closed_of(len(axis))]}
        if embeddings_follow(self, layers):
            closed.add("embeddings")
        return frozenset({*layers.names, "head"} - closed)

    def selection(self, layers: LayerMap) -> Selection | None:
        return select(layers, "/".join(self.only)).inverted(layers) if self.only else None


@dataclass(frozen=True, kw_only=True)
class BitFit(Fixed):
    """Train only the biases and the head."""

    name: ClassVar[str] = "bitfit"
    summary: ClassVar[str] = "only the biases and the head learn"
    source: ClassVar[str] = "BitFit (Ben Zaken et al. 2022), Sec. 3: https://arxiv.org/abs/2106.10199"

    def check(self, layers: LayerMap) -> None:
        inside = [name for group in layers.layers for name in group.parameter_names if name in layers.weights]
        if inside and not any(map(is_bias, inside)):
            raise MethodError(
                f"The layers of {layers.model} have no biases, so {self.name!r} would train the head alone. Use "
                f"'head', or 'groups:open=@norm/head' for the weights of the norms."
            )

    def selection(self, layers: LayerMap) -> Selection:
        every = select(layers, "re:.*")
        head = set(layers[HEAD].parameter_names) if HEAD in layers else set()
        rows = {n: rows for n, rows in every.rows.items() if n in head or is_bias(n)}
        return Selection(self.spec, rows, {name: every.shapes[name] for name in rows})


@dataclass(frozen=True, kw_only=True)
class NamedGroups(Fixed):
    """Train only the named weights, or all but these.

    Args:
        open: selectors (:func:`gradgate.select`) of what learns, such as ``embeddings/layers.0/head`` or
            ``embeddings[32000:]/@lora``.
        closed: the same of what does not learn, instead of ``open``; all else learns.
    """

    name: ClassVar[str] = "groups"
    summary: ClassVar[str] = "only the named weights learn"
    source: ClassVar[str] = "freezing by hand"

    open: tuple[str, ...] = needed_without("closed", ())
    closed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        both = bool(self.open) and bool(self.closed)
        self._require(
            open=(bool(self.open or self.closed), "at least one group or other selector, such as layers.0/head"),
            closed=(not both, "nothing if open says what learns"),
        )

    def check(self, layers: LayerMap) -> None:
        self.selection(layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return groups_of(self.selection(layers), layers)

    def selection(self, layers: LayerMap) -> Selection:
        found = select(layers, "/".join(self.open or self.closed))
        return found if self.open else found.inverted(layers)


def _networks(axes: Iterable[tuple[Group, ...]]) -> list[str]:
    return [f"{axis[0].network}: {len(axis)}" for axis in axes]


def groups_of(selection: Selection, layers: LayerMap) -> frozenset[str]:
    """Return the names of the groups with any of the selected weights."""
    return frozenset(group.name for group in layers if any(name in selection for name in group.parameter_names))
