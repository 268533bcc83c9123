"""Define the requests by which methods ask the tuner for measurements, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Labels = Literal["sample", "argmax", "true"]
Gradient = Literal["per_example", "batch"]
QA = Literal["sum", "stack"]
Batch = Mapping[str, Any]
Batches = Callable[[int], Iterable[Batch]]
"""Called with the number of steps done; returns training batches. It must draw from its own generator."""


@dataclass(frozen=True)
class FisherRequest:
    """A request for the trace of the Fisher information of each group (FUN, Eq. 1 and Algorithm 2).

    Attributes:
        groups: names of the groups to measure.
        batches: number of training batches, 40 as in the paper; fewer if the data ends before; None for all of them.
        labels: ``sample`` draws y from the model (Eq. 1); ``argmax`` takes its mode (the authors' code); ``true``
            takes the data's labels (the empirical Fisher).
        gradient: ``per_example`` is Eq. 1, the mean over examples of the squared gradient of log p(y|x); ``batch``
            squares the gradient of the batch's mean and divides by the batch size B, as Algorithm 2 does. With
            sampled labels the latter is 1/B**2 of the former in expectation, so that both give the same ranking.
        qa: for span extraction, ``sum`` adds log p(start) and log p(end) of an example; ``stack`` treats them as two
            rows, as the code does: twice as many rows with half the information each.
        eval_mode: measure without dropout.
        seed: of the sampled labels, and of dropout if there is any.
    """

    groups: tuple[str, ...]
    batches: int | None = 40
    labels: Labels = "sample"
    gradient: Gradient = "per_example"
    qa: QA = "sum"
    eval_mode: bool = True
    seed: int = 0


@dataclass(frozen=True)
class OutlierRequest:
    """A request for the share of outliers among each group's weights, weighted by the inputs that they multiply.

    Attributes:
        groups: names of the groups to measure.
        batches: number of training batches; fewer if the data ends before.
        threshold: a weight is an outlier above this many times the mean of its group.
        seed: of the random states while the model runs.
    """

    groups: tuple[str, ...]
    batches: int = 16
    threshold: float = 13.0
    seed: int = 0


@dataclass(frozen=True)
class SignalRequest:
    """A request for the signal-to-noise ratio of weight matrices; needs no data.

    Attributes:
        groups: names of the groups to measure; a group's value is the mean over its matrices.
    """

    groups: tuple[str, ...]


@dataclass(frozen=True)
class ScoreRequest:
    """A definition of the scores of single elements.

    Attributes:
        groups: names of the groups with the elements.
        of: ``fisher``, the mean over batches of the squared gradient of the batch's mean log p(y|x); ``gradient``, the
            size of the mean over batches of that gradient; ``weight``, the size of the element's own value, which
            needs no data.
        batches: number of training batches; fewer if the data ends before; None for all of them.
        labels: the labels y, as for :class:`FisherRequest`.
        eval_mode: measure without dropout.
        seed: of the sampled labels, and of dropout if there is any.
        rank: of a ``weight``: None for the values as they are; a number for those of each matrix's best approximation
            of that rank.
    """

    groups: tuple[str, ...]
    of: Literal["fisher", "gradient", "weight"]
    batches: int | None = None
    labels: Labels = "true"
    eval_mode: bool = True
    seed: int = 0
    rank: int | None = None


@dataclass(frozen=True)
class SelectionRequest:
    """A request to choose the single elements with the largest scores.

    Attributes:
        share: how many to choose, in (0, 1].
        scores: how elements are scored.
        within: what has this share. ``all``: all groups together, whatever parameter an element is in, and all
            elements that are equal at the threshold. ``parameter``: of each parameter by itself, exactly that many
            (rounded, at least one); in a tie, those that come first.
    """

    share: float
    scores: ScoreRequest
    within: Literal["all", "parameter"] = "all"


@dataclass(frozen=True)
class WatchRequest:
    """A request to watch groups in the next step of the training; the method's traits say what of them.

    Attributes:
        groups: names of the groups.
    """

    groups: tuple[str, ...]


Measurement = FisherRequest | OutlierRequest | SignalRequest
Request = Measurement | SelectionRequest | WatchRequest
