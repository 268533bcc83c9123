"""Say how the numbers of a report are made, for a reader who was not there."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import listed
from gradgate.report.pairing import UNPAIRED
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.report.verdict import untested_parts
from gradgate.runs.records import DEV

_SPREAD = (
    "± is the sample standard deviation over seeds (n − 1). A seed sets the head's initial weights, the order of the "
    "data, dropout and masks. Failed and unfinished runs are left out, not counted as zero."
)
_SPREAD_ELSEWHERE = (
    "± is the sample standard deviation over runs (n − 1). What a seed sets and how checkpoints were chosen "
    "depends on the source."
)
_COSTS = (
    "Time per step is the median over steps and seeds; memory is the highest peak over seeds; both on the "
    "machine that ran the study."
)


@dataclass(frozen=True)
class HowMadeSection(Section):
    """The notes that hold for every number of the study; other sections add those that hold for theirs."""

    @classmethod
    def find(cls, study: StudySummary) -> HowMadeSection:
        """Return the section; every study has it."""
        return cls(study)

    def notes(self) -> list[str]:
        """Describe checkpoints, comparison, spread, tests and costs."""
        if self.study.record.imported is not None:
            return [*_how_compared(self.study), _SPREAD_ELSEWHERE, *_how_tested(self.study)]
        return [
            *_how_chosen(self.study),
            *_how_compared(self.study),
            _SPREAD,
            *_how_tested(self.study),
            _COSTS,
        ]


def _how_chosen(study: StudySummary) -> list[str]:
    extreme = "highest" if study.higher_is_better else "lowest"
    chosen = f"Each run keeps the checkpoint with the {extreme} {study.format.name} on dev"
    divided = study.record.task.split
    notes = [f"One file was split once for all runs; {divided}."] if divided else []
    untested = untested_parts(study)
    if study.split == DEV:
        return [f"{chosen}. There is no test split, so the same dev score also ranks the methods.", *notes]
    if untested:
        where = "" if len(untested) == len(study.results.parts) else f" of {listed(untested)}"
        return [f"{chosen}. If there is no test split, the dev score{where} also ranks the methods.", *notes]
    return [f"{chosen} and scores it once on each test split; nothing is chosen on test.", *notes]


def _how_compared(study: StudySummary) -> list[str]:
    notes = []
    if study.results.parts:
        notes += _how_pooled(study)
    elif study.results.averages:
        notes.append(
            "Methods are compared on the zero-shot average: the unweighted mean over the languages other than "
            f"{study.record.task.source}, in which each run was trained and selected. Distant languages are those "
            "outside the Indo-European family."
        )
    if study.format.factor == 100:
        notes.append("Accuracy, F1 and other shares, and correlations, are shown × 100; losses and errors are not.")
    return notes


def _how_pooled(study: StudySummary) -> list[str]:
    unit = study.results.split_unit
    searched = any(part.study.search for _, part in study.results.parts)
    return [
        f"Methods are compared on the unweighted mean over {unit}s of the score on each {unit}'s main split, for "
        f"seeds that have finished on all of them. Each {unit} has its own page with details.",
        f"Training time is the sum over the {unit}s; time per step, trainable share and bytes stored are means.",
        f"Learning curves, timelines and sweeps are on each {unit}'s page.",
        *([f"Settings were searched separately for each {unit}; its page says what was chosen."] if searched else []),
    ]


def _how_tested(study: StudySummary) -> list[str]:
    if len(study.arms) == 1:
        return []
    how = study.pairing
    wilcoxon = [
        "Wilcoxon's signed-rank test (exact, Holm-corrected among its own kind) does not assume normality; it "
        "leaves out differences of 0. If all differences are equal, t is undefined."
    ]
    return [
        f"Differences to {study.reference.name} are {how.matched}, with a {how.full_test}, "
        "Holm-corrected over the methods. Intervals of the advice, the main table and the figure of differences "
        "are corrected too (Strassburger and Bretz 2008); 95% t-intervals in files and in sentences with p are "
        "not. The test assumes roughly normal differences, which few seeds cannot confirm.",
        "The advice compares the method with the best mean with every other one: with the reference as planned, "
        "with the others at 2/k of the level for k methods, because any of them could have been the best. "
        "Methods that are equivalent within the margin count as equally good, and training time, memory or the "
        "number of trained weights decides among them. Anything else is inconclusive.",
        *(wilcoxon if how is not UNPAIRED else []),
        "Bootstrap intervals (BCa, 9999 resamples) stay within the range of the data and are too narrow with few "
        "seeds.",
        "The best of several methods looks better than it is, because it was picked for its score.",
    ]
