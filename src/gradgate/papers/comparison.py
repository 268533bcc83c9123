"""Tabulate published numbers next to measured ones; for a figure, which prints none, only the measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from gradgate.analysis.sharing import model_sizes, saved_share
from gradgate.files import write_files
from gradgate.papers.claims.elsa import SHARED_BY, measured_quality
from gradgate.papers.claims.numbers import DEV_BEST, DEV_MEAN, Numbers
from gradgate.papers.frozen import frozen_share
from gradgate.papers.measured import group_sizes, scores_by_language
from gradgate.papers.preset import DERIVED
from gradgate.papers.published import Published
from gradgate.papers.reproduce import Reproduced, Reproduction
from gradgate.printable import visible
from gradgate.report.export import to_csv, to_markdown
from gradgate.report.formats import NONE
from gradgate.report.table import Column, Entry, Table
from gradgate.statistics import Summary, summarize
from gradgate.study.run_result import RunResult

FULL_TABLE = "published-all"
_ALL: tuple[Column[Any], ...] = (
    Column("model", "Model", numeric=False),
    Column("task", "Task", numeric=False),
    Column("size", "Examples", numeric=False),
    Column("on", "On", numeric=False),
    Column("method", "Method", numeric=False),
    Column("ours", "Ours", numeric=False),
    Column("metric", "Metric", numeric=False),
    Column("published", "Published"),
    Column("measured", "Measured"),
    Column("seeds", "Seeds"),
)
_COLUMNS = {column.key: column for column in _ALL}
"""Columns of the tables that have one row per cell or printed number, by key."""


@dataclass(frozen=True)
class Pair:
    """One printed number and its measurement, both in the table's unit, and both minus the reference's."""

    row: Reproduced
    number: Published
    by_seed: dict[int, float]
    published_gain: float | None = None
    measured_gain: float | None = None

    @property
    def measured(self) -> Summary:
        """The measurement over all seeds."""
        return summarize(list(self.by_seed.values()))


def pairs(reproduction: Reproduction) -> list[Pair]:
    """Return every printed number of the cells that were run, with its measurement."""
    found = [Pair(row, number, _by_seed(row, number)) for row in reproduction.rows for number in row.cell.published()]
    first = {_where(pair): pair for pair in reversed(found) if pair.row.cell.label == reproduction.preset.reference}
    return [_against(pair, first.get(_where(pair))) for pair in found]


def summary_table(reproduction: Reproduction) -> Table:
    """Tabulate one row per cell: the language or average that represents its task."""
    every = pairs(reproduction)
    kept = [pair for pair in every if _in_short(reproduction, pair)]
    return _table(reproduction, "published", kept)


def full_table(reproduction: Reproduction) -> Table:
    """Tabulate one row per printed number: every language and metric."""
    return _table(reproduction, FULL_TABLE, pairs(reproduction))


def measured_table(reproduction: Reproduction) -> Table:
    """Tabulate one row per cell: the score of the language or average that represents its task."""
    found = [(row, summarize(_scores(row))) for row in reproduction.rows]
    return Table(
        "measured",
        _title(reproduction),
        tuple(_COLUMNS[key] for key in ("model", "task", "size", "method", "ours", "metric", "measured", "seeds")),
        tuple(
            (
                *map(Entry, (row.cell.model, row.cell.task, row.cell.size, row.cell.label, ours(row), _metric(row))),
                Entry(_mean(score)),
                Entry(str(score.n)),
            )
            for row, score in found
        ),
        tuple(_measured(row, score) for row, score in found),
    )


def _measured(row: Reproduced, score: Summary) -> dict[str, str | int | float | None]:
    cell = row.cell
    return {
        "paper": cell.preset.paper,
        "figure": cell.preset.table,
        "model": cell.model,
        "task": cell.task,
        "size": cell.size,
        "method": cell.label,
        "ours": ours(row),
        "study": row.measured.results.folder.name,
        "metric": _metric(row),
        "measured": score.mean,
        "measured_sd": score.sd,
        "seeds": score.n,
    }


def _metric(row: Reproduced) -> str:
    return row.measured.metric or row.measured.results.study.task.metric


def _scores(row: Reproduced) -> list[float]:
    """Return the score of each seed, on the language or average that represents the task, or its only language."""
    preset, found = row.cell.preset, []
    for cell in row.measured.cells:
        scores = {} if cell.scores is None else scores_by_language(preset.paper, row.measured, cell)
        found += [preset.unit * value for language, value in scores.items() if language == preset.summary]
    return found


def derived_table(reproduction: Reproduction) -> Table | None:
    """Tabulate what the paper derives from several cells (relative quality, saved parameters); None if nothing."""
    printed = [number for number in reproduction.preset.published if number.metric in DERIVED]
    numbers = reproduction.numbers() if printed else None
    rows = [entry for number in printed if numbers for entry in _derived(reproduction, numbers, number)]
    if not rows:
        return None
    columns: tuple[Column[Any], ...] = (
        Column("model", "Model", numeric=False),
        Column("method", "Method", numeric=False),
        Column("what", "What", numeric=False),
        Column("published", "Published"),
        Column("measured", "Measured"),
    )
    shown = tuple(
        (Entry(number.model), Entry(number.method), Entry(what), Entry(f"{printed:.3f}"), Entry(_text(value, 3)))
        for number, what, printed, value in rows
    )
    records = tuple(
        {"model": number.model, "method": number.method, "what": what, "published": printed, "measured": value}
        for number, what, printed, value in rows
    )
    return Table("published-derived", "Derived from several runs", columns, shown, records)


def write_tables(reproduction: Reproduction, out: Path) -> list[Table]:
    """Write ``tables/published*.csv`` and ``.md``, or ``measured`` for a figure.

    Returns:
        The tables, the summary first and the full one last.
    """
    if reproduction.preset.is_figure:
        tables = [measured_table(reproduction)]
    else:
        derived = derived_table(reproduction)
        tables = [summary_table(reproduction), *([derived] if derived else []), full_table(reproduction)]
    notes = visible("".join(f"- {note}\n" for note in reproduction.notes))
    texts = {f"{table.name}.csv": to_csv(table) for table in tables}
    texts |= {f"{t.name}.md": f"# {visible(t.title)}\n\n{to_markdown(t)}\n{notes}" for t in tables}
    write_files(out / "tables", texts, inside=out)
    return tables


def _by_seed(row: Reproduced, number: Published) -> dict[int, float]:
    """Return the measurement of each seed."""
    values = {cell.seed: _value(row, cell, number) for cell in row.measured.cells}
    return {seed: value for seed, value in values.items() if value is not None}


def _value(row: Reproduced, cell: RunResult, number: Published) -> float | None:
    unit, wanted = row.cell.preset.unit, row.metric(number)
    if cell.scores is None or wanted == "":
        return None
    if wanted in (DEV_MEAN, DEV_BEST):
        history = [
            record.metrics[cell.scores.metric] for record in cell.history if cell.scores.metric in record.metrics
        ]
        return unit * (max(history) if wanted == DEV_BEST else fmean(history)) if history else None
    value = scores_by_language(row.cell.preset.paper, row.measured, cell, wanted).get(number.language)
    return None if value is None else unit * value


def _in_short(reproduction: Reproduction, pair: Pair) -> bool:
    own = pair.row.cell.paper_task.language or reproduction.preset.summary
    languages = {number.language for number in pair.row.cell.published()}
    first = next(n.metric for n in pair.row.cell.published() if n.language == pair.number.language)
    several = bool(reproduction.preset.metrics)
    return pair.number.language == (own if own in languages else min(languages)) and (
        several or pair.number.metric == first
    )


def _where(pair: Pair) -> tuple[str, ...]:
    cell = pair.row.cell
    return cell.model, cell.task, cell.size, pair.number.language, pair.number.metric


def _against(pair: Pair, first: Pair | None) -> Pair:
    if first is None or first.row.cell.label == pair.row.cell.label:
        return pair
    gains = [value - first.by_seed[seed] for seed, value in pair.by_seed.items() if seed in first.by_seed]
    measured = fmean(gains) if gains else None
    return Pair(pair.row, pair.number, pair.by_seed, pair.number.value - first.number.value, measured)


def _table(reproduction: Reproduction, name: str, shown: list[Pair]) -> Table:
    preset = reproduction.preset
    columns = [
        *(_COLUMNS[key] for key in ("model", "task", "size", "on", "method", "ours", "published", "measured")),
        Column("published_gain", f"Published - {preset.reference}"),
        Column("measured_gain", f"Measured - {preset.reference}"),
        _COLUMNS["seeds"],
    ]
    left_out = {key for key, empty in (("size", len(preset.sizes) == 1),) if empty}
    columns = [column for column in columns if column.key not in left_out]
    rows = [_entries(pair) for pair in shown]
    return Table(
        name,
        _title(reproduction),
        tuple(columns),
        tuple(tuple(row[column.key] for column in columns) for row in rows),
        tuple(_numbers(pair) for pair in shown),
    )


def _title(reproduction: Reproduction) -> str:
    preset = reproduction.preset
    return (
        f"{preset.name}: {preset.title}{'' if reproduction.scale == 'full' else ' - measured on the embedded sample'}"
    )


def _entries(pair: Pair) -> dict[str, Entry]:
    cell, number, measured = pair.row.cell, pair.number, pair.measured
    digits = 2
    std = f" ± {number.std:.{digits}f}" if number.std is not None else ""
    return {
        "model": Entry(cell.model),
        "task": Entry(cell.task),
        "size": Entry(cell.size),
        "on": Entry(number.language if number.metric not in cell.preset.metrics else number.metric),
        "method": Entry(cell.label),
        "ours": Entry(ours(pair.row)),
        "published": Entry(f"{number.value:.{digits}f}{std}"),
        "measured": Entry(_mean(measured)),
        "published_gain": Entry(_signed(pair.published_gain, digits)),
        "measured_gain": Entry(_signed(pair.measured_gain, digits)),
        "seeds": Entry(str(measured.n)),
    }


def _numbers(pair: Pair) -> dict[str, str | int | float | None]:
    cell, number, measured = pair.row.cell, pair.number, pair.measured
    return {
        "paper": cell.preset.paper,
        "table": cell.preset.table,
        "model": cell.model,
        "task": cell.task,
        "size": cell.size,
        "language": number.language,
        "metric": number.metric,
        "method": cell.label,
        "ours": ours(pair.row),
        "study": pair.row.measured.results.folder.name,
        "published": number.value,
        "published_sd": number.std,
        "measured": measured.mean,
        "measured_sd": measured.sd,
        "seeds": measured.n,
        "published_gain": pair.published_gain,
        "measured_gain": pair.measured_gain,
        "note": number.note or None,
    }


def ours(row: Reproduced) -> str:
    """Return the name of the arm that was run for a cell."""
    return row.measured.arm


def _derived(
    reproduction: Reproduction, numbers: Numbers, number: Published
) -> Iterator[tuple[Published, str, float, float | None]]:
    rows = [row for row in reproduction.rows if (row.cell.model, row.cell.label) == (number.model, number.method)]
    first = reproduction.preset.reference
    if not rows or number.method == first or number.language not in ("all", "avg", "en"):
        return
    if number.metric == "params_saved_fraction":
        tasks = SHARED_BY[number.model]
        yield number, f"parameters saved by {tasks} tasks", number.value, _saved(rows[0], tasks)
        return
    printed = number.value / 100 if number.metric.endswith("_pct") else number.value
    yield number, "relative quality", printed, measured_quality(numbers, number.model, number.method)


def _saved(row: Reproduced, tasks: int) -> float | None:
    sizes = group_sizes(row.measured.results)
    share = frozen_share(row.cell.label)
    if not sizes or share is None:
        return None
    layers = sum(name.startswith("layers.") for name in sizes)
    return saved_share(model_sizes(sizes), round(share * layers), tasks)


def _mean(score: Summary) -> str:
    sd = "" if score.sd is None else f" ± {score.sd:.2f}"
    return _text(score.mean, 2) + sd


def _text(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def _signed(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:+.{digits}f}".replace("-", "−")
