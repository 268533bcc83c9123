"""Methods that open one layer after another and never close one again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Memory, Method, Plan

Timing = Literal["text", "code_gu", "algorithm"]
FreezeEmbeddings = Literal["with_bottom", "never", "always"]


@dataclass(frozen=True, kw_only=True)
class Gradual(Method):
    """Open the layers one by one, ``every`` optimizer steps, from the top down or from the bottom up.

    With ``L`` layers and the papers' 1-based step ``i``: timing ``text`` has the first layer on from the start
    and the j-th further one from step ``j * every`` on; ``code_gu`` from ``(j + 1) * every`` on; ``algorithm``
    starts with the head alone and opens the j-th layer at step ``j * every``.

    Args:
        every: optimizer steps between two openings (the papers' k), 1 or more.
        order: ``top-down`` or ``bottom-up``.
        timing: when the layers open, see above.
        rev_start: ``top`` keeps the top layer on from the start in the bottom-up order, as the authors' code
            does; ``none`` starts at the bottom.
        freeze_embeddings: ``with_bottom`` opens them with the lowest layer; ``never`` has them open from the
            start; ``always`` keeps them closed.
    """

    name: ClassVar[str] = "gradual"
    summary: ClassVar[str] = "layers open one by one, from the top down"
    source: ClassVar[str] = (
        "Howard and Ruder 2018, Sec. 3.3: https://arxiv.org/abs/1801.06146; FUN (Liu et al. 2023), Algorithm 1, "
        "Sec. 4.1, App. F.1: https://arxiv.org/abs/2301.05487"
    )
    departs: ClassVar[str] = (
        "FUN trains adapters; on a full model the embeddings need a rule (freeze_embeddings). The authors' GU code "
        "opens each further layer one interval later (timing=code_gu)."
    )

    every: int = 50
    order: Literal["top-down", "bottom-up"] = "top-down"
    timing: Timing = "text"
    rev_start: Literal["top", "none"] = "top"
    freeze_embeddings: FreezeEmbeddings = "with_bottom"

    def __post_init__(self) -> None:
        self._require(every=(self.every >= 1, "1 or more optimizer steps"))

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        out = {"embeddings"} if self.freeze_embeddings == "always" else set()
        return frozenset(set(layers.names) - out)

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
