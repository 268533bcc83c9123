"""The table of frozen layers: the quality that they keep and the parameters that they save."""

from __future__ import annotations

from gradgate.errors import UsageError
from gradgate.report import formats
from gradgate.report.findings import MethodFindings
from gradgate.report.freezing import ENOUGH, FreezeCurve, FreezePoint
from gradgate.report.tables import Column, Entry, Raw, Table
from gradgate.study.sharing import Sizes, saved_share

TASKS = 8
"""Tasks that share the frozen layers in the table; the paper's own number for its base models."""


def freeze_table(curve: FreezeCurve) -> Table:
    """Full fine-tuning, then one row for each number of frozen layers."""
    metric, split = curve.findings.format, curve.findings.split_label
    paper = _paper_sizes(curve)
    over = "score over that of full" if _higher(curve) else "score of full over its own, as lower is better"
    columns = [
        Column("method", "Method", numeric=False),
        Column("frozen", "Frozen layers", "from the bottom; the embeddings are frozen with them"),
        Column("score", f"{metric.label}, {split}", "mean ± standard deviation over seeds"),
        Column(
            "quality",
            "Relative quality",
            f"{over}, of means over common seeds; ± is the standard deviation over seeds; the bold row has the fewest "
            f"tuned layers that keep {ENOUGH}",
        ),
        Column("trained", "Parameters trained", "open at any step"),
        Column("saved", f"Saved, {TASKS} tasks", "of all parameters, when tasks share the frozen part of this model"),
        Column("limit", "Saved, many tasks", "the limit of the same for ever more tasks"),
    ]
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
    return row


def _record(
    curve: FreezeCurve, method: MethodFindings, point: FreezePoint | None, paper: Sizes | None
) -> dict[str, Raw]:
    sizes = curve.sizes("model")
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
