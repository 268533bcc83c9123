"""Train a sparse part of the weights: Child-Tuning, and the masks of SHiRA and LIFT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.layers.names import is_bias
from gradgate.layers.selectors import Selection, select
from gradgate.layers.units import HEAD
from gradgate.measure import ScoreRequest, SelectionRequest
from gradgate.methods.base import Method
from gradgate.methods.options import acts_if
from gradgate.methods.plan import CLOSED, OPEN, Gate, Plan
from gradgate.methods.traits import MethodState, Traits


@dataclass(frozen=True, kw_only=True)
class ChildTuning(Method):
    """Pass the gradient of a share ``keep`` of the weights, drawn at each step or measured once.

    ``mode=F`` (task-free) draws the child network again for each step, over all parameters, and divides what passes
    by ``keep``. ``mode=D`` (task-driven) chooses it once, before the first step: the weights of the layers with the
    largest Fisher information on the task's training data; the embeddings and the head learn as a whole, and nothing is
    divided. Its masks take one bit per weight. Choosing takes one pass over the data and, meanwhile, one number per
    weight.

    Args:
        mode: ``F`` or ``D``.
        keep: share of the weights in the child network, in (0, 1]; the paper's p_F or p_D.
        batches: training batches to choose on with ``mode=D``; 0 for all.
        fisher_labels: labels to choose by with ``mode=D``: ``true`` as in the paper, ``sample`` or ``argmax``.
        fisher_eval_mode: choose without dropout with ``mode=D``; the authors' code leaves it on.
        mask_target: ``grad`` masks the gradient, so that momentum and weight decay may still move a masked weight;
            ``update`` holds it bit-identical.
    """

    name: ClassVar[str] = "child-tuning"
    summary: ClassVar[str] = "only a child network learns: drawn at each step (mode=F), or the task's own (mode=D)"
    source: ClassVar[str] = "Child-Tuning (Xu et al. 2021), Sec. 2, Algorithm 1: https://arxiv.org/abs/2109.05687"
    deviates: ClassVar[str] = (
        "The authors' code clips the gradient of each tensor before it measures the Fisher information; here it is "
        "not clipped. They mask inside the optimizer, after clipping; here masks act before it, as in all methods."
    )
    aliases: ClassVar[dict[str, str]] = {"reserve_p": "keep", "fisher_batches": "batches"}

    mode: Literal["F", "D"] = "F"
    keep: float = 0.3
    batches: int = acts_if(0, mode=("D",))
    fisher_labels: Literal["true", "sample", "argmax"] = acts_if("true", mode=("D",))
    fisher_eval_mode: bool = acts_if(False, mode=("D",))
    mask_target: Literal["grad", "update"] = "grad"

    def __post_init__(self) -> None:
        self._require(
            keep=(0.0 < self.keep <= 1.0, "0 < keep <= 1"),
            batches=(self.batches >= 0, "1 or more, or 0 for all"),
        )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        gate = Gate(lo=0.0, hi=self.keep, stream=self.name, hold=self.mask_target == "update")
        if self.mode == "F":
            drawn = replace(gate, scale=1.0 / self.keep, draw=clock.step, each_step=True)
            return Plan(dict.fromkeys(layers.names, drawn if self.keep < 1.0 else OPEN))
        inner = {group.name for group in layers.layers}
        return Plan({name: replace(gate, chosen=True) if name in inner else OPEN for name in layers.names})

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[SelectionRequest, ...]:
        if self.mode == "F" or clock.step > 0:
            return ()
        scores = ScoreRequest(
            groups=tuple(group.name for group in layers.layers),
            of="fisher",
            batches=self.batches or None,
            labels=self.fisher_labels,
            eval_mode=self.fisher_eval_mode,
            seed=memory.seed * 1_000_003,
        )
        return (SelectionRequest(self.keep, scores),)

    @property
    def traits(self) -> Traits:
        return Traits(measures="data" if self.mode == "D" else None)


@dataclass(frozen=True, kw_only=True)
class Sparse(Method):
    """Train a share of the weight matrices' elements, the same throughout; all others keep every bit.

    The matrices are those in the layers; their biases and norms, and the embeddings, stay closed. What the training
    changes is a small file: see :mod:`gradgate.deltas`.

    ``by=random`` is a function of the seed and the name of the matrix, and takes no memory. The others choose exactly
    ``share`` of each matrix before the first step, rounded, in a tie those that come first; their masks take one bit
    per element and are part of the saved state, so that a resumed training does not choose again.

    Args:
        share: of the elements of each matrix, in (0, 1].
        by: how they are chosen: ``random`` (SHiRA-Rand); ``magnitude``, the largest values (SHiRA-WM); ``gradient``,
            those with the largest gradient on training batches (SHiRA-Grad); ``lift``, the largest values after each
            matrix is replaced by its best approximation of low rank (LIFT).
        rank: of that approximation, 1 or more.
        batches: training batches to measure the gradient on, without dropout; 0 for all.
        every: optimizer steps between two choices, each by the current weights: before step ``j * every``. An element
            that is no longer chosen keeps its value, and its optimizer state restarts. 0 chooses once.
        head: ``open`` trains the whole head, as a fresh one needs; ``closed`` leaves it as it is.
    """

    name: ClassVar[str] = "sparse"
    summary: ClassVar[str] = "a random or measured share of the layers' weight matrices learns, and the head"
    source: ClassVar[str] = (
        "SHiRA (Bhardwaj et al. 2024), Sec. 3.1, SHiRA-Rand, -WM and -Grad: https://arxiv.org/abs/2406.13175; "
        "by=lift: LIFT (Liu et al. 2025): https://arxiv.org/abs/2506.00772"
    )
    deviates: ClassVar[str] = (
        "SHiRA masks chosen projections of language and diffusion models, here all weight matrices of the layers "
        "learn. Its random masks have an exact number of elements, here each passes with probability share. It does "
        "not state the number of calibration batches. LIFT trains 5 % of each matrix and chooses again every few "
        "hundred steps (its code: 200 by default, as many elements as LoRA of rank 128 has, embeddings and head "
        "closed); here the mask is fixed unless every says otherwise. Its code takes the smallest elements unless the "
        "name of the mask says 'largest', and stores the optimizer state of chosen elements only; here it is as large "
        "as the matrices."
    )

    share: float = 0.02
    by: Literal["random", "magnitude", "gradient", "lift"] = "random"
    rank: int = acts_if(128, by=("lift",))
    batches: int = acts_if(8, by=("gradient",))
    every: int = 0
    head: Literal["open", "closed"] = "open"

    def __post_init__(self) -> None:
        self._require(
            share=(0.0 < self.share <= 1.0, "0 < share <= 1"),
            rank=(self.rank >= 1, "1 or more"),
            batches=(self.batches >= 0, "1 or more, or 0 for all"),
            every=(self.every >= 0, "1 or more optimizer steps, or 0 to choose once"),
        )

    def check(self, layers: LayerMap) -> None:
        """Raise MethodError if the rank leaves every matrix as it is, which would be ``by=magnitude``."""
        chosen = self.selection(layers) if self.by == "lift" else None
        inner = {name for group in layers.layers for name in group.parameter_names}
        sizes = [min(shape[-2:]) for name, shape in chosen.shapes.items() if name in inner] if chosen else []
        if sizes and self.rank >= max(sizes):
            raise MethodError(
                f"{self.spec!r} ranks elements after an approximation of rank {self.rank}, but no matrix of this model "
                f"has a higher rank than {max(sizes)}, so nothing would be approximated. Use rank=1 to "
                f"{max(sizes) - 1}, or by=magnitude."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        masked = Gate(lo=0.0, hi=self.share, stream=self.name, chosen=self.by != "random", draw=self._choices(clock))
        masked = masked if self.share < 1.0 else OPEN
        inner = {group.name for group in layers.layers}
        reached = self.reaches(layers)
        return Plan({n: masked if n in inner else OPEN if n in reached else CLOSED for n in layers.names})

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return ((clock.step + 1) // self.every + 1) * self.every - 1 if self.every and self.share < 1.0 else None

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[SelectionRequest, ...]:
        due = clock.step == 0 or (self.every > 0 and (clock.step + 1) % self.every == 0)
        if not self._measures or not due:
            return ()
        groups = tuple(group.name for group in layers.layers)
        if self.by == "gradient":
            seed = memory.seed * 1_000_003 + clock.step
            scores = ScoreRequest(groups, "gradient", self.batches or None, seed=seed)
        else:
            scores = ScoreRequest(groups, "weight", rank=self.rank if self.by == "lift" else None)
        return (SelectionRequest(self.share, scores, "parameter"),)

    @property
    def traits(self) -> Traits:
        return Traits(forgets_held=self.every > 0, measures=self._measures)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        """Return the layers, and the head if it is open."""
        return frozenset({group.name for group in layers.layers} | ({HEAD} & {*layers.names} if self._head else set()))

    def selection(self, layers: LayerMap) -> Selection | None:
        """Return the matrices of the layers, and the head; None for a map without shapes."""
        if not layers.weights:
            return None
        whole = select(layers, "re:.*")
        inner = {
            name
            for group in layers.layers
            for name in group.parameter_names
            if len(whole.shapes[name]) > 1 and not is_bias(name)
        }
        head = set(layers[HEAD].parameter_names) if self._head and HEAD in layers else set()
        rows = {name: ranges for name, ranges in whole.rows.items() if name in inner | head}
        return Selection(self.spec, rows, {name: whole.shapes[name] for name in rows})

    def _choices(self, clock: Clock) -> int:
        """Return the number of choices after the first one."""
        return (clock.step + 1) // self.every if self.every else 0

    @property
    def _measures(self) -> Literal["data", "weights"] | None:
        if self.by == "random" or self.share >= 1.0:
            return None
        return "data" if self.by == "gradient" else "weights"

    @property
    def _head(self) -> bool:
        return self.head == "open"
