"""Draw the gains of each method on the reference, in each language or on each task or model."""

from __future__ import annotations

from math import inf

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradgate.report.drawing import COLOURS, MUTED, PAPER, Drawing, finish, style_of, styled
from gradgate.report.formats import shortened
from gradgate.report.splits import shown_splits, split_name, split_unit
from gradgate.report.study_summary import ArmSummary, Gain, StudySummary
from gradgate.study.results import SIZE


def gains_name(study: StudySummary) -> str:
    """Return the name of table and figure: the unit of their rows, or ``gains`` if another section has that name."""
    unit = split_unit(study)
    return "gains" if unit == SIZE else f"{unit}s"


# They differ in lightness and hatching too.
_POINTS, _SHARE = COLOURS[1], COLOURS[5]
_HATCH = "////"
# More codes, or more letters in all, run into each other.
_UPRIGHT, _ROOM = 11, 44


def draw_gains(study: StudySummary) -> Drawing | None:
    """Draw how far each arm is from the reference on each split, or else their scores; None without a split."""
    splits = [split for split in shown_splits(study) if split not in study.results.averages]
    first, arms = study.reference, study.scored
    # Of the mean scores, so that languages stand in one order in every study of equal scores.
    sign = -1 if study.higher_is_better else 1
    means = {split: study.gain(arms[0], split).score.mean for split in splits}
    splits.sort(key=lambda split: inf if (mean := means[split]) is None else sign * mean)
    others = [m for m in arms if m is not first and any(study.gain(m, s).difference is not None for s in splits)]
    if first in arms and others:
        return _draw_gains(study, splits, others)
    return _draw_scores(study, splits, arms) if splits else None


def _draw_gains(study: StudySummary, splits: list[str], arms: list[ArmSummary]) -> Drawing:
    unit = split_unit(study)
    with styled(0.75 + 1.3 * len(arms)) as figure:
        panels = figure.subplots(len(arms), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, arm in zip(panels, arms, strict=True):
            _draw_panel(axes, study, [study.gain(arm, split) for split in splits])
            axes.set_title(shortened(arm.name, 40), loc="left", pad=3)
        codes = [shortened(study.results.language(split), 16 if study.results.parts else 8) for split in splits]
        upright = len(codes) <= _UPRIGHT and len(codes) * (max(map(len, codes)) + 1) <= _ROOM
        panels[-1].set_xticks(range(len(codes)), codes, rotation=0 if upright else 90)
        _add_legend(figure, study)
        caption = (
            f"Mean differences to {study.reference.name}, {study.pairing.matched}, in points and in percent of its "
            f"score; {unit}s are sorted from its best to its worst."
        )
        table = gains_name(study)
        return finish(figure, table, f"Gains by {unit}", caption, _text(study, splits), table)


def _draw_panel(axes: Axes, study: StudySummary, gains: list[Gain]) -> None:
    points = [None if g.difference is None else g.difference * study.format.factor for g in gains]
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


def _add_legend(figure: Figure, study: StudySummary) -> None:
    label = shortened(study.format.label, 30)
    handles = [
        Patch(facecolor=_POINTS, edgecolor=PAPER, lw=0, label=label),
        Patch(
            facecolor=_SHARE,
            edgecolor=PAPER,
            lw=0,
            hatch=_HATCH,
            label=f"% of {shortened(study.reference.name, 16)}",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, handlelength=1.6, columnspacing=1.2)


def _draw_scores(study: StudySummary, splits: list[str], arms: tuple[ArmSummary, ...]) -> Drawing:
    metric = study.format
    with styled(0.8 + 0.24 * len(splits)) as figure:
        axes = figure.add_subplot()
        for arm in arms:
            style = style_of(study.place(arm))
            means = [study.gain(arm, split).score.mean for split in splits]
            dots = [(mean * metric.factor, -row) for row, mean in enumerate(means) if mean is not None]
            if not dots:
                continue
            axes.plot(*zip(*dots, strict=True), style.marker, color=style.colour, mec=PAPER, ms=6, zorder=3)
        axes.set_yticks(
            [-row for row in range(len(splits))], [shortened(split_name(study, split), 22) for split in splits]
        )
        axes.set_xlabel(shortened(metric.label, 52))
        axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
        unit, table = split_unit(study), gains_name(study)
        caption = f"Means over the seeds, from the best {unit} to the worst."
        return finish(figure, table, f"{unit.capitalize()}s", caption, _text(study, splits), table)


def _text(study: StudySummary, splits: list[str]) -> str:
    metric = study.format
    parts = []
    for arm in study.scored:
        words = []
        for split in splits:
            found = study.gain(arm, split)
            known = arm is not study.reference and found.difference is not None
            against = f" ({metric.difference(found.difference)})" if known else ""
            words.append(f"{split_name(study, split)} {metric.value(found.score.mean)}{against}")
        parts.append(f"{arm.name} {', '.join(words)}")
    return f"{metric.label} by {split_unit(study)}: {'; '.join(parts)}."
