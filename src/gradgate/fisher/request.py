"""Requests for measurements of the Fisher information: plain data that methods make and the tuner carries out."""

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
class SelectionRequest:
    """Which single elements to choose: those with the largest Fisher information, whatever parameter they are in.

    Attributes:
        share: how many are chosen, over all groups of the request, in (0, 1].
        request: how to measure. An element's information is the mean over batches of its squared gradient of the
            batch's mean log p(y|x): ``gradient`` must be ``batch``.
    """

    share: float
    request: FisherRequest
