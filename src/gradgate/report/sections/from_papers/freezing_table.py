"""The table of frozen layers: quality and savings by their number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradgate.analysis.sharing import Sizes, saved_share
from gradgate.errors import UsageError
from gradgate.report import formats
from gradgate.report.sections.from_papers.freezing_curve import ENOUGH, FreezeCurve, FreezePoint
from gradgate.report.study_summary import ArmSummary
from gradgate.report.table import Column, Entry, Raw, Table, spread_entry, text_column
from gradgate.runs.scores import FileSizes

TASKS = 8
"""Tasks that share the frozen layers in the table; the paper's own number for its base models."""


@dataclass(frozen=True)
class _FreezeRow:
    """Full fine-tuning, which has no point, or a number of frozen layers."""

    arm: ArmSummary
    point: FreezePoint | None

    @property
    def frozen(self) -> int:
        return self.point.frozen if self.point else 0

    def saved(self, sizes: Sizes, tasks: int | None) -> float:
        """Return the share that is saved; nothing is shared if nothing is frozen."""
        return saved_share(sizes, self.point.frozen, tasks) if self.point else 0.0


def freeze_table(curve: FreezeCurve) -> Table:
    """Return full fine-tuning, then one row per number of frozen layers."""
    sizes, paper = curve.sizes("model"), _paper_sizes(curve)
    rows = [_FreezeRow(curve.full, None), *(_FreezeRow(point.arm, point) for point in curve.points)]
    files = any(row.arm.cost.files for row in rows)
    columns = (
        text_column("method", "Method", of=lambda row: row.arm.name),
        *_layer_columns(curve),
        *_score_columns(curve),
        *_quality_columns(curve),
        Column(
            "trained",
            "Parameters trained",
            "trained at any step",
            show=lambda row: formats.count(row.arm.cost.parameters_trained),
            raw=lambda row: row.arm.cost.parameters_trained,
            field="parameters_trained",
        ),
        _saved_column(
            f"saved_{TASKS}_tasks_model",
            f"Saved, {TASKS} tasks",
            "of all parameters, if tasks share the frozen part of this model",
            lambda row: row.saved(sizes, TASKS),
        ),
        _saved_column(
            "saved_limit_model",
            "Saved, many tasks",
            "limit for infinitely many tasks",
            lambda row: row.saved(sizes, None),
        ),
        *_file_columns(),
        _saved_column(
            f"saved_{TASKS}_tasks_paper",
            f"Saved, {TASKS} tasks (paper's sizes)",
            "with the sizes of Lee et al. 2019, Table 1",
            lambda row: row.saved(paper, TASKS) if paper else None,
        ),
        Column("saved_limit_paper", raw=lambda row: row.saved(paper, None) if paper else None),
    )
    best = curve.fewest_tuned
    unused = {key for key, used in (("files", files), (f"saved_{TASKS}_tasks_paper", paper)) if not used}
    title = "Frozen layers: quality kept, parameters saved"
    return Table.of(
        "freezing", title, rows, columns, hidden=unused, best=[1 + curve.points.index(best)] if best else ()
    )


def _layer_columns(curve: FreezeCurve) -> tuple[Column[_FreezeRow], ...]:
    def frozen(row: _FreezeRow) -> Entry:
        return Entry(f"{row.frozen} of {curve.layers}", row.frozen) if row.point else Entry("none", -1)

    return (
        Column("frozen", "Frozen layers", "from the bottom; the embeddings are frozen with them", show=frozen),
        Column("layers", raw=lambda row: curve.layers),
        Column("frozen_layers", raw=lambda row: row.point.frozen if row.point else None),
        Column("tuned_layers", raw=lambda row: curve.layers - row.frozen),
    )


def _score_columns(curve: FreezeCurve) -> tuple[Column[_FreezeRow], ...]:
    metric = curve.study.format
    return (
        Column("finished", raw=lambda row: row.arm.score.n),
        Column("split", raw=lambda row: curve.study.split),
        Column("metric", raw=lambda row: metric.metric),
        Column(
            "score",
            f"{metric.label}, {curve.study.split_label}",
            "mean ± standard deviation over seeds",
            show=lambda row: spread_entry(row.arm.score, metric),
            raw=lambda row: row.arm.score.mean,
            field="mean",
        ),
        Column("sd", raw=lambda row: row.arm.score.sd),
        Column("reference", raw=lambda row: curve.full.name),
    )


def _quality_columns(curve: FreezeCurve) -> tuple[Column[_FreezeRow], ...]:
    each = f", the mean over {curve.study.results.split_unit}s" if len(curve.study.units) > 1 else ""
    higher = curve.study.higher_is_better
    over = "score over that of full" if higher else "score of full over its own, as lower is better"

    def quality(row: _FreezeRow) -> Entry:
        point = row.point
        return Entry(formats.quality(point.quality, point.spread), point.quality) if point else Entry("reference", 1.0)

    return (
        Column("common_seeds", raw=_of(lambda point: len(point.ratios))),
        Column(
            "quality",
            "Relative quality",
            f"{over}, of means over common seeds{each}; ± is the standard deviation over seeds; the bold row "
            f"has the fewest tuned layers that keep {ENOUGH}",
            show=quality,
            raw=_of(lambda point: point.quality),
            field="relative_quality",
        ),
        Column("relative_quality_sd", raw=_of(lambda point: point.spread)),
        Column("enough", raw=_of(lambda point: None if point.quality is None else int(point.enough))),
    )


def _file_columns() -> tuple[Column[_FreezeRow], ...]:
    def shown(row: _FreezeRow) -> Entry:
        files = row.arm.cost.files
        if files is None:
            return Entry("not stored")
        of_tasks = files.of_tasks(TASKS)
        return Entry(f"{formats.size(of_tasks)} of {formats.size(TASKS * files.whole)}", of_tasks)

    about = "on disk: the base model once plus what the runs stored, compared with full models"
    return (
        Column("files", f"Files, {TASKS} tasks", about, show=shown),
        Column("file_bytes_base", raw=_of_files(lambda files: files.base)),
        Column("file_bytes_task", raw=_of_files(lambda files: files.stored)),
        Column("file_bytes_whole_model", raw=_of_files(lambda files: files.whole)),
        Column(f"saved_{TASKS}_tasks_files", raw=_of_files(lambda files: files.saved(TASKS))),
    )


def _saved_column(key: str, title: str, about: str, of: Callable[[_FreezeRow], float | None]) -> Column[_FreezeRow]:
    return Column(key, title, about, show=lambda row: formats.share(of(row)), raw=of)


def _of(value: Callable[[FreezePoint], Raw]) -> Callable[[_FreezeRow], Raw]:
    """Return an accessor of points that is empty for full fine-tuning."""
    return lambda row: value(row.point) if row.point else None


def _of_files(value: Callable[[FileSizes], Raw]) -> Callable[[_FreezeRow], Raw]:
    """Return an accessor of files that is empty if no weights were stored."""
    return lambda row: value(row.arm.cost.files) if row.arm.cost.files else None


def _paper_sizes(curve: FreezeCurve) -> Sizes | None:
    """Return None for a model that has not as many layers as one of the paper's."""
    try:
        return curve.sizes("paper")
    except UsageError:
        return None
