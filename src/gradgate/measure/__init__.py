"""Measure what parameters are worth to a training, without affecting it.

Methods request measurements with the plain data of :mod:`gradgate.measure.request`. The other modules measure, and need
torch: the Fisher information of groups or of single weights, outliers among weights, and the signal-to-noise ratio of
matrices.
"""

from gradgate.measure.request import (
    QA,
    Batch,
    Batches,
    FisherRequest,
    Gradient,
    Labels,
    Measurement,
    OutlierRequest,
    Request,
    ScoreRequest,
    SelectionRequest,
    SignalRequest,
    WatchRequest,
)

__all__ = [
    "QA",
    "Batch",
    "Batches",
    "FisherRequest",
    "Gradient",
    "Labels",
    "Measurement",
    "OutlierRequest",
    "Request",
    "ScoreRequest",
    "SelectionRequest",
    "SignalRequest",
    "WatchRequest",
]
