"""Test each method on each test split, and over the splits.

A split's pairs are the seeds. The tests over all splits have the splits themselves as pairs, as GradDrop's statistic of
a task has its languages: they share their models, so that these tests speak of these splits alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from scipy import stats

from gradgate.errors import counted
from gradgate.report import formats
from gradgate.report.pairing import UNPAIRED
from gradgate.report.splits import split_name
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.statistics import Comparison, compare_over, holm


@dataclass(frozen=True)
class SplitTests:
    """The tests on one split, or over all of them.

    Attributes:
        unit: what is paired.
        tests: one for each arm but the first.
        p: their p-values after Holm's correction over all splits of the same unit.
    """

    name: str
    unit: str
    tests: tuple[Comparison, ...]
    p: tuple[float | None, ...] = ()

    @property
    def limit(self) -> float | None:
        """|t| from which p < 0.05 before correction, for the fewest degrees of freedom; None without a test."""
        freedom = [test.freedom for test in self.tests if test.freedom is not None]
        return float(stats.t.ppf(0.975, min(freedom))) if freedom else None


def find_split_tests(study: StudySummary) -> list[SplitTests]:
    """Return the tests over all splits, then those on each; none if no test is possible or there is one split."""
    splits, others = study.results.test_splits, study.arms[1:]
    if len(splits) < 2 or not others or not study.scored:
        return []
    unit = study.pairing.unit
    each = [
        SplitTests(split_name(study, split), unit, tuple(study.gain(arm, split).versus for arm in others))
        for split in splits
    ]
    found = [compare_over_splits(study), *_corrected(each)]
    return found if any(line.limit for line in found) else []


def compare_over_splits(study: StudySummary) -> SplitTests:
    """Return the tests that have the test splits as pairs."""
    unit = study.results.split_unit
    first, *others = (_scores_by_split(study, arm) for arm in study.arms)
    tests = tuple(compare_over(unit, own, first) for own in others)
    return _corrected([SplitTests(f"over {unit}s", unit, tests)])[0]


def best_over_parts(study: StudySummary) -> str | None:
    """Say what the tasks or models of a study tell of its best method, each as one pair; None without one."""
    results, reference = study.results, study.reference
    if not results.parts or not study.others or not reference.finished:
        return None
    unit, line = results.split_unit, compare_over_splits(study)
    arm = study.others[0]
    place = study.place(arm) - 1
    test, p = line.tests[place], line.p[place]
    if not test.n:
        return None
    sign = 1 if study.higher_is_better else -1
    ahead = sum(sign * difference > 0 for difference in test.differences)
    ahead_on = f"{arm.name} is ahead of {reference.name} on {ahead} of {counted(test.n, unit)}"
    if test.p is None or p is None:
        return f"{ahead_on}."
    after = (
        f", {formats.p_value(p)} after Holm's correction" if sum(test.p is not None for test in line.tests) > 1 else ""
    )
    return f"{ahead_on}; with {unit}s as pairs, {formats.p_equation(test.p)}{after}."


def _scores_by_split(study: StudySummary, arm: ArmSummary) -> dict[str, Mapping[int, float]]:
    """Return split to seed to score; to the mean of all, as of one seed, if seeds have nothing in common."""
    found = {split: arm.scores(split) for split in study.results.test_splits}
    if study.pairing is not UNPAIRED:
        return dict(found)
    return {split: {0: fmean(scores.values())} for split, scores in found.items() if scores}


def _corrected(lines: list[SplitTests]) -> list[SplitTests]:
    corrected = iter(holm([test.p for line in lines for test in line.tests]))
    return [SplitTests(line.name, line.unit, line.tests, tuple(next(corrected) for _ in line.tests)) for line in lines]
