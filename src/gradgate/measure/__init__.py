"""Measure what parameters are worth to a training, without an effect on it.

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
    GradientRequest,
    Labels,
    Measurement,
    OutlierRequest,
    SelectionRequest,
    SignalRequest,
    WeightRequest,
)

__all__ = [
    "QA",
    "Batch",
    "Batches",
    "FisherRequest",
    "Gradient",
    "GradientRequest",
    "Labels",
    "Measurement",
    "OutlierRequest",
    "SelectionRequest",
    "SignalRequest",
    "WeightRequest",
]
