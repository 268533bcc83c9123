"""What the comparisons of a study allow to say: one verdict per arm, and per task and model if there are several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradgate.report.formats import counted, decimal, p_value
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Raw, Table, text_column
from gradgate.statistics import CollapseRate, Word
from gradgate.study.verdicts import ArmVerdict

NAME = "verdicts"
_WORDS = (Word.BETTER, Word.EQUIVALENT, Word.NON_INFERIOR, Word.INCONCLUSIVE, Word.WORSE)
_HELP = {
    Word.BETTER: "p < 0.05 after Holm's correction over the methods of a task and model",
    Word.EQUIVALENT: "the difference is within the margin on both sides, by two one-sided tests",
    Word.NON_INFERIOR: "worse by less than the margin, one-sided at 95 %",
    Word.INCONCLUSIVE: "no test shows anything",
    Word.WORSE: "p < 0.05 after Holm's correction over the methods of a task and model",
}


@dataclass(frozen=True)
class EveryVerdictSection(Section):
    """Every verdict with its numbers, as a file: a study of many tasks and models has hundreds."""

    @classmethod
    def find(cls, study: StudySummary) -> EveryVerdictSection | None:
        """Return None if there is nothing to compare."""
        return cls(study) if VerdictSection.find(study) is not None else None

    @property
    def on_page(self) -> bool:
        """As a file only."""
        return False

    def tables(self) -> list[Table]:
        """Return one row per verdict."""
        return [_every(self.study, VerdictSection(self.study).verdicts)]


@dataclass(frozen=True)
class VerdictSection(Section):
    """How often each verdict was reached, over several tasks and models."""

    @classmethod
    def find(cls, study: StudySummary) -> VerdictSection | None:
        """Return None if there is nothing to compare."""
        found = cls(study)
        return found if any(verdict.collapsed.runs for verdict in found.verdicts) else None

    @cached_property
    def verdicts(self) -> Sequence[ArmVerdict]:
        """The verdicts: of each task, model and training size if there are several."""
        studies = [part for _, part in self.study.parts] or [self.study]
        return [arm.judged for study in studies for arm in study.arms if arm.judged is not None]

    @property
    def on_page(self) -> bool:
        """With several tasks or models; the main table has those of one."""
        return bool(self.study.parts)

    def tables(self) -> list[Table]:
        """Return the words by arm if there are several conditions."""
        return [_counts(self.study, self.verdicts)] if self.study.parts else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the words by arm."""
        if not self.study.parts:
            return []
        return [(_counts(self.study, self.verdicts), ("method", "compared", *(word.value for word in _WORDS)))]

    def answer(self) -> str | None:
        """Return the words of all verdicts if no arm has a score on every task and model."""
        return self._summary if self.study.parts and not self.study.scored else None

    def remarks(self) -> list[str]:
        """Return the words of all verdicts in a study of several tasks or models."""
        return [self._summary] if self.study.parts and self.study.scored else []

    @cached_property
    def _summary(self) -> str:
        words = [verdict.verdict.word for verdict in self.verdicts]
        found = ", ".join(
            f"{words.count(word) or 'none'} {word}" for word in _WORDS if word in words or word is Word.BETTER
        )
        where = counted(len(self.study.parts), self.study.results.split_unit)
        return f"{counted(len(words), 'comparison')} with {self.study.reference.name} over {where}: {found}."

    def notes(self) -> list[str]:
        """Say what the words mean, and what a collapsed run is."""
        margins = {each.verdict.margin for each in self.verdicts} - {None}
        lost = sum(each.collapsed.collapsed for each in self.verdicts)
        notes = [
            "Better and worse: p < 0.05 by a paired t-test over seeds, Holm-corrected over the methods of one task and "
            "model; the corrected interval then excludes 0. Not worse, and equivalent: tests against a margin"
            f"{_margin(self.study, margins)}, one-sided at 95 %, not corrected. Inconclusive: none of these; the seeds "
            "needed would decide it with 80 % power if the observed difference and spread are the true ones."
        ]
        if lost:
            notes.append(
                "A run has collapsed if it is more than ten points and five robust standard deviations below the "
                "median of its arm. Verdicts are with all runs; those without the collapsed ones stand beside them."
            )
        return notes


def _margin(study: StudySummary, margins: set[float | None]) -> str:
    known = [margin for margin in margins if margin is not None]
    if len(known) != 1:
        return ""
    return f" of {known[0] * study.format.factor:g}" + (" points" if study.format.factor == 100 else "")


def _counts(study: StudySummary, verdicts: Sequence[ArmVerdict]) -> Table:
    """Return one row per arm: the conditions that it was compared in, and how often each word."""
    words: dict[str, list[Word]] = {}
    for each in verdicts:
        words.setdefault(each.arm, []).append(each.verdict.word)
    columns = (
        text_column("method", "Method", of=lambda arm: arm),
        Column(
            "compared",
            f"{study.results.split_unit.capitalize()}s",
            f"that both it and {study.reference.name} have",
            show=lambda arm: Entry(str(len(words[arm])), len(words[arm])),
            raw=lambda arm: len(words[arm]),
        ),
        *(_count_column(word, words) for word in _WORDS),
    )
    return Table.of("verdict_counts", f"Verdicts against {study.reference.name}", list(words), columns)


def _count_column(word: Word, words: dict[str, list[Word]]) -> Column[str]:
    return Column(
        word.value,
        word.value.capitalize(),
        _HELP[word],
        show=lambda arm: Entry(str(words[arm].count(word)), words[arm].count(word)),
        raw=lambda arm: words[arm].count(word),
    )


def _every(study: StudySummary, verdicts: Sequence[ArmVerdict]) -> Table:
    """Return one row per verdict."""
    unit = study.format.label
    columns: tuple[Column[ArmVerdict], ...] = (
        text_column("model", "Model", of=lambda each: each.model),
        text_column("task", "Task", of=lambda each: each.task),
        text_column("method", "Method", of=lambda each: each.arm),
        Column("reference", raw=lambda each: each.reference),
        Column("metric", raw=lambda each: each.metric),
        Column("split", raw=lambda each: each.split),
        Column("pairs", "Pairs", "common seeds", show=lambda each: str(each.verdict.comparison.n), raw=_pairs),
        Column("difference", f"Difference, {unit}", "mean over pairs", show=_difference, raw=_of("difference")),
        Column("p", raw=_of("p")),
        Column("p_corrected", "p (Holm)", "corrected over the methods", show=_p, raw=_of("p_corrected")),
        Column("family", raw=_of("family")),
        Column("margin", raw=_of("margin")),
        text_column("word", "Verdict", "what may be said", of=lambda each: each.verdict.word.value),
        Column("collapsed", "Collapsed", "of its runs [Wilson's 95% interval]", show=_lost, raw=_lost_share),
        Column("seeds_needed", "Seeds needed", "to decide", show=_needed, raw=_of("seeds_needed")),
    )
    return Table.of(NAME, f"Every verdict against {study.reference.name}", list(verdicts), columns)


def _of(key: str) -> Callable[[ArmVerdict], Raw]:
    """Return a function that reads a value of a verdict's record."""

    def read(each: ArmVerdict) -> Raw:
        value: Raw = each.record()[key]
        return value

    return read


def _pairs(each: ArmVerdict) -> int:
    return each.verdict.comparison.n


def _difference(each: ArmVerdict) -> Entry:
    versus = each.verdict.comparison
    if versus.difference is None:
        return Entry("–")
    interval = each.verdict.interval_corrected
    ends = "" if interval is None else f"[{' to '.join(f'{end * each.factor:+.2f}' for end in interval)}]"
    return Entry(f"{versus.difference * each.factor:+.2f}", versus.difference, ends)


def _p(each: ArmVerdict) -> Entry:
    return Entry(p_value(each.verdict.p_corrected), each.verdict.p_corrected)


def _lost(each: ArmVerdict) -> Entry:
    rate: CollapseRate = each.collapsed
    if not rate.collapsed:
        return Entry("0", 0.0)
    low, high = rate.interval
    without = "" if each.without_collapsed is None else f"; without: {each.without_collapsed.word}"
    return Entry(f"{rate.collapsed} of {rate.runs}", _lost_share(each), f"[{decimal(low)} to {decimal(high)}]{without}")


def _lost_share(each: ArmVerdict) -> float:
    return each.collapsed.collapsed / each.collapsed.runs if each.collapsed.runs else 0.0


def _needed(each: ArmVerdict) -> Entry:
    needed = each.verdict.pairs_needed
    return Entry("–" if needed is None else f"{needed:,}", needed)
