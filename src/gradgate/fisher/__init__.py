"""The trace of the Fisher information of groups of parameters, measured without a trace on the training."""

from gradgate.fisher.likelihood import log_likelihoods
from gradgate.fisher.measure import trace
from gradgate.fisher.request import QA, Batch, Batches, FisherRequest, Gradient, Labels

__all__ = ["QA", "Batch", "Batches", "FisherRequest", "Gradient", "Labels", "log_likelihoods", "trace"]
