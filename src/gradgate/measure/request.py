"""Define what methods ask to have measured: plain data that the tuner carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Labels = Literal["sample", "argmax", "true"]
Gradient = Literal["per_example", "batch"]
QA = Literal["sum", "stack"]
Batch = Mapping[str, Any]
Batches = Callable[[int], Iterable[Batch]]
"""Called with the number of steps done; returns training batches. It must draw from a generator of its own."""


@dataclass(frozen=True)
class FisherRequest:
    """How to measure the trace of the Fisher information (FUN, Eq. 1 and Algorithm 2).

    Attributes:
        groups: names of the groups to measure.
        batches: how many batches of training data, 40 as in the paper; fewer where the data ends before; None for
            all of them.
        labels: ``sample`` draws y from the model (Eq. 1); ``argmax`` takes its mode (the authors' code); ``true``
            takes the data's labels (the empirical Fisher).
        gradient: ``per_example`` is Eq. 1, the mean over examples of the squared gradient of log p(y|x); ``batch``
            squares the gradient of the batch's mean and divides by the batch size B, as Algorithm 2 does. With
            sampled labels the latter is 1/B**2 of the former in expectation, so that the two rank alike.
        qa: for span extraction, ``sum`` adds log p(start) and log p(end) of an example; ``stack`` takes them for two
            rows, as the code does: twice as many rows of half the information each.
        eval_mode: measure without dropout.
        seed: of the sampled labels, and of dropout where there is any.
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
    """How to measure the size of single elements' gradients: of the mean over batches of log p(y|x), with true labels.

    Attributes:
        groups: names of the groups to measure.
        batches: how many batches of training data; fewer where the data ends before; None for all of them.
        eval_mode: measure without dropout.
        seed: of dropout where there is any.
    """

    groups: tuple[str, ...]
    batches: int | None = None
    eval_mode: bool = True
    seed: int = 0


@dataclass(frozen=True)
class WeightRequest:
    """Single elements by the size of their own value; needs no data.

    Attributes:
        groups: names of the groups to measure.
        rank: None for the values as they are; a number for those of each matrix's best approximation of that rank.
    """

    groups: tuple[str, ...]
    rank: int | None = None


@dataclass(frozen=True)
class SelectionRequest:
    """Which single elements to choose: those with the largest scores.

    Attributes:
        share: how many are chosen, in (0, 1].
        request: what the score of an element is. By its Fisher information that is the mean over batches of its
            squared gradient of the batch's mean log p(y|x): ``gradient`` must be ``batch``.
        within: what the share is of. ``all``: of all groups together, whatever parameter an element is in, and all
            elements that are equal at the threshold. ``parameter``: of each parameter by itself, exactly so many
            (rounded, at least one); of equal elements those that come first.
    """

    share: float
    request: FisherRequest | GradientRequest | WeightRequest
    within: Literal["all", "parameter"] = "all"


@dataclass(frozen=True)
class OutlierRequest:
    """How to measure the share of outliers among weights, each weighted by the inputs that it multiplies.

    Attributes:
        groups: names of the groups to measure.
        batches: how many batches of training data; fewer where the data ends before.
        threshold: a weight is an outlier above so many times the mean of its group.
        seed: of the random states while the model runs.
    """

    groups: tuple[str, ...]
    batches: int = 16
    threshold: float = 13.0
    seed: int = 0


@dataclass(frozen=True)
class SignalRequest:
    """The signal-to-noise ratio of weight matrices, which needs no data.

    Attributes:
        groups: names of the groups to measure; a group has the mean over its matrices.
    """

    groups: tuple[str, ...]


Measurement = FisherRequest | OutlierRequest | SignalRequest
