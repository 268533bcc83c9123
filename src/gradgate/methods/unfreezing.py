"""Methods that open one layer after another by a schedule that is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Memory, Method, Plan

Timing = Literal["text", "code_gu", "algorithm"]
FreezeEmbeddings = Literal["with_bottom", "never", "always"]
FUN = "FUN (Liu et al. 2023, Improving Generalization of Adapter-Based Cross-lingual Transfer)"
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


@dataclass(frozen=True, kw_only=True)
class Unfreezing(Method):
    """What all schedules share: the interval, the rule for the embeddings, and that layers stay open.

    Args:
        every: optimizer steps between two openings (the papers' k), 1 or more.
        freeze_embeddings: ``with_bottom`` opens them with the lowest layer; ``never`` has them open from the
            start; ``always`` keeps them closed.
    """

    every: int = 50
    freeze_embeddings: FreezeEmbeddings = "with_bottom"

    def __post_init__(self) -> None:
        self._require(every=(self.every >= 1, "1 or more optimizer steps"))

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        out = {"embeddings"} if self.freeze_embeddings == "always" else set()
        return frozenset(set(layers.names) - out)


@dataclass(frozen=True, kw_only=True)
class Gradual(Unfreezing):
    """Open the layers one by one, ``every`` optimizer steps, from the top down or from the bottom up.

    With ``L`` layers and the papers' 1-based step ``i``: timing ``text`` has the first layer on from the start
    and the j-th further one from step ``j * every`` on; ``code_gu`` from ``(j + 1) * every`` on; ``algorithm``
    starts with the head alone and opens the j-th layer at step ``j * every``.

    Args:
        order: ``top-down`` or ``bottom-up``.
        timing: when the layers open, see above.
        rev_start: ``top`` keeps the top layer on from the start in the bottom-up order, as the authors' code
            does; ``none`` starts at the bottom.
    """

    name: ClassVar[str] = "gradual"
    summary: ClassVar[str] = "layers open one by one, from the top down"
    source: ClassVar[str] = (
        f"Howard and Ruder 2018, Sec. 3.3: https://arxiv.org/abs/1801.06146; {FUN}, Algorithm 1, Sec. 4.1, "
        f"App. F.1: {LINK}"
    )
    departs: ClassVar[str] = (
        f"{EMBEDDINGS_DEPART} The authors' GU code opens each further layer one interval later (timing=code_gu)."
    )

    order: Literal["top-down", "bottom-up"] = "top-down"
    timing: Timing = "text"
    rev_start: Literal["top", "none"] = "top"

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        order = self._order(layers.layer_count)
        opened = order[: open_count(clock.step, self.every, layers.layer_count, self.timing)]
        return open_layers(opened, layers, self.freeze_embeddings)

    def _order(self, count: int) -> list[int]:
        if self.order == "top-down":
            return list(range(count - 1, -1, -1))
        if self.rev_start == "none":
            return list(range(count))
        return [count - 1, *range(count - 1)]


@dataclass(frozen=True, kw_only=True)
class LPFT(Unfreezing):
    """Linear probing, then fine-tuning: the head alone for the first ``every`` steps, then everything.

    Args:
        every: optimizer steps of the probing stage (the paper's k).
        freeze_embeddings: ``with_bottom`` and ``never`` open them with the layers or from the start.
    """

    name: ClassVar[str] = "lpft"
    summary: ClassVar[str] = "the head alone for the first steps, then everything"
    source: ClassVar[str] = f"Kumar et al. 2022: https://arxiv.org/abs/2202.10054; {FUN}, Sec. 4.1, footnote 2: {LINK}"
    departs: ClassVar[str] = EMBEDDINGS_DEPART

    def check(self, layers: LayerMap) -> None:
        """Fits every model: all layers open at once."""

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        # "Nothing for the first k steps": steps 1 to k train the head alone.
        opened = list(range(layers.layer_count)) if clock.step >= self.every else []
        return open_layers(opened, layers, self.freeze_embeddings)


@dataclass(frozen=True, kw_only=True)
class RandomOrder(Unfreezing):
    """The top layer is on from the start; every ``every`` steps a closed layer, drawn at random, opens."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "layers open one by one in a random order"
    source: ClassVar[str] = f"{FUN}, Algorithm 1, Sec. 5.2 (Rand): {LINK}"
    departs: ClassVar[str] = EMBEDDINGS_DEPART

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        count = layers.layer_count
        order = [count - 1, *sorted(range(count - 1), key=lambda number: self._draw(number, memory))]
        opened = order[: open_count(clock.step, self.every, count, "text")]
        return open_layers(opened, layers, self.freeze_embeddings)

    def _draw(self, number: int, memory: Memory) -> float:
        return gates.uniform(gates.key(seed=memory.seed, stream=self.name, name=f"layers.{number}", draw=0))


@dataclass(frozen=True, kw_only=True)
class GivenOrder(Unfreezing):
    """Layers open one by one in a given order.

    Args:
        layers: layer numbers in the order of opening, such as ``10/1/0/3``, or the name of one of the paper's nine
            presets for 12 layers, ``preset-1`` to ``preset-9``. A top layer that is not named is on from the start;
            otherwise the first named layer is. Every other layer must be named once.
    """

    name: ClassVar[str] = "order"
    summary: ClassVar[str] = "layers open one by one in a given order"
    source: ClassVar[str] = f"{FUN}, Sec. 5.2 (preset schedules): {LINK}"
    departs: ClassVar[str] = EMBEDDINGS_DEPART

    layers: tuple[int, ...] | str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            layers=(
                not isinstance(self.layers, str) or self.layers in PRESETS,
                f"numbers such as 10/1/0, or one of {', '.join(PRESETS)}",
            )
        )

    def check(self, layers: LayerMap) -> None:
        super().check(layers)
        order = self._order(layers.layer_count)
        if sorted(order) != list(range(layers.layer_count)):
            raise MethodError(
                f"{self.spec!r} must name each of the layers 0 to {layers.layer_count - 1} once; the top one "
                f"({layers.layer_count - 1}) may be left out and is then on from the start."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        opened = self._order(layers.layer_count)[: open_count(clock.step, self.every, layers.layer_count, "text")]
        return open_layers(opened, layers, self.freeze_embeddings)

    def _order(self, count: int) -> list[int]:
        named = PRESETS[self.layers] if isinstance(self.layers, str) else self.layers
        return list(named) if count - 1 in named else [count - 1, *named]


@dataclass(frozen=True, kw_only=True)
class GradFreeze(Method):
    """Whole layers open once per epoch, from the top or from the bottom; the head always learns.

    Args:
        order: ``top-down`` or ``bottom-up``; the opposite end opens last.
        layers_per_epoch: how many open in each epoch; 0 (auto) takes ``ceil(L / T)``, so that all are open in the
            last of T epochs.
        cumulative: keep open what was open; False trains only the newest layers in each epoch.
        freeze_embeddings: as for the other schedules; ``with_bottom`` opens them with the lowest layer.
    """

    name: ClassVar[str] = "gradfreeze"
    summary: ClassVar[str] = "layers open epoch by epoch, from the top down or the bottom up"
    source: ClassVar[str] = (
        "GradDrop (O'Neill and Dutta 2023), Sec. IV-1, V-A-b (GradFreeze): https://arxiv.org/abs/2307.10098"
    )
    departs: ClassVar[str] = (
        "Layers per epoch and the embeddings are not stated; the text shows 2 per epoch in one place "
        "(layers_per_epoch=2)."
    )

    order: Literal["top-down", "bottom-up"] = "top-down"
    layers_per_epoch: int | Literal["auto"] = "auto"
    cumulative: bool = True
    freeze_embeddings: FreezeEmbeddings = "with_bottom"

    def __post_init__(self) -> None:
        right = self.layers_per_epoch == "auto" or self.layers_per_epoch >= 1
        self._require(layers_per_epoch=(right, "1 or more, or auto"))

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        out = {"embeddings"} if self.freeze_embeddings == "always" else set()
        return frozenset(set(layers.names) - out)

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        count, epoch = layers.layer_count, clock.epoch
        each = -(-count // clock.epochs) if self.layers_per_epoch == "auto" else self.layers_per_epoch
        order = list(range(count)) if self.order == "bottom-up" else list(range(count - 1, -1, -1))
        first = 0 if self.cumulative else min((epoch - 1) * each, count - 1)
        return open_layers(order[first : epoch * each], layers, self.freeze_embeddings)


def open_count(step: int, every: int, layer_count: int, timing: Timing) -> int:
    """How many layers are on for the step that comes after ``step`` done ones."""
    events = (step + 1) // every
    on = {"text": 1 + events, "code_gu": max(1, events), "algorithm": events}[timing]
    return min(on, layer_count)


def open_layers(opened: list[int], layers: LayerMap, freeze_embeddings: FreezeEmbeddings) -> Plan:
    """The head and the layers with these numbers open; the embeddings by their rule."""
    groups = {"head": True, **{f"layers.{number}": True for number in opened}}
    groups["embeddings"] = {"with_bottom": 0 in opened, "never": True, "always": False}[freeze_embeddings]
    return Plan.opening(layers, groups)


def refuse_shared_layers(method: Method, layers: LayerMap) -> None:
    """Raise MethodError on a model that runs one physical layer at every depth."""
    if layers.shared_layers:
        raise MethodError(
            f"{method.spec!r} opens layers one after another, but this model shares one layer between all depths, "
            f"so there is no order to follow. Use 'full', 'head' or 'graddrop' instead."
        )
