"""FUN: open the layer next whose parameters have the largest trace of the Fisher information."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.fisher import FisherRequest, Gradient, Labels
from gradgate.layers import LayerMap
from gradgate.methods.base import Memory, Plan
from gradgate.methods.unfreezing import EMBEDDINGS_DEPART, FUN, LINK, Unfreezing, open_layers

ORDER = "order"


@dataclass(frozen=True, kw_only=True)
class FisherUnfreezing(Unfreezing):
    """Every ``every`` steps the closed layer with the largest tr(F) opens; the top one is on from the start.

    tr(F) is measured on training batches, summed over a layer's parameters; of equal layers the higher one opens.

    Args:
        batches: training batches for one measurement.
        fisher_labels: ``sample`` (Eq. 1), ``argmax`` (the authors' code) or ``true`` (the empirical Fisher).
        fisher_grad: ``per_example`` (Eq. 1) or ``batch`` (Algorithm 2), which is faster and ranks alike with
            sampled labels.
        fisher_eval_mode: measure without dropout, as the authors' code does.
        timing: ``text`` has the top layer on from the start; ``algorithm`` begins with the head alone.
        mode: ``code`` makes the choices of the authors' code: argmax labels, batch gradients, 41 batches, spans of
            question answering stacked.
    """

    name: ClassVar[str] = "fun"
    summary: ClassVar[str] = "the layer with the largest Fisher trace opens next"
    source: ClassVar[str] = f"{FUN}, Eq. 1, Algorithm 2, Sec. 5.3: {LINK}"
    departs: ClassVar[str] = (
        f"{EMBEDDINGS_DEPART} The code takes the argmax instead of sampling labels, uses 41 batches and does not mask "
        "padding (mode=code takes its labels and batches; padding is always masked)."
    )
    aliases: ClassVar[dict[str, str]] = {"fisher_batches": "batches"}

    batches: int = 40
    fisher_labels: Labels = "sample"
    fisher_grad: Gradient = "batch"
    fisher_eval_mode: bool = True
    timing: Literal["text", "algorithm"] = "text"
    mode: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(batches=(self.batches >= 1, "1 or more"))

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        return open_layers(self._opened(layers, memory), layers, self.freeze_embeddings)

    def measures(self, clock: Clock, layers: LayerMap, memory: Memory) -> FisherRequest | None:
        opened = self._opened(layers, memory)
        closed = [number for number in range(layers.layer_count) if number not in opened]
        due = (clock.step + 1) % self.every == 0
        known = any(event["step"] == clock.step for event in memory.notes.get(ORDER, []))
        if not due or known or not closed:
            return None
        request = FisherRequest(
            groups=tuple(f"layers.{number}" for number in closed),
            batches=self.batches,
            labels=self.fisher_labels,
            gradient=self.fisher_grad,
            eval_mode=self.fisher_eval_mode,
            seed=memory.seed * 1_000_003 + clock.step,
        )
        if self.mode == "code":
            return replace(request, batches=41, labels="argmax", gradient="batch", qa="stack", eval_mode=True)
        return request

    def learned(self, scores: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        numbers = {int(name.rpartition(".")[2]): score for name, score in scores.items()}
        chosen = max(numbers, key=lambda number: (numbers[number], number))
        event = {"step": clock.step, "layer": chosen, "traces": scores}
        return replace(memory, notes={**memory.notes, ORDER: [*memory.notes.get(ORDER, []), event]})

    def _opened(self, layers: LayerMap, memory: Memory) -> list[int]:
        first = [layers.layer_count - 1] if self.timing == "text" else []
        return [*first, *(event["layer"] for event in memory.notes.get(ORDER, []))]
