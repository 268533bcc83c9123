"""Judge every arm of a study against its reference: one verdict per condition and arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradgate.runs.scores import comparable
from gradgate.statistics import (
    CollapseRate,
    Comparison,
    Verdict,
    collapse_rate,
    collapsed,
    compare_paired,
    compare_unpaired,
    judge,
)
from gradgate.statistics.family import LEVEL
from gradgate.statistics.multibootstrap import RowNoise
from gradgate.statistics.verdicts import Word
from gradgate.study.conditions import condition_folders
from gradgate.study.guessing import guessing_score
from gradgate.study.importing.columns import SEED, SEED_COLUMNS, UNPAIRED
from gradgate.study.results import StudyResults, read_study
from gradgate.tasks.metrics.names import is_bounded
from gradgate.tasks.metrics.page_unit import page_factor, scaled, scaled_interval

POINT = 0.01
"""The margin of shares and correlations if none is passed: one point of 100."""


@dataclass(frozen=True)
class ArmVerdict:
    """The verdict on one arm of one condition.

    Attributes:
        condition: its name, which has the task, model and training size that differ; empty if it is the only one.
        model, task, metric, split: of the condition; the split is the one that arms are compared on.
        train_size: the rows that its runs trained on; None for all rows.
        arm, reference: names.
        verdict: with all runs.
        collapsed: of the arm's runs; ``reference_collapsed`` of the reference's.
        without_collapsed: the verdict over the other runs; None if none collapsed.
        factor: what scores are multiplied by on a page: 100 for shares.
        rows: the noise of seeds and test rows together; None if it was not computed or is unknown.
        rows_note: why it is unknown.
    """

    condition: str
    model: str
    task: str
    metric: str
    split: str
    train_size: int | None
    arm: str
    reference: str
    verdict: Verdict
    collapsed: CollapseRate
    reference_collapsed: CollapseRate
    without_collapsed: Verdict | None
    factor: int
    rows: RowNoise | None = None
    rows_note: str | None = None

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts, scores in the unit of the page."""
        verdict, versus, factor = self.verdict, self.verdict.comparison, self.factor
        return {
            "model": self.model,
            "task": self.task,
            "metric": self.metric,
            "split": self.split,
            "train_size": self.train_size,
            "arm": self.arm,
            "reference": self.reference,
            "pairs": versus.n,
            "difference": scaled(versus.difference, factor),
            "interval": scaled_interval(versus.interval, factor),
            "p": versus.p,
            "p_corrected": verdict.p_corrected,
            "interval_corrected": scaled_interval(verdict.interval_corrected, factor),
            "family": verdict.family,
            "wilcoxon_p": versus.wilcoxon_p,
            "hedges_g": versus.hedges_g,
            "word": verdict.word.value,
            "margin": scaled(verdict.margin, factor),
            "non_inferior": verdict.non_inferior,
            "collapsed": [self.collapsed.collapsed, self.reference_collapsed.collapsed],
            "word_without_collapsed": None if self.without_collapsed is None else self.without_collapsed.word.value,
            "seeds_needed": verdict.pairs_needed,
            "rows": self._rows(),
            "rows_note": self.rows_note,
        }

    def _rows(self) -> dict[str, Any] | None:
        if self.rows is None:
            return None
        return asdict(self.rows) | {
            "interval": scaled_interval(self.rows.interval, self.factor),
            "interval_t": scaled_interval(self.rows.interval_t, self.factor),
            "error": scaled(self.rows.error, self.factor),
        }


def study_verdicts(folder: Path, margin: float | None = None) -> list[ArmVerdict]:
    """Judge every arm of each task, model and training size of a study against its reference.

    Args:
        folder: of the study.
        margin: a difference that does not matter, in the unit of the page: points for shares. By default one point,
            and none for metrics without bounds, such as losses.

    Raises:
        RunError: if the folder holds no study.
    """
    found = [verdict for part in condition_folders(folder) for verdict in verdicts_of(read_study(part), margin)]
    return [verdict for verdict in found if verdict.collapsed.runs]


def verdicts_of(results: StudyResults, margin: float | None = None, reference: str | None = None) -> list[ArmVerdict]:
    """Judge the arms of one condition; those that can be tested form one family.

    Args:
        results: of the condition.
        margin: as for :func:`study_verdicts`.
        reference: the arm that all others are compared with; by default the study's.
    """
    study, split = results.study, results.main_split
    higher, factor = study.task.metric_higher_is_better, page_factor(study.task.metric)
    unit = _margin(margin, factor)
    scores = {name: arm_scores(results, name, split) for name in study.arm_names}
    lost = collapsed_seeds(results, scores, split)
    first = reference or results.reference
    others = [name for name in study.arm_names if name != first]
    pair = pair_of(results)
    whole = judge([_compare(scores[name], scores[first], pair) for name in others], higher, unit)
    kept = {name: {seed: s for seed, s in own.items() if seed not in lost[name]} for name, own in scores.items()}
    without = judge([_compare(kept[name], kept[first], pair) for name in others], higher, unit)
    rates = {name: collapse_rate(len(lost[name]), len(scores[name])) for name in scores}
    return [
        ArmVerdict(
            condition=study.part,
            model=study.model.label,
            task=study.task.name,
            metric=study.task.metric,
            split=split,
            train_size=study.train_size,
            arm=name,
            reference=first,
            verdict=with_all,
            collapsed=rates[name],
            reference_collapsed=rates[first],
            without_collapsed=others_alone if lost[name] or lost[first] else None,
            factor=factor,
        )
        for name, with_all, others_alone in zip(others, whole, without, strict=True)
    ]


def verdicts_against_best(results: StudyResults, best: str, others: Sequence[str]) -> dict[str, Verdict]:
    """Judge arms against the one with the best mean, which the data have picked.

    Each of the ``k`` arms could have been the best, and is then only ever found better. Holm's correction at ``2 / k``
    of the level keeps the chance of one false "worse" among all of them below the level.

    Args:
        results: of one condition, or pooled.
        best: the name of the arm with the best mean.
        others: the arms to judge.

    Returns:
        The verdict on each, which says how it compares to ``best``.
    """
    task = results.study.task
    scores = {name: arm_scores(results, name, results.main_split) for name in (best, *others)}
    comparisons = [_compare(scores[name], scores[best], pair_of(results)) for name in others]
    margin = _margin(None, page_factor(task.metric))
    level = LEVEL * min(1.0, 2 / len(results.study.arm_names))
    return dict(zip(others, judge(comparisons, task.metric_higher_is_better, margin, level), strict=True))


def _margin(margin: float | None, factor: int) -> float | None:
    if margin is not None:
        return margin / factor
    return POINT if factor == 100 else None


def pair_of(results: StudyResults) -> str:
    """Return what makes two runs a pair: ``seed``, another column of an import, or ``none`` if nothing does."""
    imported = results.study.imported
    return SEED if imported is None or imported.pair.lower() in SEED_COLUMNS else imported.pair


def collapsed_seeds(
    results: StudyResults, scores: Mapping[str, Mapping[int, float]], split: str
) -> dict[str, frozenset[int]]:
    """Return the seeds of each arm whose run collapsed; none for metrics without bounds, such as losses.

    Args:
        results: of the condition.
        scores: of each arm, by seed.
        split: of the scores.
    """
    task = results.study.task
    if not is_bounded(task.metric):
        return dict.fromkeys(scores, frozenset())
    guessed = guessing_score(results, split)
    return {name: collapsed(own, task.metric_higher_is_better, guessed) for name, own in scores.items()}


def arm_scores(results: StudyResults, name: str, split: str) -> dict[int, float]:
    """Return the finite scores of an arm on a split, by seed."""
    found = {cell.seed: cell.score(split) for cell in results.of(name) if cell.scores}
    return {seed: score for seed, score in found.items() if comparable(score)}


def _compare(scores: Mapping[int, float], reference: Mapping[int, float], pair: str) -> Comparison:
    if pair != UNPAIRED:
        return compare_paired(scores, reference, unit=pair)
    return compare_unpaired(list(scores.values()), list(reference.values()))


def counted(verdicts: Sequence[ArmVerdict]) -> dict[str, int]:
    """Return each word with the number of verdicts that have it: the most frequent first, then by the order of Word."""
    words = [verdict.verdict.word for verdict in verdicts]
    found = sorted((word for word in Word if word in words), key=lambda word: -words.count(word))
    return {word.value: words.count(word) for word in found}
