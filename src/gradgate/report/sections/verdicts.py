"""What the comparisons of a study allow to say: one verdict per arm, and per task and model if there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gradgate.errors import counted
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, text_column
from gradgate.report.verdict_table import verdict_table
from gradgate.statistics import Word
from gradgate.study.verdicts import ArmVerdict

_WORDS = (Word.BETTER, Word.EQUIVALENT, Word.NON_INFERIOR, Word.INCONCLUSIVE, Word.WORSE)
_HELP = {
    Word.BETTER: "p < 0.05 after Holm's correction over the methods of a task and model",
    Word.EQUIVALENT: "the difference is within the margin on both sides, by two one-sided tests",
    Word.NON_INFERIOR: "worse by less than the margin, one-sided at 95 %",
    Word.INCONCLUSIVE: "no test is significant",
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
        """Whether the section is shown by default: never, as the table is a file only."""
        return False

    def tables(self) -> list[Table]:
        """Return one row per verdict."""
        studies = [part for _, part in self.study.parts] or [self.study]
        return [verdict_table([verdict for study in studies for verdict in study.judged_by_rows])]


@dataclass(frozen=True)
class VerdictSection(Section):
    """The count of each verdict, over several tasks and models."""

    @classmethod
    def find(cls, study: StudySummary) -> VerdictSection | None:
        """Return None if there is nothing to compare."""
        found = cls(study)
        return found if found.verdicts else None

    @cached_property
    def verdicts(self) -> Sequence[ArmVerdict]:
        """The verdicts: of each task, model and training size if there are several."""
        studies = [part for _, part in self.study.parts] or [self.study]
        judged = (arm.judged for study in studies for arm in study.arms)
        return [verdict for verdict in judged if verdict is not None and verdict.collapsed.runs]

    @property
    def on_page(self) -> bool:
        """Whether the section is shown by default: only with several tasks or models."""
        return bool(self.study.parts)

    def tables(self) -> list[Table]:
        """Return the words by arm if there are several conditions."""
        return [_counts(self.study, self._against_reference)] if self.study.parts else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the words by arm."""
        if not self.study.parts:
            return []
        return [
            (_counts(self.study, self._against_reference), ("method", "compared", *(word.value for word in _WORDS)))
        ]

    def answer(self) -> str | None:
        """Return the words of all verdicts if no arm has a score on every task and model."""
        return self._summary if self.study.parts and not self.study.scored else None

    def remarks(self) -> list[str]:
        """Return the words of all verdicts in a study of several tasks or models."""
        return [self._summary] if self.study.parts and self.study.scored else []

    @cached_property
    def _against_reference(self) -> Sequence[ArmVerdict]:
        """The verdicts without those of a task or model that lacks the reference."""
        return [verdict for verdict in self.verdicts if verdict.reference == self.study.reference.name]

    @cached_property
    def _summary(self) -> str:
        words = [verdict.verdict.word for verdict in self._against_reference]
        found = ", ".join(
            f"{words.count(word) or 'none'} {word}" for word in _WORDS if word in words or word is Word.BETTER
        )
        where = counted(len(self.study.parts), self.study.results.split_unit)
        return f"{counted(len(words), 'comparison')} with {self.study.reference.name} over {where}: {found}."

    def notes(self) -> list[str]:
        """Say what the words mean, and what a collapsed run is."""
        margins = {each.verdict.margin for each in self.verdicts} - {None}
        lost = sum(each.collapsed.collapsed for each in self.verdicts)
        how = self.study.pairing
        notes = [
            f"Better and worse: p < 0.05 by a {how.test} over {how.over}, Holm-corrected over the methods of one "
            "task and model; the corrected interval then excludes 0. Not worse (non-inferior) and equivalent: "
            f"one-sided tests at 95 % against a margin{_margin(self.study, margins)}, not corrected. "
            "Inconclusive: none of these; the number of seeds would decide it with 80 % power if the observed "
            "difference and spread are the true ones."
        ]
        others = len(self.verdicts) - len(self._against_reference)
        if others:
            notes.append(
                f"{counted(others, 'comparison')} with another arm, where {self.study.reference.name} has no runs, "
                f"{'is' if others == 1 else 'are'} in the file of verdicts alone."
            )
        if lost:
            notes.append(
                "A run has collapsed if it is more than ten points and five robust standard deviations below the "
                "median of its arm, or no better than calling every row the most frequent class of train. Verdicts "
                "use all runs; the ones without collapsed runs are shown next to them."
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
