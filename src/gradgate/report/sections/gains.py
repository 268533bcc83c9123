"""A study of several languages, tasks or models: each method's score on each, averages, gains on the reference."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradgate.report.drawing import COLOURS, MUTED, PAPER, Drawing, finish, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE, ScoreFormat, shortened
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table, ranked, significance, star_note
from gradgate.runs.records import DEV
from gradgate.statistics import Comparison, compare_paired, holm, summarize
from gradgate.study.results import LANGUAGE, SIZE
from gradgate.tasks.languages import ALL, DISTANT, ZERO_SHOT, average_label

_TEST = "two-sided paired t-test over seeds, Holm-corrected over this table"
_FIRST = (ZERO_SHOT, ALL, DISTANT)


@dataclass(frozen=True)
class Gain:
    """A method's score on one split, and its differences to the reference's, paired by seed.

    ``relative`` is the mean difference over the mean score of the reference; None where there is none.
    """

    n: int
    mean: float | None
    sd: float | None
    versus: Comparison
    relative: float | None

    @property
    def difference(self) -> float | None:
        """The mean of the paired differences; None without pairs."""
        return self.versus.difference


@dataclass(frozen=True)
class GainsSection(Section):
    """Scores in each language, or on each task or model."""

    @classmethod
    def find(cls, findings: Findings) -> GainsSection | None:
        """None for a study of one task in one language."""
        return cls(findings) if findings.results.averages else None

    def tables(self) -> list[Table]:
        """One row a language, task or model."""
        return [gain_table(self.findings)]

    def drawings(self) -> list[Drawing]:
        """The gains on the first method."""
        drawing = draw_gains(self.findings) if self.findings.scored else None
        return [drawing] if drawing else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Tasks and models; languages are too many for a terminal."""
        if not self.findings.results.parts:
            return []
        table = gain_table(self.findings)
        return [(table, tuple(column.key for column in table.columns))]


def gain_splits(findings: Findings) -> tuple[str, ...]:
    """The averages that the study has, then its splits by language, the source's first; or by task or model."""
    results = findings.results
    if results.parts:
        return (*results.averages, *results.test_splits)
    source = results.study.task.source
    spoken = [split for split in (DEV, *results.test_splits) if results.language(split) != split]
    # Dev selected the checkpoint; it is shown where the other languages are scored on theirs.
    on_dev = f"{DEV}.{source}" not in spoken and any(name.startswith(f"{DEV}.") for name in spoken)
    shown = [split for split in spoken if split != DEV or on_dev]
    ordered = sorted(shown, key=lambda split: results.language(split) != source)
    return (*(name for name in _FIRST if name in results.averages), *ordered)


def gain_table(findings: Findings) -> Table:
    """One row a language (task, model), the averages first; one column a method, with its gain on the first."""
    unit, metric, first = row_unit(findings).capitalize(), findings.format, findings.reference
    higher = findings.results.study.task.metric_higher_is_better
    splits = gain_splits(findings)
    gains = {(split, method.name): gain(findings, method, split) for split in splits for method in findings.methods}
    compared = [key for key in gains if key[1] != first.name]
    corrected = dict(zip(compared, holm([gains[key].versus.p for key in compared]), strict=True))
    better = f"mean ± standard deviation over seeds (mean of the differences to {first.name}, paired by seed)"
    columns = (
        Column("unit", unit, numeric=False),
        *(
            Column(
                f"method {place}", method.name, "mean ± standard deviation over seeds" if method is first else better
            )
            for place, method in enumerate(findings.methods)
        ),
    )
    return Table(
        table_name(findings),
        f"{unit}s: {metric.label}",
        columns,
        tuple(
            (
                Entry(name(findings, split), name(findings, split)),
                *ranked([_entry(gains[key], metric, corrected.get(key), key[1] == first.name) for key in row], higher),
            )
            for split in splits
            for row in [[(split, method.name) for method in findings.methods]]
        ),
        tuple(
            _record(findings, split, method, gains[split, method.name])
            for method in findings.methods
            for split in splits
        ),
        notes=star_note(list(corrected.values()), _TEST),
    )


def row_unit(findings: Findings) -> str:
    """What a row is."""
    return findings.results.split_unit if findings.results.parts else LANGUAGE


def table_name(findings: Findings) -> str:
    """Of this table and its figure: the unit of their rows, or ``gains`` where another section has that name."""
    unit = row_unit(findings)
    return "gains" if unit == SIZE else f"{unit}s"


def gain(findings: Findings, method: MethodFindings, split: str) -> Gain:
    """What a method scored on a split, over its seeds, against the reference."""
    ours, theirs = (
        {cell.seed: score for cell in m.finished if (score := cell.score(split)) is not None}
        for m in (method, findings.reference)
    )
    summary, versus = summarize(list(ours.values())), compare_paired(ours, theirs)
    base = [theirs[seed] for seed in ours.keys() & theirs.keys()]
    known = versus.difference is not None and sum(base) != 0
    relative = versus.difference * len(base) / sum(base) if known and versus.difference is not None else None
    return Gain(summary.n, summary.mean, summary.sd, versus, relative)


def name(findings: Findings, split: str) -> str:
    """A language's code, or an average's name; the source language says that it is one."""
    language = findings.results.language(split)
    if language == findings.results.study.task.source and language != split:
        return f"{language} ({DEV if split == DEV else 'source'})"
    return average_label(language)


def _entry(gain: Gain, metric: ScoreFormat, p: float | None, is_reference: bool) -> Entry:
    if gain.mean is None:
        return Entry(NONE)
    known = not is_reference and gain.difference is not None
    against = f"({metric.difference(gain.difference)}{significance(p)})" if known else ""
    return Entry(metric.with_spread(gain.mean, gain.sd), gain.mean, against)


def _record(findings: Findings, split: str, method: MethodFindings, gain: Gain) -> dict[str, Raw]:
    results = findings.results
    single = None if split in results.averages else results.language(split)
    return {
        "method": method.name,
        "split": split,
        **({results.split_unit.replace(" ", "_"): single} if results.parts else {"language": single}),
        "metric": findings.format.metric,
        "n": gain.n,
        "mean": gain.mean,
        "sd": gain.sd,
        "reference": findings.reference.name,
        "difference": gain.difference,
        "relative_difference": gain.relative,
        "t": gain.versus.t,
        "p": gain.versus.p,
    }


# Told apart by lightness and hatching too.
_POINTS, _SHARE = COLOURS[1], COLOURS[5]
_HATCH = "////"
# More than so many codes, or letters in all, run into each other.
_UPRIGHT, _ROOM = 11, 44


def draw_gains(findings: Findings) -> Drawing | None:
    """How far each method is from the reference in each language; None where nothing can be said of any."""
    splits = [split for split in gain_splits(findings) if split not in findings.results.averages]
    first, methods = findings.reference, findings.scored
    gains = {(split, m.name): gain(findings, m, split) for split in splits for m in methods}
    # Of the mean scores, so that languages stand in one order in every study of equal scores.
    splits.sort(key=lambda split: -(gains[split, methods[0].name].mean or 0.0))
    others = [m for m in methods if m is not first and any(gains[s, m.name].difference is not None for s in splits)]
    if first in methods and others:
        return _draw_gains(findings, splits, others, gains)
    return _draw_scores(findings, splits, methods, gains) if splits else None


def _draw_gains(
    findings: Findings, splits: list[str], methods: list[MethodFindings], gains: dict[tuple[str, str], Gain]
) -> Drawing:
    unit = row_unit(findings)
    with styled(0.75 + 1.3 * len(methods)) as figure:
        panels = figure.subplots(len(methods), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, method in zip(panels, methods, strict=True):
            _draw_panel(axes, findings, [gains[split, method.name] for split in splits])
            axes.set_title(shortened(method.name, 40), loc="left", pad=3)
        codes = [shortened(findings.results.language(split), 16 if findings.results.parts else 8) for split in splits]
        upright = len(codes) <= _UPRIGHT and len(codes) * (max(map(len, codes)) + 1) <= _ROOM
        panels[-1].set_xticks(range(len(codes)), codes, rotation=0 if upright else 90)
        _add_legend(figure, findings)
        caption = (
            f"Differences to {findings.reference.name}, paired by seed, means over the seeds: in points, and in "
            f"percent of its score. {unit.capitalize()}s from its best to its worst."
        )
        table = table_name(findings)
        return finish(figure, table, f"Gains by {unit}", caption, _text(findings, splits, gains), table)


def _draw_panel(axes: Axes, findings: Findings, gains: list[Gain]) -> None:
    points = [None if g.difference is None else g.difference * findings.format.factor for g in gains]
    shares = [None if g.relative is None else 100 * g.relative for g in gains]
    for values, offset, colour, hatch in ((points, -0.2, _POINTS, ""), (shares, 0.2, _SHARE, _HATCH)):
        bars = [(place + offset, value) for place, value in enumerate(values) if value is not None]
        axes.bar(
            [place for place, _ in bars],
            [value for _, value in bars],
            width=0.38,
            color=colour,
            edgecolor=PAPER,
            lw=0,
            hatch=hatch,
            zorder=2,
        )
    axes.axhline(0, color=MUTED, lw=0.8)
    axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", length=0)
    axes.margins(x=0.02, y=0.12)


def _add_legend(figure: Figure, findings: Findings) -> None:
    label = shortened(findings.format.label, 30)
    handles = [
        Patch(facecolor=_POINTS, edgecolor=PAPER, lw=0, label=label),
        Patch(
            facecolor=_SHARE,
            edgecolor=PAPER,
            lw=0,
            hatch=_HATCH,
            label=f"% of {shortened(findings.reference.name, 16)}",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, handlelength=1.6, columnspacing=1.2)


def _draw_scores(
    findings: Findings, splits: list[str], methods: tuple[MethodFindings, ...], gains: dict[tuple[str, str], Gain]
) -> Drawing:
    metric = findings.format
    with styled(0.8 + 0.24 * len(splits)) as figure:
        axes = figure.add_subplot()
        for method in methods:
            style = look(findings.methods.index(method))
            means = [gains[split, method.name].mean for split in splits]
            dots = [(mean * metric.factor, -row) for row, mean in enumerate(means) if mean is not None]
            if not dots:
                continue
            axes.plot(*zip(*dots, strict=True), style.marker, color=style.colour, mec=PAPER, ms=6, zorder=3)
        axes.set_yticks(
            [-row for row in range(len(splits))], [shortened(name(findings, split), 22) for split in splits]
        )
        axes.set_xlabel(shortened(metric.label, 52))
        axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
        unit, table = row_unit(findings), table_name(findings)
        caption = f"Means over the seeds, from the best {unit} to the worst."
        return finish(figure, table, f"{unit.capitalize()}s", caption, _text(findings, splits, gains), table)


def _text(findings: Findings, splits: list[str], gains: dict[tuple[str, str], Gain]) -> str:
    metric = findings.format
    parts = []
    for method in findings.scored:
        words = []
        for split in splits:
            found = gains[split, method.name]
            known = method is not findings.reference and found.difference is not None
            against = f" ({metric.difference(found.difference)})" if known else ""
            words.append(f"{name(findings, split)} {metric.value(found.mean)}{against}")
        parts.append(f"{method.name} {', '.join(words)}")
    return f"{metric.label} by {row_unit(findings)}: {'; '.join(parts)}."
