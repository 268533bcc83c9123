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
    """A request for the trace of the Fisher information (FUN, Eq. 1 and Algorithm 2).

    Attributes:
        groups: names of the groups to measure.
        batches: number of batches of training data, 40 as in the paper; fewer if the data ends earlier; None for
            all of them.
        labels: ``sample`` draws y from the model (Eq. 1); ``argmax`` takes its mode (the authors' code); ``true``
            takes the data's labels (the empirical Fisher).
        gradient: ``per_example`` is Eq. 1, the mean over examples of the squared gradient of log p(y|x); ``batch``
            squares the gradient of the batch's mean and divides by the batch size B, as Algorithm 2 does. With
            sampled labels the latter is 1/B**2 of the former in expectation, so that both give the same ranking.
        qa: for span extraction, ``sum`` adds log p(start) and log p(end) of an example; ``stack`` treats them as two
            rows, as the code does: twice as many rows with half the information each.
        eval_mode: measure without dropout.
        seed: for the sampled labels, and for dropout if there is any.
    """

    groups: tuple[str, ...]
    batches: int | None = 40
    labels: Labels = "sample"
    gradient: Gradient = "per_example"
    qa: QA = "sum"
    eval_mode: bool = True
    seed: int = 0


@dataclass(frozen=True)
class GradientRequest:
    """A request for the absolute gradient of each element, of the mean over batches of log p(y|x), with true labels.

    Attributes:
        groups: names of the groups to measure.
        batches: number of batches of training data; fewer if the data ends earlier; None for all of them.
        eval_mode: measure without dropout.
        seed: for dropout if there is any.
    """

    groups: tuple[str, ...]
    batches: int | None = None
    eval_mode: bool = True
    seed: int = 0


@dataclass(frozen=True)
class WeightRequest:
    """A request for the absolute value of each element; needs no data.

    Attributes:
        groups: names of the groups to measure.
        rank: None for the values as they are; a number for those of each matrix's best approximation of that rank.
    """

    groups: tuple[str, ...]
    rank: int | None = None


@dataclass(frozen=True)
class SelectionRequest:
    """A request to choose the single elements with the largest scores.

    Attributes:
        share: share of elements to choose, in (0, 1].
        request: defines the score of an element. By Fisher information that is the mean over batches of its
            squared gradient of the batch's mean log p(y|x): ``gradient`` must be ``batch``.
        within: the population of the share. ``all``: all groups together, regardless of parameters, including all
            elements equal to the threshold. ``parameter``: each parameter alone, exactly the share (rounded, at least
            one element); of equal elements the first ones.
    """

    share: float
    request: FisherRequest | GradientRequest | WeightRequest
    within: Literal["all", "parameter"] = "all"


@dataclass(frozen=True)
class OutlierRequest:
    """A request for the share of outliers among weights, each weighted by the inputs that it multiplies.

    Attributes:
        groups: names of the groups to measure.
        batches: number of batches of training data; fewer if the data ends earlier.
        threshold: a weight is an outlier if it exceeds this multiple of its group's mean.
        seed: for the random states while the model runs.
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


Measurement = FisherRequest | OutlierRequest | SignalRequest
