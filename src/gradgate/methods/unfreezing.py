"""Open one layer after another by a schedule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.errors import MethodError, nearest
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.mixins import HasUnitOption
from gradgate.methods.options import acts_if
from gradgate.methods.plan import CLOSED, OPEN, Gate, Plan
from gradgate.methods.towers import axes_of, bottom_of, embeddings_follow, layers_of, tower_check
from gradgate.methods.traits import MethodState, Traits

Timing = Literal["text", "code_gu", "algorithm"]
FreezeEmbeddings = Literal["with_bottom", "never", "always"]
FUN_PAPER = "FUN (Liu et al. 2023, Improving Generalization of Adapter-Based Cross-lingual Transfer)"
LINK = "https://arxiv.org/abs/2301.05487"
EMBEDDINGS_DEPART = "The paper trains adapters; on a full model the embeddings need a rule (freeze_embeddings)."

# The released code's list, for 12 layers of which the top one (11) is on from the start (methods: FUN Sec. 5.2).
PRESETS = {
    f"preset-{number}": tuple(map(int, order.split()))
    for number, order in enumerate(
        (
            "10 2 6 5 8 3 7 0 1 9 4",
            "9 6 2 4 5 8 7 10 1 3 0",
            "9 7 0 10 5 8 2 4 1 3 6",
            "10 5 4 7 1 9 0 8 3 2 6",
            "10 8 1 6 7 2 0 5 4 9 3",
            "10 4 7 5 3 0 6 2 9 8 1",
            "10 1 0 3 9 6 8 2 5 7 4",
            "10 9 3 5 0 4 1 8 6 7 2",
            "10 7 0 3 4 8 1 2 6 5 9",
        ),
        start=1,
    )
}


class LateOpening(Method):
    """A schedule by which layers open at known steps; the head always learns. Subclasses declare the options.

    Args:
        freeze_embeddings: ``with_bottom`` opens them with the lowest layer; ``never`` has them open from the
            start; ``always`` keeps them closed.
        warm_open: steps over which the learning rate of a group that opens after the start rises: the n-th step after
            the opening has n / warm_open of it. 0 for none.
    """

    freeze_embeddings: FreezeEmbeddings
    warm_open: int

    @abstractmethod
    def openings(self, clock: Clock, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        """Return the steps done when each layer opens, by its number from the bottom; 0 if open from the start.

        Numbers count ``layers.layers``, which are units in a map by parts or modules. Layers that are not named are
        closed in the next step.
        """

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        units = layers.layers
        opened = {units[number].name: step for number, step in self.openings(clock, layers, memory).items()}
        opened["head"] = 0
        if self.freeze_embeddings == "never":
            opened["embeddings"] = 0
        elif self.freeze_embeddings == "with_bottom":
            bottom = self.bottom(layers)
            of_bottom = [opened[unit.name] for unit in units if unit.layer == bottom and unit.name in opened]
            if bottom is None or of_bottom:
                opened["embeddings"] = 0 if bottom is None else min(of_bottom)
        return Plan({name: self._gate(opened.get(name), clock) for name in layers.names})

    def bottom(self, layers: LayerMap) -> str | None:
        """Return the name of the layer that the embeddings open with; None if they are open from the start."""
        return bottom_of(layers.axes, layers)

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        out = {"embeddings"} if self.freeze_embeddings == "always" else set()
        return frozenset(set(layers.names) - out)

    @property
    def traits(self) -> Traits:
        return replace(super().traits, by_schedule=True)

    def _require(self, **checks: tuple[bool, str]) -> None:
        super()._require(warm_open=(self.warm_open >= 0, "0 or more optimizer steps"), **checks)

    def _is_warming(self, openings: Iterable[int], clock: Clock) -> bool:
        """Return whether a learning rate still rises after the next step."""
        return any(0 < step <= clock.step < step + self.warm_open - 1 for step in openings)

    def _gate(self, opens: int | None, clock: Clock) -> Gate:
        if opens is None or clock.step < opens:
            return CLOSED
        nth = clock.step - opens + 1
        return Gate(lr=nth / self.warm_open) if opens > 0 and nth < self.warm_open else OPEN


@dataclass(frozen=True, kw_only=True)
class Unfreezing(LateOpening):
    """A schedule by steps, by which layers stay open.

    Args:
        every: optimizer steps between two openings (the papers' k), 1 or more.
    """

    every: int = 50
    freeze_embeddings: FreezeEmbeddings = "with_bottom"
    warm_open: int = 0

    def __post_init__(self) -> None:
        self._require(every=(self.every >= 1, "1 or more optimizer steps"))


@dataclass(frozen=True, kw_only=True)
class Scheduled(Unfreezing):
    """A schedule that depends only on the layers and the seed, so that it is known before the training."""

    @abstractmethod
    def schedule(self, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        """Return the steps done when each layer opens, by its number from the bottom; 0 if open from the start."""

    def openings(self, clock: Clock, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        return self.schedule(layers, memory)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        openings = self.schedule(layers, memory).values()
        if self._is_warming(openings, clock):
            return clock.step + 1
        return min((step for step in openings if step > clock.step), default=None)


@dataclass(frozen=True, kw_only=True)
class Gradual(Scheduled):
    """Open the layers one by one, ``every`` optimizer steps, from the top down or from the bottom up.

    With ``L`` layers and the papers' 1-based step ``i``: timing ``text`` has the first layer open from the start
    and the j-th further one from step ``j * every`` on; ``code_gu`` from ``(j + 1) * every`` on; ``algorithm``
    starts with the head alone and opens the j-th layer at step ``j * every``. Networks side by side, such as query and
    passage encoders, open at the same pace, each along its own depth.

    Args:
        order: ``top-down`` or ``bottom-up``.
        timing: when the layers open, see above.
        rev_start: ``top`` keeps the top layer open from the start in the bottom-up order, as the authors' code
            does; ``none`` starts at the bottom.
        tower: ``vision``, ``audio``, ``projector``, ``text``, ``encoder``, ``decoder`` or the name of a network: open
            one by one only the layers of that tower, and with them the embeddings if they belong to it; all else learns
            from the start.
    """

    name: ClassVar[str] = "gradual"
    summary: ClassVar[str] = "layers open one by one, from the top down"
    source: ClassVar[str] = (
        f"Howard and Ruder 2018, Sec. 3.3: https://arxiv.org/abs/1801.06146; {FUN_PAPER}, Algorithm 1, Sec. 4.1, "
        f"App. F.1: {LINK}"
    )
    deviates: ClassVar[str] = (
        f"{EMBEDDINGS_DEPART} The authors' GU code opens each further layer one interval later (timing=code_gu)."
    )

    order: Literal["top-down", "bottom-up"] = "top-down"
    timing: Timing = "text"
    rev_start: Literal["top", "none"] = acts_if("top", order=("bottom-up",))
    tower: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(tower=tower_check(self.tower))

    def check(self, layers: LayerMap) -> None:
        super().check(layers)
        layers_of(self, layers)

    def schedule(self, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        numbers = {group.name: number for number, group in enumerate(layers.layers)}
        opens = dict.fromkeys(numbers.values(), 0)
        for axis in axes_of(self, layers):
            own = [numbers[group.name] for group in axis]
            opens |= one_by_one([own[place] for place in self._order(len(own))], self.every, self.timing)
        return opens

    def bottom(self, layers: LayerMap) -> str | None:
        return bottom_of(axes_of(self, layers), layers) if embeddings_follow(self, layers) else None

    def _order(self, count: int) -> list[int]:
        if self.order == "top-down":
            return list(range(count - 1, -1, -1))
        if self.rev_start == "none":
            return list(range(count))
        return [count - 1, *range(count - 1)]


@dataclass(frozen=True, kw_only=True)
class LPFT(Scheduled):
    """Train the head alone for the first ``every`` steps, then everything: linear probing, then fine-tuning.

    Args:
        every: optimizer steps of the probing stage (the paper's k).
        freeze_embeddings: ``with_bottom`` and ``never`` open them with the layers or from the start.
    """

    name: ClassVar[str] = "lpft"
    summary: ClassVar[str] = "the head alone for the first steps, then everything"
    source: ClassVar[str] = (
        f"Kumar et al. 2022: https://arxiv.org/abs/2202.10054; {FUN_PAPER}, Sec. 4.1, footnote 2: {LINK}"
    )
    deviates: ClassVar[str] = EMBEDDINGS_DEPART

    def check(self, layers: LayerMap) -> None:
        """Accept every model: all layers open at once."""

    def schedule(self, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        # "Nothing for the first k steps": steps 1 to k train the head alone.
        return dict.fromkeys(range(layers.layer_count), self.every)


@dataclass(frozen=True, kw_only=True)
class RandomOrder(Scheduled, HasUnitOption):
    """Open a closed layer, drawn at random, every ``every`` steps; the top layer is open from the start.

    With ``unit=part`` or ``module`` all units of the top layer are open from the start, and the others open one by one.
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "layers open one by one in a random order"
    source: ClassVar[str] = f"{FUN_PAPER}, Algorithm 1, Sec. 5.2 (Rand): {LINK}"
    deviates: ClassVar[str] = EMBEDDINGS_DEPART

    def schedule(self, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        units, top = layers.layers, of_top_layer(layers)
        rest = [number for number in range(len(units)) if number not in top]
        return after_top(top, sorted(rest, key=lambda number: self._draw(units[number].name, memory)), self.every)

    def _draw(self, name: str, memory: MethodState) -> float:
        return gates.uniform(gates.key(seed=memory.seed, stream=self.name, name=name, draw=0))


@dataclass(frozen=True, kw_only=True)
class GivenOrder(Scheduled, HasUnitOption):
    """Open layers one by one in the order that ``layers`` names.

    Args:
        layers: layer numbers in the order of opening, such as ``10/1/0/3``, or the name of one of the paper's nine
            presets for 12 layers, ``preset-1`` to ``preset-9``. A top layer that is not named is open from the
            start; otherwise the first named layer is. Every other layer must be named once. With another unit than
            layers, names such as ``3.mlp/3.attention``; the units of the top layer are then open from the start.
    """

    name: ClassVar[str] = "order"
    summary: ClassVar[str] = "layers open one by one in a given order"
    source: ClassVar[str] = f"{FUN_PAPER}, Sec. 5.2 (preset schedules): {LINK}"
    deviates: ClassVar[str] = EMBEDDINGS_DEPART

    layers: tuple[int, ...] | tuple[str, ...] | str

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.layers, tuple) and all(str(item).isdecimal() for item in self.layers):
            object.__setattr__(self, "layers", tuple(map(int, self.layers)))
        self._require(
            layers=(
                not isinstance(self.layers, str) or self.layers in PRESETS,
                f"numbers such as 10/1/0, or one of {', '.join(PRESETS)}",
            )
        )

    def check(self, layers: LayerMap) -> None:
        super().check(layers)
        if self.unit != "layer":
            self._check_units(layers)
        elif sorted(self._order(layers.layer_count)) != list(range(layers.layer_count)):
            raise MethodError(
                f"{self.spec!r} must name each of the layers 0 to {layers.layer_count - 1} once; the top one "
                f"({layers.layer_count - 1}) may be left out and is then open from the start."
            )

    def schedule(self, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        if self.unit == "layer":
            return one_by_one(self._order(layers.layer_count), self.every, "text")
        places = {group.name: number for number, group in enumerate(layers.layers)}
        return after_top(of_top_layer(layers), [places[f"layers.{name}"] for name in self.layers], self.every)

    def _order(self, count: int) -> list[int]:
        named = [int(number) for number in (PRESETS[self.layers] if isinstance(self.layers, str) else self.layers)]
        return named if count - 1 in named else [count - 1, *named]

    def _check_units(self, layers: LayerMap) -> None:
        """Raise MethodError unless each unit below the top layer is named once."""
        units, top = layers.layers, of_top_layer(layers)
        below = [unit.name.removeprefix("layers.") for number, unit in enumerate(units) if number not in top]
        named = [str(name) for name in self.layers] if isinstance(self.layers, tuple) else [self.layers]
        unknown = next((name for name in named if name not in below), None)
        if unknown is not None:
            raise MethodError(
                f"{self.spec!r}: there is no {self.unit} {unknown!r} below the top layer.{nearest(unknown, below)} "
                f"Expected each of {', '.join(below)} once."
            )
        wrong = next((name for name in below if named.count(name) != 1), None)
        if wrong is not None:
            raise MethodError(
                f"{self.spec!r} names {wrong!r} {named.count(wrong)} times; expected each {self.unit} below the top "
                f"layer once."
            )


def one_by_one(order: Sequence[int], every: int, timing: Timing) -> dict[int, int]:
    """Return the steps done when each layer opens, in this order; the papers' step is one more."""
    # An event every ``every`` steps opens the next layer; by ``code_gu`` and ``algorithm`` the first event opens the
    # first layer, which ``code_gu`` has open from the start anyway.
    events = 0 if timing == "text" else 1
    opens = {number: (place + events) * every - 1 for place, number in enumerate(order)}
    return opens if timing == "algorithm" else opens | {order[0]: 0}


def of_top_layer(layers: LayerMap) -> list[int]:
    """Return the numbers of the units in the top layer of each network; in a map by layers, that of the layer."""
    tops = {axis[-1].layer for axis in layers.axes}
    return [number for number, unit in enumerate(layers.layers) if unit.layer in tops]


def after_top(top: Sequence[int], order: Sequence[int], every: int) -> dict[int, int]:
    """Return the steps done when each unit opens: the top layer's from the start, then the others in this order."""
    return one_by_one([top[0], *order], every, "text") | dict.fromkeys(top, 0)


def refuse_shared_layers(method: Method, layers: LayerMap) -> None:
    """Raise MethodError on a model that runs one physical layer at every depth."""
    if layers.shared_layers:
        raise MethodError(
            f"{method.spec!r} opens layers one after another, but this model shares one layer between all depths, "
            f"so there is no order to follow. Use 'full', 'head' or 'graddrop' instead."
        )
