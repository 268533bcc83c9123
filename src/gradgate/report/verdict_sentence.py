"""Say one verdict in a sentence that claims no more than its data."""

from __future__ import annotations

from gradgate.errors import counted
from gradgate.report.formats import ScoreFormat, p_equation
from gradgate.statistics import Verdict, Word
from gradgate.study.verdicts import ArmVerdict


def allowed(verdict: Verdict, reference: str, factor: int) -> str:
    """Return what a verdict allows to say of an arm, such as ``better than full``.

    Args:
        verdict: on the arm.
        reference: the arm that it was compared with.
        factor: what scores are multiplied by on a page.
    """
    within = "" if verdict.margin is None else margin_words(verdict.margin, factor)
    if verdict.word is Word.INCONCLUSIVE:
        pairs = f"{verdict.pairs_needed or 0:,} {verdict.comparison.unit}s"
        needed = f"; about {pairs} would decide" if verdict.pairs_needed else ""
        return f"inconclusive{needed}"
    return {
        Word.BETTER: f"better than {reference}",
        Word.WORSE: f"worse than {reference}",
        Word.EQUIVALENT: f"equivalent to {reference} within {within}",
        Word.NON_INFERIOR: f"not worse than {reference} by more than {within}",
    }[verdict.word]


def margin_words(margin: float, factor: int) -> str:
    """Return a margin in the unit of the page: ``1 point`` of a share, else the number alone."""
    shown = f"{margin * factor:g}"
    return shown if factor != 100 else f"{shown} point" if shown == "1" else f"{shown} points"


def sentence(each: ArmVerdict) -> str:
    """Return the difference of an arm to the reference, its evidence, what that allows to say, and its limits."""
    word = allowed(each.verdict, each.reference, each.factor)
    parts = [f"{each.arm} against {each.reference}: {_evidence(each)}{word}."]
    lost, theirs = each.collapsed, each.reference_collapsed
    if each.without_collapsed is not None:
        nothing = each.without_collapsed.comparison.difference is None
        without = (
            allowed(each.without_collapsed, each.reference, each.factor) if not nothing else "no comparison is left"
        )
        parts.append(
            f"{lost.collapsed} of {lost.runs} runs of {each.arm} and {theirs.collapsed} of {theirs.runs} of "
            f"{each.reference} collapsed; without them: {without}."
        )
    if each.rows is not None and each.rows_note is not None:
        parts.append(each.rows_note)
    return " ".join(parts)


def _evidence(each: ArmVerdict) -> str:
    """Return the difference with its interval and p, or why there is none."""
    verdict, versus = each.verdict, each.verdict.comparison
    shown = ScoreFormat.fitting(each.metric, [versus.difference])
    if versus.difference is None:
        return f"{versus.note}; "
    by = f"{shown.difference(versus.difference)} {'points of ' if each.factor == 100 else ''}{shown.name}"
    if verdict.p_corrected is None:
        return f"{by} ({versus.note}); "
    runs = f"{each.collapsed.runs} and {each.reference_collapsed.runs} unpaired runs"
    pairs = runs if versus.unit == "run" else counted(versus.n, "pair")
    interval, p = tested(verdict, shown)
    return f"{by} ({interval}, {pairs}, {p}): "


def tested(verdict: Verdict, shown: ScoreFormat) -> tuple[str, str]:
    """Return the interval of a tested difference and its p, both corrected for the tests of its family."""
    assert verdict.p_corrected is not None, "only a tested difference has them"
    many = verdict.family > 1
    corrected = f" after Holm's correction for {verdict.family} tests" if many else ""
    interval = f"{'corrected ' if many else ''}95% CI {shown.interval(verdict.interval_corrected)}"
    return interval, f"{p_equation(verdict.p_corrected)}{corrected}"
