"""The main table: one row a method, with its score, its difference to the first one, and its costs."""

from __future__ import annotations

from gradgate.report import formats
from gradgate.report.findings import Findings, MethodFindings, ratio
from gradgate.report.formats import NONE
from gradgate.report.tables import Column, Entry, Raw, Table, ranked, significance, star_note
from gradgate.study.results import DEV
from gradgate.study.statistics import Comparison

_TEST = "two-sided paired t-test over seeds, Holm-corrected over the methods"


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
        Column("stored", "Stored per task", "trained tensors, and those that the pretrained model lacks"),
        Column("step", "Time per step", "median step; × is relative to the first method"),
        Column("memory", "Peak memory", "highest of the seeds"),
        Column("total", "Training time", "mean over the seeds; × is relative to the first method"),
    ]
    counted = any(method.cost.bytes_stored is not None for method in findings.methods)
    unused = {key for key, used in (("dev", split != DEV), ("stored", counted)) if not used}
    columns = [column for column in columns if column.key not in unused]
    shown = [_main_row(findings, method) for method in findings.methods]
    higher = findings.results.study.task.metric_higher_is_better
    for row, entry in zip(shown, ranked([row["score"] for row in shown], higher), strict=True):
        row["score"] = entry
    return Table(
        "main",
        f"Methods on {findings.results.study.task.name}",
        tuple(columns),
        tuple(tuple(row[column.key] for column in columns) for row in shown),
        tuple(_main_record(findings, method) for method in findings.methods),
        frozenset(index for index, method in enumerate(findings.methods) if method in findings.best),
        star_note([method.p for method in findings.methods], _TEST),
    )


def _main_row(findings: Findings, method: MethodFindings) -> dict[str, Entry]:
    metric, versus, cost = findings.format, method.versus, method.cost
    first = findings.reference.cost
    difference = Entry("reference" if versus is None else NONE)
    if versus is not None and versus.difference is not None:
        interval = f"[{metric.interval(versus.interval)}]" if versus.interval else ""
        shown = f"{metric.difference(versus.difference)}{significance(method.p)}"
        difference = Entry(shown, versus.difference, interval)
    return {
        "method": Entry(method.name, method.name),
        "seeds": _seeds(method),
        "score": Entry(metric.with_spread(method.score.mean, method.score.sd), method.score.mean),
        "difference": difference,
        "p": Entry(formats.p_value(method.p), method.p),
        "dev": Entry(metric.with_spread(method.dev.mean, method.dev.sd), method.dev.mean),
        "share": Entry(formats.share(cost.trainable_share), cost.trainable_share),
        "parameters": Entry(formats.count(cost.parameters_trained), cost.parameters_trained),
        "stored": Entry(formats.size(cost.bytes_stored), cost.bytes_stored),
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
        "bytes_stored": cost.bytes_stored,
        "seconds_per_step": cost.seconds_per_step,
        "seconds_per_step_ratio": ratio(cost.seconds_per_step, first.seconds_per_step),
        "peak_memory_bytes": cost.peak_memory_bytes,
        "seconds_total": cost.seconds_total,
        "seconds_total_ratio": ratio(cost.seconds_total, first.seconds_total),
        "note": "; ".join(dict.fromkeys(filter(None, (score.note, versus.note)))) or None,
    }
