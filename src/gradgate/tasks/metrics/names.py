"""Recognise the names of metrics and splits that other programs use."""

from __future__ import annotations

import re

from gradgate.tasks.metrics import METRICS
from gradgate.tasks.types import DEV, SPLIT_WORDS

_LOWER = frozenset(
    {"loss", "nll", "perplexity", "ppl", "mse", "rmse", "mae", "error", "err", "wer", "cer", "ter", "eer", "fid", "bpc",
     "drift", "forgetting"}
)  # fmt: skip
# Of a metric that somebody named. A column of such a name may be something else, as the runtime that Trainer logs is.
_LOWER_IF_NAMED = _LOWER | {
    "logloss", "entropy", "crossentropy", "xent", "bits", "bpb", "bpw", "rmsle", "nrmse", "mape", "smape", "mase",
    "der", "brier", "ece", "fvd", "kid", "lpips", "distance", "divergence", "kl", "regret", "hallucination", "toxicity",
    "latency", "runtime",
}  # fmt: skip
_HIGHER = frozenset(
    {"accuracy", "acc", "f1", "mcc", "matthews", "em", "exact", "match", "precision", "recall", "bleu", "sacrebleu",
     "chrf", "rouge", "rouge1", "rouge2", "rougel", "meteor", "pearson", "pearsonr", "spearman", "spearmanr", "corr",
     "correlation", "kappa", "auc", "auroc", "auprc", "map", "mrr", "ndcg", "top1", "top5", "iou", "dice", "psnr",
     "ssim", "similarity", "score", "r2"}
)  # fmt: skip
# As GLUE and the tables of papers have it; STS-B by Spearman.
_USUAL = (
    "mcc", "matthews_correlation", "accuracy", "acc", "macro_f1", "f1", "exact_match", "em", "spearmanr", "spearman",
    "pearson", "rougel", "bleu", "chrf", "top1", "score",
)  # fmt: skip
_UNBOUNDED = frozenset(
    {"loss", "logloss", "nll", "entropy", "crossentropy", "xent", "perplexity", "ppl", "bits", "bpb", "bpc", "bpw",
     "mse", "rmse", "rmsle", "nrmse", "mae", "mape", "smape", "mase", "error", "brier", "fid", "fvd", "kid", "lpips",
     "distance", "divergence", "kl", "regret", "psnr", "drift", "forgetting", "latency", "runtime", "loglikelihood",
     "reward", "elo"}
)  # fmt: skip
_SPLITS = {**SPLIT_WORDS, "eval": DEV, "evaluation": DEV}
_WORD = re.compile(r"[a-z0-9]+", re.IGNORECASE)
_UNREAD = {"last", "final", "mean", "avg"}


def split_name(text: str) -> str:
    """Return the name of a split as gradgate has it: ``dev`` for ``validation``; others as they are."""
    return _SPLITS.get(text.strip().lower(), text.strip())


def higher_is_better(metric: str) -> bool:
    """Return False for losses, errors and distances."""
    known = METRICS.get(metric)
    return known.higher_is_better if known else not _LOWER_IF_NAMED & set(_words(metric))


def direction_is_known(metric: str) -> bool:
    """Return True if the name of a metric says whether higher scores are better."""
    return metric in METRICS or bool((_LOWER_IF_NAMED | _HIGHER) & set(_words(metric)))


def is_bounded(metric: str) -> bool:
    """Return True for shares and correlations, which pages show × 100; False for losses and errors."""
    known = METRICS.get(metric)
    return known.bounded if known else not _UNBOUNDED & set(_words(metric))


def preference(metric: str) -> int:
    """Return the place of a metric among those that results are usually compared on; losses come last."""
    known = next((at for at, name in enumerate(_USUAL) if name == metric.lower()), None)
    if known is not None:
        return known
    return len(_USUAL) + (0 if higher_is_better(metric) else 1)


def metric_column(column: str) -> tuple[str | None, str] | None:
    """Return the split and the metric that a column is named after; None if it is not a metric.

    ``test_accuracy`` is accuracy on test, ``eval/loss`` loss on dev, ``hans_overall`` nothing that is known.
    """
    words = _words(column)
    splits = [_SPLITS[word] for word in words if word in _SPLITS]
    rest = [word for word in words if word not in _SPLITS and word not in _UNREAD]
    if not (_LOWER | _HIGHER) & set(rest) or {"std", "sd", "stderr", "se", "ci", "again", "initial"} & set(words):
        return None
    return (splits[0] if splits else None), "_".join(rest)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
