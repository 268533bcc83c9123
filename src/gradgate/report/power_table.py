"""The table of the seeds that comparisons need: one row per arm, task and model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradgate.report.formats import NONE, ScoreFormat, said_once
from gradgate.report.table import Column, Entry, Table, text_column
from gradgate.report.verdict_table import WHERE, size_column
from gradgate.study.power import ArmPower

TERMINAL = ("method", "pairs", "detectable", "seeds_margin", "seeds_non_inferior", "seeds_equivalent",
            "seeds_difference", "sd", "difference")  # fmt: skip
_MOST_NOTES = 8


def power_table(found: Sequence[ArmPower]) -> Table:
    """Return one row per comparison. A model, task or training size that all rows share is exported and not shown."""
    columns: tuple[Column[ArmPower], ...] = (
        text_column("model", "Model", of=lambda each: each.verdict.model),
        text_column("task", "Task", of=lambda each: each.verdict.task),
        size_column(lambda each: each.verdict),
        text_column("method", "Method", of=lambda each: each.verdict.arm),
        Column("reference", raw=lambda each: each.verdict.reference),
        Column("pairs", "Pairs", "common seeds", show=lambda each: str(each.pairs), raw=lambda each: each.pairs),
        _score("difference", "Difference", "mean over pairs", lambda each: each.comparison.difference, signed=True),
        _score("sd", "Spread", "standard deviation of the differences", lambda each: each.comparison.sd),
        _score("detectable", "Found now", "smallest that has 80 % power", lambda each: each.detectable),
        _seeds("seeds_difference", "Seeds for it", "to detect the observed difference", lambda each: each.difference),
        Column(
            "seeds_margin",
            "Seeds for margin",
            "to detect a difference as large as the margin [for the ends of the spread's 95 % interval]",
            show=_margin,
            raw=lambda each: each.seeds.margin,
        ),
        _seeds("seeds_non_inferior", "Non-inferior", "to show it", lambda each: each.non_inferior),
        _seeds("seeds_equivalent", "Equivalent", "to show it", lambda each: each.equivalent),
        Column("level", raw=lambda each: each.level),
        Column("margin", raw=lambda each: each.verdict.verdict.margin),
        Column("note", raw=lambda each: each.note),
    )
    same = {name for name in WHERE if len({getattr(each.verdict, name) for each in found}) == 1}
    references = dict.fromkeys(each.verdict.reference for each in found)
    title = f"Seeds for 80 % power against {', '.join(references)}"
    return Table.of("power", title, list(found), columns, hidden=same)


def notes_of(found: Sequence[ArmPower]) -> list[str]:
    """Say what the numbers mean, and what single rows lack; equal sentences stand once, with their rows."""
    if not found:
        return ["No comparison is possible yet."]
    notes = said_once((each.verdict.arm, each.note) for each in found)
    more = [f"--json has {len(notes) - _MOST_NOTES} more notes."] if len(notes) > _MOST_NOTES else []
    return [_levels(found), _margins(found), *notes[:_MOST_NOTES], *more]


def _levels(found: Sequence[ArmPower]) -> str:
    families = sorted({max(each.verdict.verdict.family, 1) for each in found})
    several = f"{families[0]} to {families[-1]}" if len(families) > 1 else str(families[0])
    over = "" if families == [1] else f" (the first step of Holm's correction for {several} tests)"
    return (
        f"Differences are detected at p < 0.05{over}; 'Found now' is the smallest difference that the existing pairs "
        f"would detect."
    )


def _margins(found: Sequence[ArmPower]) -> str:
    known = {each.verdict.verdict.margin: each.verdict.factor for each in found if each.verdict.verdict.margin}
    if not known:
        return "There is no margin: no size says which differences matter. Set --margin, in the unit of the scores."
    words = ", ".join(f"{margin * factor:g}" for margin, factor in known.items() if margin)
    return f"Non-inferior and equivalent: tested at 5 %, one-sided, assuming a true difference of 0; margin: {words}."


def _score(
    key: str, title: str, about: str, of: Callable[[ArmPower], float | None], *, signed: bool = False
) -> Column[ArmPower]:
    def show(each: ArmPower) -> Entry:
        value = of(each)
        metric = ScoreFormat.fitting(each.verdict.metric, [value])
        return Entry(metric.difference(value) if signed else metric.value(value), value)

    return Column(key, title, about, show=show, raw=of)


def _seeds(key: str, title: str, about: str, of: Callable[..., int | None]) -> Column[ArmPower]:
    return Column(key, title, about, show=lambda each: _count(of(each.seeds)), raw=lambda each: of(each.seeds))


def _margin(each: ArmPower) -> Entry:
    ends, needed = each.margin_interval, _count(each.seeds.margin)
    if ends is None or each.seeds.margin is None:
        return needed
    low, high = (_text(end) for end in ends)
    return Entry(needed.text, needed.value, f"[{low} to {high}]")


def _count(seeds: int | None) -> Entry:
    return Entry(_text(seeds) if seeds is not None else NONE, seeds)


def _text(seeds: int | None) -> str:
    return "a million" if seeds is None else f"{seeds:,}"
