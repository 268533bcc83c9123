"""The table of verdicts, one row per arm, task and model, which the terminal and the report share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradgate.report import formats
from gradgate.report.formats import NONE, ScoreFormat, said_once
from gradgate.report.table import Column, Entry, Row, Table, interval_fields, text_column
from gradgate.study.verdicts import ArmVerdict

TERMINAL = ("method", "pairs", "difference", "p_corrected", "word", "seeds_needed", "collapsed", "rows")
WHERE = ("model", "task", "train_size")
"""The columns that say which condition a row belongs to; those that all rows share are exported and not shown."""


def verdict_table(verdicts: Sequence[ArmVerdict]) -> Table:
    """Return one row per verdict. A model, task or training size that all rows share is exported and not shown."""
    columns: tuple[Column[ArmVerdict], ...] = (
        text_column("model", "Model", of=lambda each: each.model),
        text_column("task", "Task", of=lambda each: each.task),
        size_column(lambda each: each),
        text_column("method", "Method", of=lambda each: each.arm),
        Column("reference", raw=lambda each: each.reference),
        Column("metric", raw=lambda each: each.metric),
        Column("split", raw=lambda each: each.split),
        Column(
            "pairs",
            "Pairs",
            "common seeds, or runs of both if they are not paired",
            show=_pairs,
            raw=lambda each: each.verdict.comparison.n,
        ),
        Column(
            "difference",
            "Difference",
            "mean over pairs [corrected 95% interval], × 100 for shares",
            show=_difference,
            raw=lambda each: each.verdict.comparison.difference,
        ),
        Column(
            "rows",
            "Seeds and rows",
            "95% interval from resampling seeds and test rows [shares of the variance]",
            show=_rows,
            raw=lambda each: None if each.rows is None else each.rows.error,
            field="error_seeds_and_rows",
        ),
        *interval_fields("rows", lambda each: None if each.rows is None else each.rows.interval_t),
        Column("rows_note", raw=lambda each: each.rows_note),
        Column("p", raw=lambda each: each.verdict.comparison.p),
        Column(
            "p_corrected", "p (Holm)", "corrected over the methods", show=_p, raw=lambda each: each.verdict.p_corrected
        ),
        Column("family", raw=lambda each: each.verdict.family),
        Column("margin", raw=lambda each: each.verdict.margin),
        text_column("word", "Verdict", "against the reference", of=lambda each: each.verdict.word.value),
        Column("seeds_needed", "Seeds needed", "to decide", show=_needed, raw=lambda each: each.verdict.pairs_needed),
        Column("collapsed", "Collapsed", "of its runs [Wilson's 95% interval]", show=_lost, raw=_lost_share),
        Column("word_without_collapsed", raw=_word_without),
    )
    same = {name for name in WHERE if len({getattr(each, name) for each in verdicts}) == 1}
    if all(each.rows is None for each in verdicts):
        same.add("rows")
    references = dict.fromkeys(each.reference for each in verdicts)
    title = f"Every verdict against {', '.join(references)}"
    return Table.of("verdicts", title, list(verdicts), columns, hidden=same)


def size_column(of: Callable[[Row], ArmVerdict]) -> Column[Row]:
    """Return the column with the size of the training set, from the verdict that a row has."""

    def show(row: Row) -> Entry:
        size = of(row).train_size
        return Entry("all" if size is None else f"{size:,}", size)

    return Column("train_size", "Training rows", show=show, raw=lambda row: of(row).train_size)


def terminal_columns(table: Table, names: Sequence[str] = TERMINAL) -> tuple[str, ...]:
    """Return the columns for the terminal, most important first; what all rows have in common is not shown."""
    shown = {column.key for column in table.columns}
    return tuple(name for name in (*WHERE, *names) if name in shown)


def row_notes(verdicts: Sequence[ArmVerdict]) -> list[str]:
    """Return the notes about test rows, each sentence once, with the arms if not all share it."""
    return said_once((each.arm, each.rows_note) for each in verdicts)


def _pairs(each: ArmVerdict) -> str:
    comparison = each.verdict.comparison
    if comparison.unit == "run":
        return f"{each.collapsed.runs} and {each.reference_collapsed.runs} runs"
    return str(comparison.n)


def _difference(each: ArmVerdict) -> Entry:
    versus, metric = each.verdict.comparison, ScoreFormat.fitting(each.metric, [each.verdict.comparison.difference])
    interval = each.verdict.interval_corrected
    ends = f"[{metric.interval(interval)}]" if interval is not None else ""
    return Entry(metric.difference(versus.difference), versus.difference, ends)


def _p(each: ArmVerdict) -> Entry:
    return Entry(formats.p_value(each.verdict.p_corrected), each.verdict.p_corrected)


def _rows(each: ArmVerdict) -> Entry:
    noise = each.rows
    if noise is None:
        return Entry(NONE)
    metric = ScoreFormat.fitting(each.metric, [each.verdict.comparison.difference])
    parts = ((noise.variance_seeds, "seeds"), (noise.variance_rows, "rows"), (noise.variance_rest, "both"))
    shares = ", ".join(f"{100 * max(0.0, part):.0f} % {name}" for part, name in parts)
    return Entry(metric.interval(noise.interval_t), noise.error, f"[{shares}]")


def _needed(each: ArmVerdict) -> Entry:
    needed = each.verdict.pairs_needed
    return Entry(NONE if needed is None else f"{needed:,}", needed)


def _lost(each: ArmVerdict) -> Entry:
    own, theirs = each.collapsed, each.reference_collapsed
    if not own.collapsed and not theirs.collapsed:
        return Entry("0", 0.0)
    low, high = own.interval
    of_reference = f"; {theirs.collapsed} of {theirs.runs} of {each.reference}" if theirs.collapsed else ""
    without = f"; without: {_word_without(each)}"
    shown = f"[{formats.decimal(low)} to {formats.decimal(high)}]{of_reference}{without}"
    return Entry(f"{own.collapsed} of {own.runs}", _lost_share(each), shown)


def _lost_share(each: ArmVerdict) -> float:
    return each.collapsed.collapsed / each.collapsed.runs


def _word_without(each: ArmVerdict) -> str | None:
    return None if each.without_collapsed is None else each.without_collapsed.word.value
