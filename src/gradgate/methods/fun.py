"""Open next the layer whose parameters have the largest trace of the Fisher information (FUN)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.measure import QA, FisherRequest, Gradient, Labels
from gradgate.methods.mixins import HasUnitOption
from gradgate.methods.traits import MethodState, Traits
from gradgate.methods.unfreezing import EMBEDDINGS_DEPART, FUN_PAPER, LINK, Unfreezing, of_top_layer

ORDER = "order"
# The choices of the authors' released code.
CODE: dict[str, Any] = {
    "batches": 41,
    "fisher_labels": "argmax",
    "fisher_grad": "batch",
    "fisher_eval_mode": True,
    "qa_fisher": "stack",
}


@dataclass(frozen=True, kw_only=True)
class FUN(Unfreezing, HasUnitOption):
    """Open the closed layer with the largest tr(F) every ``every`` steps; the top one is open from the start.

    tr(F) is measured on training batches and summed over a layer's parameters; a tie opens the higher layer.

    The j-th event comes before step ``j * every`` of the papers' 1-based steps, until no layer is closed. A
    measurement depends only on the weights, the step, the seed and the batches, and its result is in the memory's
    note ``order``: a list of ``step`` (done before it), the ``layer`` that opened (its number; the name of another
    unit) and the ``traces`` by group.

    Args:
        batches: training batches per measurement; also called ``fisher_batches``.
        fisher_labels: ``sample`` (Eq. 1), ``argmax`` (the authors' code) or ``true`` (the empirical Fisher).
        fisher_grad: ``per_example`` (Eq. 1) or ``batch`` (Algorithm 2), which gives the same ranking with sampled
            labels.
        fisher_eval_mode: measure without dropout, as the authors' code does.
        qa_fisher: in span extraction, start and end are the ``sum`` of an example, or a ``stack`` of two rows.
        timing: ``text`` has the top layer open from the start; ``algorithm`` begins with the head alone.
        mode: ``code`` makes the choices of the authors' code and refuses other options for them: argmax labels,
            batch gradients, no dropout, 41 batches, spans of question answering stacked.

    Raises:
        MethodError: if an option is out of range, or decided by ``mode=code``.
    """

    name: ClassVar[str] = "fun"
    summary: ClassVar[str] = "the layer with the largest Fisher trace opens next"
    source: ClassVar[str] = f"{FUN_PAPER}, Eq. 1, Algorithm 2, Sec. 5.3: {LINK}"
    deviates: ClassVar[str] = (
        f"{EMBEDDINGS_DEPART} The code takes the argmax instead of sampling labels, uses 41 batches, stacks the spans "
        "of question answering and does not mask padding (mode=code does all of it but the last: padding is always "
        "masked). Both square the gradient of the batch's mean, where Eq. 1 has that of each example "
        "(fisher_grad=per_example)."
    )
    aliases: ClassVar[dict[str, str]] = {"fisher_batches": "batches"}

    batches: int = 40
    fisher_labels: Labels = "sample"
    fisher_grad: Gradient = "batch"
    fisher_eval_mode: bool = True
    qa_fisher: QA = "sum"
    timing: Literal["text", "algorithm"] = "text"
    mode: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(batches=(self.batches >= 1, "1 or more"))
        mine = {name: getattr(self, name) for name in CODE} if self.mode == "code" else {}
        others = [n for n, value in mine.items() if value not in (CODE[n], getattr(FUN, n))]
        if others:
            code = ", ".join(f"{name}={CODE[name]}" for name in others)
            raise MethodError(
                f"The method {self.name!r} cannot have {', '.join(f'{name}={mine[name]}' for name in others)} with "
                f"mode=code, which means {code}. Leave out either."
            )

    def openings(self, clock: Clock, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        first = dict.fromkeys(of_top_layer(layers), 0) if self.timing == "text" else {}
        places = {group.name: number for number, group in enumerate(layers.layers)}
        events = memory.notes.get(ORDER, [])
        return first | {places.get(event["layer"], event["layer"]): event["step"] for event in events}

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        if self._is_warming(self.openings(clock, layers, memory).values(), clock):
            return clock.step + 1
        return ((clock.step + 1) // self.every + 1) * self.every - 1

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[FisherRequest, ...]:
        opened = self.openings(clock, layers, memory)
        closed = [number for number in range(layers.layer_count) if number not in opened]
        due = (clock.step + 1) % self.every == 0
        known = any(event["step"] == clock.step for event in memory.notes.get(ORDER, []))
        if not due or known or not closed:
            return ()
        chosen = replace(self, mode="paper", **CODE) if self.mode == "code" else self
        request = FisherRequest(
            groups=tuple(layers.layers[number].name for number in closed),
            batches=chosen.batches,
            labels=chosen.fisher_labels,
            gradient=chosen.fisher_grad,
            qa=chosen.qa_fisher,
            eval_mode=chosen.fisher_eval_mode,
            seed=memory.seed * 1_000_003 + clock.step,
        )
        return (request,)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        places = {name: place for place, name in enumerate(scores)}
        chosen = max(scores, key=lambda name: (scores[name], places[name]))
        layer = int(chosen.removeprefix("layers.")) if self.unit == "layer" else chosen
        event = {"step": clock.step, "layer": layer, "traces": scores}
        return replace(memory, notes={**memory.notes, ORDER: [*memory.notes.get(ORDER, []), event]})

    @property
    def traits(self) -> Traits:
        return replace(super().traits, measures="data")
