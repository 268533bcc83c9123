"""The tables of a study: what is in them. How they are written is :mod:`gradgate.report.markup`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from statistics import fmean

from gradgate.report import formats
from gradgate.report.findings import Findings, MethodFindings, ratio
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.study.results import DEV, Cell, Cost
from gradgate.study.statistics import Comparison, summarize
from gradgate.tasks.averages import average_label

Raw = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column as shown: ``key`` names it in code, ``help`` says what it holds."""

    key: str
    title: str
    help: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Entry:
    """A cell as shown, the full-precision value that it sorts by, and what may stand in a second line."""

    text: str
    value: Raw = None
    detail: str = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.text} {self.detail}" if self.detail else self.text


@dataclass(frozen=True)
class Table:
    """One table twice: ``rows`` as people read it, ``records`` with full-precision numbers for the CSV file."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    records: tuple[dict[str, Raw], ...]
    best: frozenset[int] = frozenset()


def all_tables(findings: Findings) -> list[Table]:
    """Every table that this study has something for; the main one first."""
    tables = [main_table(findings)]
    if len(findings.results.test_splits) > 1 and not findings.results.averages:
        tables.append(split_table(findings))
    tables.append(seed_table(findings))
    return [*tables, metric_table(findings)] if findings.scored else tables


def main_table(findings: Findings) -> Table:
    """One row a method: score, difference to the first method with its evidence, and costs."""
    metric, split, first = findings.format, findings.split_label, findings.reference.name
    columns = [
        Column("method", "Method", numeric=False),
        Column("score", f"{metric.label}, {split}", "mean ± standard deviation over seeds"),
        Column(
            "difference",
            f"Difference to {formats.shortened(first, 32)}",
            "mean of the differences paired by seed [95% CI]",
        ),
        Column("p", "p (Holm)", "two-sided paired t-test, Holm-corrected over the methods"),
        Column("seeds", "Seeds", "finished of planned seeds"),
        Column("dev", f"{metric.label}, dev", "of the selected checkpoints, mean ± standard deviation over seeds"),
        Column("share", "Trainable share", "open parameters over all, mean over the steps"),
        Column("parameters", "Ever trained", "parameters that were open at any step"),
        Column("step", "Time per step", "median step; × is relative to the first method"),
        Column("memory", "Peak memory", "highest of the seeds"),
        Column("total", "Training time", "mean over the seeds; × is relative to the first method"),
    ]
    if split == DEV:
        columns = [column for column in columns if column.key != "dev"]
    shown = [_main_row(findings, method) for method in findings.methods]
    return Table(
        "main",
        f"Methods on {findings.results.study.task.name}",
        tuple(columns),
        tuple(tuple(row[column.key] for column in columns) for row in shown),
        tuple(_main_record(findings, method) for method in findings.methods),
        frozenset(index for index, method in enumerate(findings.methods) if method in findings.best),
    )


def _main_row(findings: Findings, method: MethodFindings) -> dict[str, Entry]:
    metric, versus, cost = findings.format, method.versus, method.cost
    first = findings.reference.cost
    difference = Entry("reference" if versus is None else NONE)
    if versus is not None and versus.difference is not None:
        interval = f"[{metric.interval(versus.interval)}]" if versus.interval else ""
        difference = Entry(metric.difference(versus.difference), versus.difference, interval)
    return {
        "method": Entry(method.name, method.name),
        "seeds": _seeds(method),
        "score": Entry(metric.with_spread(method.score.mean, method.score.sd), method.score.mean),
        "difference": difference,
        "p": Entry(formats.p_value(method.p), method.p),
        "dev": Entry(metric.with_spread(method.dev.mean, method.dev.sd), method.dev.mean),
        "share": Entry(formats.share(cost.trainable_share), cost.trainable_share),
        "parameters": Entry(formats.count(cost.parameters_trained), cost.parameters_trained),
        "step": _timed(cost.seconds_per_step, first.seconds_per_step),
        "memory": Entry(formats.size(cost.peak_memory_bytes), cost.peak_memory_bytes),
        "total": _timed(cost.seconds_total, first.seconds_total),
    }


def _seeds(method: MethodFindings) -> Entry:
    finished, failed = method.count("finished"), method.count("failed")
    return Entry(f"{finished} of {len(method.cells)}", finished, f"({failed} failed)" if failed else "")


def _timed(value: float | None, reference: float | None) -> Entry:
    relative = ratio(value, reference)
    return Entry(formats.seconds(value), value, "" if relative is None else f"({formats.ratio(relative)})")


def _main_record(findings: Findings, method: MethodFindings) -> dict[str, Raw]:
    score, versus = method.score, method.versus or Comparison(0)
    cost, first = method.cost, findings.reference.cost
    low, high = score.interval or (None, None)
    difference_low, difference_high = versus.interval or (None, None)
    return {
        "method": method.name,
        "planned": len(method.cells),
        "finished": method.count("finished"),
        "failed": method.count("failed"),
        "split": findings.split,
        "metric": findings.format.metric,
        "mean": score.mean,
        "sd": score.sd,
        "ci95_low": low,
        "ci95_high": high,
        "reference": findings.reference.name,
        "difference": versus.difference,
        "difference_pairs": versus.n or None,
        "difference_sd": versus.sd,
        "difference_ci95_low": difference_low,
        "difference_ci95_high": difference_high,
        "p": versus.p,
        "p_holm": method.p,
        "dev_mean": method.dev.mean,
        "dev_sd": method.dev.sd,
        "trainable_share": cost.trainable_share,
        "parameters_trained": cost.parameters_trained,
        "seconds_per_step": cost.seconds_per_step,
        "seconds_per_step_ratio": ratio(cost.seconds_per_step, first.seconds_per_step),
        "peak_memory_bytes": cost.peak_memory_bytes,
        "seconds_total": cost.seconds_total,
        "seconds_total_ratio": ratio(cost.seconds_total, first.seconds_total),
        "note": "; ".join(dict.fromkeys(filter(None, (score.note, versus.note)))) or None,
    }


def seed_table(findings: Findings) -> Table:
    """One row a run, finished or not: the numbers that all others are made of."""
    results, metric = findings.results, findings.format
    splits = tuple(dict.fromkeys((findings.split, *results.averages, *results.test_splits, DEV)))
    # The table by language has the means; forty columns more would hide the rest.
    shown = tuple(split for split in splits if not results.averages or split not in results.test_splits)
    columns = (
        Column("method", "Method", numeric=False),
        Column("seed", "Seed"),
        Column("status", "Status", numeric=False),
        *(Column(split, f"{metric.label}, {average_label(split)}") for split in shown),
        Column("best_step", "Best step", "the step whose checkpoint scored best on dev"),
        Column("step", "Time per step"),
        Column("total", "Training time"),
        Column("memory", "Peak memory"),
    )
    cells = [cell for method in findings.methods for cell in method.cells]
    return Table(
        "seeds",
        "Every run",
        columns,
        tuple(_seed_row(cell, shown, metric) for cell in cells),
        tuple(_seed_record(cell, splits) for cell in cells),
    )


def _seed_row(cell: Cell, splits: tuple[str, ...], metric: ScoreFormat) -> tuple[Entry, ...]:
    cost = cell.scores.cost if cell.scores else None
    best_step = cell.scores.best_step if cell.scores else None
    step, total, memory = (
        (cost.seconds_per_step, cost.seconds_total, cost.peak_memory_bytes) if cost else (None, None, None)
    )
    return (
        Entry(cell.method, cell.method),
        Entry(str(cell.seed), cell.seed),
        Entry("not finished" if cell.status == "missing" else cell.status, cell.status),
        *(Entry(metric.value(cell.score(split)), cell.score(split)) for split in splits),
        Entry(NONE if best_step is None else str(best_step), best_step),
        Entry(formats.seconds(step), step),
        Entry(formats.seconds(total), total),
        Entry(formats.size(memory), memory),
    )


def _seed_record(cell: Cell, splits: tuple[str, ...]) -> dict[str, Raw]:
    cost = asdict(cell.scores.cost) if cell.scores else {}
    return {
        "method": cell.method,
        "seed": cell.seed,
        "status": cell.status,
        **{f"{split}_score": cell.score(split) for split in splits},
        "best_step": cell.scores.best_step if cell.scores else None,
        **{field.name: cost.get(field.name) for field in fields(Cost)},
        "error": f"{cell.failure.type}: {cell.failure.message}" if cell.failure else None,
    }


def split_table(findings: Findings) -> Table:
    """One row a method, one column a test split, and their average where a seed has all of them."""
    splits, metric = findings.results.test_splits, findings.format
    groups: list[tuple[str, dict[str, list[float]]]] = []
    for method in findings.methods:
        scores = {split: [s for c in method.finished if (s := c.score(split)) is not None] for split in splits}
        by_seed = [[s for split in splits if (s := c.score(split)) is not None] for c in method.finished]
        scores["average"] = [fmean(row) for row in by_seed if len(row) == len(splits)]
        groups.append((method.name, scores))
    columns = [Column("method", "Method", numeric=False), *(Column(split, split) for split in splits)]
    return Table(
        "splits",
        f"Test splits: {metric.label}",
        (*columns, Column("average", "Average", "of the splits, for seeds that have all of them")),
        tuple(
            (Entry(name, name), *(_spread_entry(values, metric) for values in scores.values()))
            for name, scores in groups
        ),
        tuple(
            {"method": name, "split": split, "metric": metric.metric, **_spread_record(values)}
            for name, scores in groups
            for split, values in scores.items()
        ),
    )


def metric_table(findings: Findings) -> Table:
    """One row a method and split, one column a metric, whatever the runs measured."""
    results = findings.results
    splits = tuple(dict.fromkeys((*results.averages, *results.test_splits, DEV)))
    groups = [(method, split) for method in findings.scored for split in splits]
    shown = [group for group in groups if not results.averages or group[1] not in results.test_splits]
    names = list(dict.fromkeys(n for m, split in groups for cell in m.finished for n in cell.metrics(split)))
    values = {
        (method.name, split, name): [v for c in method.finished if (v := c.metrics(split).get(name)) is not None]
        for method, split in groups
        for name in names
    }
    metrics = [findings.format if name == findings.format.metric else ScoreFormat.fitting(name) for name in names]
    return Table(
        "metrics",
        "All metrics",
        (
            Column("method", "Method", numeric=False),
            Column("split", "Split", numeric=False),
            *(Column(metric.metric, metric.label) for metric in metrics),
        ),
        tuple(
            (
                Entry(method.name, method.name),
                Entry(average_label(split), split),
                *(_spread_entry(values[method.name, split, m.metric], m) for m in metrics),
            )
            for method, split in shown
        ),
        tuple(
            {"method": method.name, "split": split, "metric": name, **_spread_record(values[method.name, split, name])}
            for method, split in groups
            for name in names
        ),
    )


def _spread_entry(values: list[float], metric: ScoreFormat) -> Entry:
    summary = summarize(values)
    return Entry(metric.with_spread(summary.mean, summary.sd), summary.mean)


def _spread_record(values: list[float]) -> dict[str, Raw]:
    summary = summarize(values)
    low, high = summary.interval or (None, None)
    return {"n": summary.n, "mean": summary.mean, "sd": summary.sd, "ci95_low": low, "ci95_high": high}
