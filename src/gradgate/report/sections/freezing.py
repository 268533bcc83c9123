"""What freezing ever more layers costs and saves: the curve of "What would Elsa do?", from any study that has it.

Lee et al. 2019, Sec. 3 and 4: https://arxiv.org/abs/1911.03090
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes

from gradgate.analysis.sharing import Sizes, saved_share
from gradgate.errors import UsageError
from gradgate.report import formats
from gradgate.report.drawing import COLOURS, INK, MUTED, PAPER, Drawing, finish, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.sections.base import Section
from gradgate.report.sections.freezing_curve import ENOUGH, FreezeCurve, FreezePoint, find_curve
from gradgate.report.table import Column, Entry, Raw, Table


@dataclass(frozen=True)
class FreezingSection(Section):
    """Quality kept and parameters saved by frozen layers."""

    curve: FreezeCurve

    @classmethod
    def find(cls, findings: Findings) -> FreezingSection | None:
        """None for a study without a curve."""
        curve = find_curve(findings)
        return cls(findings, curve) if curve else None

    def tables(self) -> list[Table]:
        """One row a number of frozen layers."""
        return [freeze_table(self.curve)]

    def drawings(self) -> list[Drawing]:
        """The curve, where it is defined."""
        drawing = draw_freezing(self.curve)
        return [drawing] if drawing else []

    def remarks(self) -> list[str]:
        """How few tuned layers suffice."""
        return [answer(self.curve)]

    def notes(self) -> list[str]:
        """How relative quality and savings are defined."""
        return notes(self.curve)


def answer(curve: FreezeCurve) -> str:
    """How few tuned layers suffice, in one sentence, or why that cannot be said."""
    full, metric = curve.full, curve.findings.format
    measured = [point for point in curve.points if point.quality is not None]
    if not measured:
        return f"Relative quality cannot be given: {_why_undefined(curve)}."
    what = f"{full.name}'s {metric.name} on {curve.findings.split_label}"
    best = curve.fewest_tuned
    if best is None:
        nearest = max(measured, key=lambda point: point.quality or 0.0)
        return (
            f"No measured point keeps {ENOUGH} of {what}; the nearest, {nearest.method.name}, keeps "
            f"{formats.quality(nearest.quality)}."
        )
    tuned = formats.counted(curve.layers - best.frozen, "layer") if best.frozen < curve.layers else "the head alone"
    short = [point.method.name for point in measured if point.frozen < best.frozen and not point.enough]
    although = f", although {formats.listed(short)} {'keeps' if len(short) == 1 else 'keep'} less" if short else ""
    return (
        f"Tuning {tuned}{f' of {curve.layers}' if best.frozen < curve.layers else ''} is enough to keep {ENOUGH} of "
        f"{what}: {best.method.name} keeps {formats.quality(best.quality)} "
        f"({formats.counted(len(best.ratios), 'seed')}){although}."
    )


def _why_undefined(curve: FreezeCurve) -> str:
    mean = curve.full.score.mean
    if mean is not None and mean <= 0:
        return (
            f"{curve.full.name} scored {curve.findings.format.value(mean)} on {curve.findings.split_label}, and a "
            f"share of a score has a meaning only above 0"
        )
    return f"no point has finished a seed that {curve.full.name} has finished too, with scores above 0"


def notes(curve: FreezeCurve) -> list[str]:
    """How the numbers come about, for a reader who was not there."""
    full = curve.full.name
    higher = curve.findings.results.study.task.metric_higher_is_better
    share = f"its mean score over that of {full}" if higher else f"the mean score of {full} over its own"
    units = len(curve.findings.units)
    if units > 1:
        share = f"the mean of {units} ratios, each {share} on one {curve.findings.results.split_unit}"
    return [
        f"The relative quality of a point is {share}, over the seeds that both finished (Lee et al. 2019). It does not "
        "allow for the score that guessing would reach, and says little where a score is near 0.",
        "Saved parameters: K tasks keep one copy of the frozen part (embeddings E and N layers) and K copies of the "
        "rest, which saves (K − 1)(E + N layers) / (K × all) of the parameters of K models. Tied weights count once.",
        *_note_on_files(curve),
    ]


def _note_on_files(curve: FreezeCurve) -> list[str]:
    if not any(point.method.cost.files for point in curve.points):
        return []
    return [
        f"Files are those on disk: of {TASKS} tasks the weights of the pretrained model once, if the runs have stored "
        f"deltas to it, and {TASKS} times what the largest run of the row has stored; against {TASKS} whole models. "
        f"A run stores its whole model where a delta is at least half as large."
    ]


TASKS = 8
"""Tasks that share the frozen layers in the table; the paper's own number for its base models."""


def freeze_table(curve: FreezeCurve) -> Table:
    """Full fine-tuning, then one row for each number of frozen layers."""
    metric, split = curve.findings.format, curve.findings.split_label
    paper = _paper_sizes(curve)
    each = f", the mean over {curve.findings.results.split_unit}s" if len(curve.findings.units) > 1 else ""
    over = "score over that of full" if _higher(curve) else "score of full over its own, as lower is better"
    columns = [
        Column("method", "Method", numeric=False),
        Column("frozen", "Frozen layers", "from the bottom; the embeddings are frozen with them"),
        Column("score", f"{metric.label}, {split}", "mean ± standard deviation over seeds"),
        Column(
            "quality",
            "Relative quality",
            f"{over}, of means over common seeds{each}; ± is the standard deviation over seeds; the bold row "
            f"has the fewest tuned layers that keep {ENOUGH}",
        ),
        Column("trained", "Parameters trained", "open at any step"),
        Column("saved", f"Saved, {TASKS} tasks", "of all parameters, when tasks share the frozen part of this model"),
        Column("limit", "Saved, many tasks", "the limit of the same for ever more tasks"),
    ]
    if any(method.cost.files for method in (curve.full, *(point.method for point in curve.points))):
        columns.append(
            Column("files", f"Files, {TASKS} tasks", "on disk: the base once and what the runs stored, of whole models")
        )
    if paper:
        columns.append(
            Column("paper", f"Saved, {TASKS} tasks (paper's sizes)", "with the sizes of Lee et al. 2019, Table 1")
        )
    rows = [_row(curve, curve.full, None, paper), *(_row(curve, p.method, p, paper) for p in curve.points)]
    records = [_record(curve, curve.full, None, paper), *(_record(curve, p.method, p, paper) for p in curve.points)]
    best = curve.fewest_tuned
    return Table(
        "freezing",
        "Frozen layers: quality kept, parameters saved",
        tuple(columns),
        tuple(tuple(row[column.key] for column in columns) for row in rows),
        tuple(records),
        frozenset({1 + curve.points.index(best)} if best else ()),
    )


def _row(
    curve: FreezeCurve, method: MethodFindings, point: FreezePoint | None, paper: Sizes | None
) -> dict[str, Entry]:
    metric, trained = curve.findings.format, method.cost.parameters_trained
    quality, spread = (point.quality, point.spread) if point else (None, None)
    row = {
        "method": Entry(method.name, method.name),
        "frozen": Entry(f"{point.frozen} of {curve.layers}", point.frozen) if point else Entry("none", -1),
        "score": Entry(metric.with_spread(method.score.mean, method.score.sd), method.score.mean),
        "quality": Entry(formats.quality(quality, spread), quality) if point else Entry("reference", 1.0),
        "trained": Entry(formats.count(trained), trained),
    }
    for key, sizes, tasks in (("saved", None, TASKS), ("limit", None, None), ("paper", paper, TASKS)):
        share = _saved(sizes or curve.sizes("model"), point, tasks)
        row[key] = Entry(formats.share(share), share)
    files = method.cost.files
    row["files"] = (
        Entry(f"{formats.size(files.of_tasks(TASKS))} of {formats.size(TASKS * files.whole)}", files.of_tasks(TASKS))
        if files
        else Entry("not kept", None)
    )
    return row


def _record(
    curve: FreezeCurve, method: MethodFindings, point: FreezePoint | None, paper: Sizes | None
) -> dict[str, Raw]:
    sizes, files = curve.sizes("model"), method.cost.files
    return {
        "method": method.name,
        "layers": curve.layers,
        "frozen_layers": point.frozen if point else None,
        "tuned_layers": curve.layers - (point.frozen if point else 0),
        "finished": method.score.n,
        "split": curve.findings.split,
        "metric": curve.findings.format.metric,
        "mean": method.score.mean,
        "sd": method.score.sd,
        "reference": curve.full.name,
        "common_seeds": len(point.ratios) if point else None,
        "relative_quality": point.quality if point else None,
        "relative_quality_sd": point.spread if point else None,
        "enough": int(point.enough) if point and point.quality is not None else None,
        "parameters_trained": method.cost.parameters_trained,
        f"saved_{TASKS}_tasks_model": _saved(sizes, point, TASKS),
        "saved_limit_model": _saved(sizes, point, None),
        "file_bytes_base": files.base if files else None,
        "file_bytes_task": files.stored if files else None,
        "file_bytes_whole_model": files.whole if files else None,
        f"saved_{TASKS}_tasks_files": files.saved(TASKS) if files else None,
        f"saved_{TASKS}_tasks_paper": _saved(paper, point, TASKS) if paper else None,
        "saved_limit_paper": _saved(paper, point, None) if paper else None,
    }


def _saved(sizes: Sizes, point: FreezePoint | None, tasks: int | None) -> float:
    """Nothing is shared where nothing is frozen."""
    return saved_share(sizes, point.frozen, tasks) if point else 0.0


def _paper_sizes(curve: FreezeCurve) -> Sizes | None:
    """None for a model that has not as many layers as one of the paper's."""
    try:
        return curve.sizes("paper")
    except UsageError:
        return None


def _higher(curve: FreezeCurve) -> bool:
    return curve.findings.results.study.task.metric_higher_is_better


_COLOUR = COLOURS[1]
# More ticks than this run into each other at the width of the figures.
_TICKS = 13


def draw_freezing(curve: FreezeCurve) -> Drawing | None:
    """Frozen layers to the right, relative quality upwards; None where that is undefined."""
    points = [(point, point.quality) for point in curve.points if point.quality is not None]
    if not points:
        return None
    places = [point.frozen for point, _ in points]
    start = -1 if places[0] == 0 else 0  # of full, where no layer is frozen and no embedding either
    with styled(3.1) as figure:
        axes = figure.add_subplot()
        axes.axhline(1, color=MUTED, lw=0.8, zorder=0)
        axes.axhline(ENOUGH, color=MUTED, lw=1, ls=(0, (4, 3)), zorder=0)
        axes.plot([start, *places], [1, *(quality for _, quality in points)], color=_COLOUR, lw=1.6, zorder=2)
        for place, ratios, mean, colour, marker in (
            (start, curve.full_ratios, 1.0, INK, "D"),
            *((point.frozen, point.ratios, quality, _COLOUR, "o") for point, quality in points),
        ):
            axes.plot([place] * len(ratios), ratios, "_", color=colour, ms=9, mew=1.2, alpha=0.75, zorder=3)
            axes.plot(place, mean, marker, color=colour, mec=PAPER, ms=7 if len(points) <= _TICKS else 5, zorder=4)
        _label_axes(axes, curve, start, places)
        title = "Relative quality against frozen layers"
        return finish(figure, "freezing", title, _caption(curve), _text(curve), "freezing")


def _label_axes(axes: Axes, curve: FreezeCurve, start: int, places: list[int]) -> None:
    every = -(-len(places) // _TICKS)
    shown = places[::-1][::every][::-1]  # counted from the top, so that the head alone has its tick
    axes.set_xticks([start, *shown], [formats.shortened(curve.full.name, 12), *map(str, shown)])
    room = 0.05 * (places[-1] - start)
    axes.set_xlim(start - room, places[-1] + 3.4 * room)
    axes.text(1, ENOUGH, f"{ENOUGH}", transform=axes.get_yaxis_transform(), ha="right", va="bottom", color=MUTED)
    axes.set(xlabel=f"frozen layers of {curve.layers}, from the bottom", ylabel="relative quality")


def _caption(curve: FreezeCurve) -> str:
    higher = curve.findings.results.study.task.metric_higher_is_better
    full = curve.full.name
    share = f"means over seeds divided by that of {full}" if higher else f"the mean of {full} divided by their means"
    if len(curve.findings.units) > 1:
        share = f"{share}, the mean over {curve.findings.results.split_unit}s of these ratios"
    return (
        f"Circles are {share}, short bars are single seeds; the diamond is {full}. The dashed line is at {ENOUGH}. "
        f"The embeddings are frozen with the layers; at {curve.layers} the head learns alone."
    )


def _text(curve: FreezeCurve) -> str:
    parts = [f"{curve.full.name} 1"]
    parts += [f"{_frozen(point)} {_quality(point)}" for point in curve.points if point.quality is not None]
    return f"Relative quality with {'; '.join(parts)}."


def _frozen(point: FreezePoint) -> str:
    return f"{formats.counted(point.frozen, 'layer')} frozen"


def _quality(point: FreezePoint) -> str:
    return f"{formats.quality(point.quality, point.spread)} ({formats.counted(len(point.ratios), 'seed')})"
