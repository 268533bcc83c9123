"""Describe the metrics by name: title, direction, and whether values are shares or correlations.

The functions are in one module per kind of output, because a kind scores all of its metrics in one pass: ``classes``,
``label_sets``, ``numbers``, ``tags``, ``answers``, ``ranking`` and ``texts``. This module imports none of them, so that
metric names can be checked without numpy or scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import UsageError, nearest


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: the name in task files, run folders and on the command line.
        title: the name in tables, figures and sentences.
        higher_is_better: whether checkpoints with larger values are better.
        bounded: whether values are shares (0 to 1) or correlations (-1 to 1), which reports multiply by 100.
    """

    name: str
    title: str
    higher_is_better: bool = True
    bounded: bool = True


_ALL = (
    Metric("accuracy", "accuracy"),
    Metric("macro_f1", "macro-F1"),
    Metric("micro_f1", "micro-F1"),
    Metric("weighted_f1", "weighted F1"),
    Metric("mean_average_precision", "mean average precision"),
    Metric("f1", "F1"),
    Metric("matthews", "Matthews correlation"),
    Metric("pearson", "Pearson correlation"),
    Metric("spearman", "Spearman correlation"),
    Metric("mse", "mean squared error", higher_is_better=False, bounded=False),
    Metric("entity_f1", "entity F1"),
    Metric("entity_precision", "entity precision"),
    Metric("entity_recall", "entity recall"),
    Metric("exact_match", "exact match"),
    Metric("ndcg", "NDCG"),
    Metric("ndcg@1", "NDCG@1"),
    Metric("ndcg@5", "NDCG@5"),
    Metric("ndcg@10", "NDCG@10"),
    Metric("xglue_ndcg", "NDCG by predicted grade"),
    Metric("loss", "loss", higher_is_better=False, bounded=False),
    Metric("perplexity", "perplexity", higher_is_better=False, bounded=False),
    Metric("kl", "KL divergence", higher_is_better=False, bounded=False),
    Metric("rougeL", "ROUGE-L"),
    Metric("chrf", "chrF"),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}

CLASSIFICATION = ("accuracy", "macro_f1", "micro_f1", "weighted_f1", "f1", "matthews")
MULTI_LABEL = ("micro_f1", "macro_f1", "mean_average_precision")
REGRESSION = ("pearson", "spearman", "mse")
ENTITIES = ("entity_f1", "entity_precision", "entity_recall")
TAGS = ("accuracy", "macro_f1", *ENTITIES)
ANSWERS = ("f1", "exact_match")
RANKING = ("ndcg", "ndcg@1", "ndcg@5", "ndcg@10", "xglue_ndcg", "accuracy")
GENERATED = ("exact_match", "rougeL", "chrf")
"""Metrics of generated texts."""
GENERATION = ("loss", "perplexity", *GENERATED)
KL = "kl"
"""Compares a model with the pretrained one, so it measures forgetting, and no kind of task has it."""
FORGETTING = (*GENERATION, KL)
"""Metrics that forgetting can be measured by."""


def metric_of(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        UsageError: an unknown name.
    """
    if name not in METRICS:
        raise UsageError(f"Unknown metric {name!r}.{nearest(name, METRICS)} Expected one of {', '.join(METRICS)}")
    return METRICS[name]


def greater_is_better(name: str) -> bool:
    """Return True if checkpoints with larger values of this metric are better."""
    return metric_of(name).higher_is_better
