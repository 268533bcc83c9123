"""Compute metrics of generated texts with the libraries that define them, imported when a text is scored."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from gradgate.errors import UsageError

_MODULES = {"rouge_score": "rouge-score", "sacrebleu": "sacrebleu"}
PACKAGES = tuple(_MODULES.values())
"""The packages that define the metrics."""


def check_libraries() -> None:
    """Refuse to score texts without the required packages.

    Raises:
        UsageError: naming those that are absent.
    """
    absent = [package for module, package in _MODULES.items() if find_spec(module) is None]
    if absent:
        raise UsageError(
            f"Generated texts are scored by {' and '.join(absent)}, which cannot be imported. Install what generation "
            f"needs with: pip install 'gradgate[llm]'"
        )


def score_texts(predicted: Sequence[str], gold: Sequence[str]) -> dict[str, float]:
    """Compute every metric of generated texts, as a share of one.

    ``exact_match`` is the share of texts that equal their gold text, except for white space around them. ``rougeL`` is
    the mean F1 of rouge-score's ``rougeL`` without stemming, which counts words of ASCII letters and digits alone (Lin
    2004, https://aclanthology.org/W04-1013). ``chrf`` is sacrebleu's corpus chrF2, which counts characters of any
    script (Popović 2015, https://aclanthology.org/W15-3049).

    Args:
        predicted, gold: one text per row.
    """
    check_libraries()
    return {
        "exact_match": _mean([float(mine.strip() == true.strip()) for mine, true in zip(predicted, gold, strict=True)]),
        "rougeL": rouge_l(predicted, gold),
        "chrf": chrf(predicted, gold),
    }


def rouge_l(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Average rouge-score's F1 of ``rougeL`` over rows."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=False)
    return _mean([scorer.score(true, mine)["rougeL"].fmeasure for mine, true in zip(predicted, gold, strict=True)])


def chrf(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Compute sacrebleu's chrF2 of all rows together, divided by 100."""
    import sacrebleu

    return float(sacrebleu.corpus_chrf(list(predicted), [list(gold)]).score) / 100


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / max(1, len(values)))
