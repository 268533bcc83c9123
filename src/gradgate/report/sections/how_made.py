"""How the numbers of a report are made, for a reader who was not there."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.findings import Findings
from gradgate.report.formats import listed
from gradgate.report.sections.base import Section
from gradgate.report.verdict import untested_parts
from gradgate.runs.records import DEV

_SPREAD = (
    "± is the sample standard deviation over seeds (n − 1). A seed sets the head's initial weights, the order of the "
    "data, dropout and masks."
)
_COSTS = (
    "Time per step is the median step, the median over seeds; memory is the highest peak; both hold for the machine "
    "that ran the study.",
    "Failed and unfinished runs are left out of means, not counted as zero.",
)


@dataclass(frozen=True)
class HowMadeSection(Section):
    """What holds for every number of the study; sections add what holds for theirs."""

    @classmethod
    def find(cls, findings: Findings) -> HowMadeSection:
        """Every study has it."""
        return cls(findings)

    def notes(self) -> list[str]:
        """Checkpoints, comparison, spread, tests and costs."""
        return [
            *_how_chosen(self.findings),
            *_how_compared(self.findings),
            _SPREAD,
            *_how_tested(self.findings),
            *_COSTS,
        ]


def _how_chosen(findings: Findings) -> list[str]:
    higher = findings.results.study.task.metric_higher_is_better
    extreme = "highest" if higher else "lowest"
    notes = [f"Each run keeps the checkpoint with the {extreme} {findings.format.name} on dev."]
    if findings.results.study.task.split:
        notes.append(f"The rows of one file were divided once for all runs; {findings.results.study.task.split}.")
    untested = untested_parts(findings)
    if findings.split == DEV:
        return [*notes, "There is no test split; the same dev score also ranks the methods."]
    if untested:
        where = "" if len(untested) == len(findings.results.parts) else f" of {listed(untested)}"
        return [*notes, f"Where there is no test split, the dev score{where} also ranks the methods."]
    return [*notes, "That checkpoint is scored once on each test split; no choice is made on test."]


def _how_compared(findings: Findings) -> list[str]:
    notes = []
    if findings.results.parts:
        notes += _how_pooled(findings)
    elif findings.results.averages:
        notes.append(
            f"Methods are compared on the zero-shot average: the unweighted mean over the languages other than "
            f"{findings.results.study.task.source}, in which each run was trained and its checkpoint selected. Distant "
            f"languages are those outside of the Indo-European family."
        )
    if findings.format.factor == 100:
        notes.append(
            "Shares such as accuracy and F1, and correlations, are shown × 100; losses and errors as they are."
        )
    return notes


def _how_pooled(findings: Findings) -> list[str]:
    unit = findings.results.split_unit
    searched = any(part.study.search for _, part in findings.results.parts)
    return [
        f"Methods are compared on the unweighted mean over {unit}s of what each run scored on the main split of "
        f"its {unit}, for seeds that have finished on all of them. The page of a {unit} has what was measured there.",
        f"Training time is the sum over the {unit}s; time per step, trainable share and bytes stored are means.",
        f"Learning curves, timelines and sweeps are on the page of each {unit}.",
        *([f"Settings were searched for each {unit} by itself; its page says what was chosen."] if searched else []),
    ]


def _how_tested(findings: Findings) -> list[str]:
    if len(findings.methods) == 1:
        return []
    return [
        f"Differences to {findings.reference.name} are paired by seed, with a 95% t-interval of the mean paired "
        "difference and a two-sided paired t-test. Intervals are not corrected; p is, by Holm's method over the "
        "methods compared. The t-test takes paired differences as roughly normal, which few seeds cannot confirm.",
        "Wilcoxon's signed-rank test takes no normality. It is exact, leaves out differences of 0, and is "
        "corrected by Holm's method among its own kind. Where all paired differences are the same, t is not "
        "defined and is not given. Bootstrap intervals (BCa, 9999 resamples) cannot leave the range of what was "
        "seen.",
        "The best of several methods looks better than it is, because it was picked for its score.",
    ]
