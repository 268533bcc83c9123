"""The Fisher information, of groups of parameters or of single weights, measured without a trace on the training."""

from gradgate.fisher.likelihood import log_likelihoods
from gradgate.fisher.request import QA, Batch, Batches, FisherRequest, Gradient, Labels, Selection
from gradgate.fisher.selection import choose, pack, unpack
from gradgate.fisher.trace import trace

__all__ = [
    "QA",
    "Batch",
    "Batches",
    "FisherRequest",
    "Gradient",
    "Labels",
    "Selection",
    "choose",
    "log_likelihoods",
    "pack",
    "trace",
    "unpack",
]
