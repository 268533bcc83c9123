"""Turn rows of somebody's table into scores, each of one arm, task, model, seed, split and metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

from gradgate.errors import DataError
from gradgate.study.importing.columns import UNPAIRED, ColumnMapping, seed_of_column
from gradgate.study.importing.number_forms import is_spread, read_rows
from gradgate.study.importing.raw import RawTable, is_missing, number_of, text_of
from gradgate.study.importing.summaries import summary_rows
from gradgate.tasks.metrics.names import metric_column, split_name

REPORTED = "reported"
"""The split of scores whose source does not say one."""
_NO_METRIC = "score"
_EMPTY = "no score"
_LARGEST_SHARE = 1.5
"""A bounded score above it, by its absolute value, is in percent."""


class Cell(NamedTuple):
    """The place of one score. Two scores of one cell and step are duplicates."""

    model: str
    task: str
    size: str
    arm: str
    seed: str
    split: str
    metric: str
    step: int | None


class Score(NamedTuple):
    """A score with the place of its row.

    ``costs`` are by the names of the mapping; ``settings`` those that a search may have tried; ``logged`` are rates as
    they were logged.
    """

    cell: Cell
    value: float
    place: str
    costs: Mapping[str, float]
    settings: tuple[tuple[str, str], ...] = ()
    logged: Mapping[str, float] = {}


class Missing(NamedTuple):
    """A place without a usable score, and the reason; ``settings`` as a score has them."""

    reason: str
    cell: Cell
    settings: tuple[tuple[str, str], ...] = ()


@dataclass
class ReadScores:
    """The scores of all sources, and what was left out.

    Attributes:
        scores: in the order of the rows.
        rows_read: rows of all sources.
        rows_kept: rows with a score at least.
        left_out: reason to the number of rows.
        missing: the places of those rows, if they name an arm.
        unusable: reason to the number of cells, of rows that have another score.
        metrics: the metric that a task is compared on, if its source says.
        higher: whether higher scores of a metric are better, if its source says.
    """

    scores: list[Score] = field(default_factory=list)
    rows_read: int = 0
    rows_kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    missing: list[Missing] = field(default_factory=list)
    unusable: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, str] = field(default_factory=dict)
    higher: dict[str, bool] = field(default_factory=dict)


def read_scores(tables: list[tuple[RawTable, ColumnMapping]]) -> ReadScores:
    """Read the scores of all tables.

    Raises:
        DataError: if two rows have a score of one cell; both are named, with the columns in which they differ.
    """
    read = ReadScores()
    found: dict[tuple[Cell, object], tuple[Score, RawTable, int]] = {}
    for table, mapping in tables:
        read.left_out.update(table.left_out)
        read.metrics.update(table.metrics)
        read.higher.update(table.higher)
        read.rows_read += len(table.rows) + sum(table.left_out.values())
        ranks, summaries = _ranks_of_steps(table, mapping), summary_rows(table, mapping)
        read.left_out.update(summaries.values())
        for index, row in enumerate(table.rows):
            if index in summaries:
                continue
            missing: list[Missing] = []
            kept = False
            for each in _scores(table, mapping, index, row, ranks):
                if isinstance(each, Missing):
                    missing.append(each)
                    continue
                other = found.setdefault((each.cell, each.settings), (each, table, index))
                if other[0] is not each:
                    raise _duplicate(each, table, index, *other)
                read.scores.append(each)
                kept = True
            read.rows_kept += kept
            if not kept:
                read.left_out[missing[-1].reason if missing else _EMPTY] += 1
                read.missing += [each for each in missing if each.cell.arm]
            read.unusable.update(each.reason for each in missing if kept and each.reason != _EMPTY)
    if not read.scores:
        lost = "; ".join(f"{count} rows: {reason}" for reason, count in read.left_out.items())
        raise DataError(f"No row has a usable score ({lost or 'there are no rows'}).")
    return read


def _scores(
    table: RawTable, mapping: ColumnMapping, index: int, row: Mapping[str, Any], ranks: Mapping[float, int]
) -> Iterator[Score | Missing]:
    """Yield the scores of a row, or why one is left out."""
    shared = Cell(
        model=_joined(row, mapping.model),
        task=_joined(row, mapping.task),
        size=_size(row, mapping),
        arm=_joined(row, mapping.arm),
        seed=_seed(row, mapping),
        split=_split(row, mapping),
        metric=_metric(row, mapping),
        step=_step(row, mapping, ranks),
    )
    costs = {name: cost for column, name in mapping.costs if (cost := number_of(row.get(column))) is not None}
    settings = tuple((name, text_of(row[name])) for name in mapping.settings if not is_missing(row.get(name)))
    logged = {name: rate for name in mapping.logged if (rate := number_of(row.get(name))) is not None}
    if not shared.arm:
        yield Missing("no arm", shared)
        return
    for column in mapping.score:
        cell = shared if len(mapping.score) == 1 and mapping.metric else _of_column(shared, mapping, column)
        value = row.get(column)
        number = None if is_missing(value) else number_of(value)
        if index in table.rejected:
            yield Missing(table.rejected[index], cell, settings)
        elif number is None:
            yield Missing(_EMPTY if is_missing(value) else _not_a_number(column, value), cell, settings)
        elif not isfinite(number):
            yield Missing(f"{column} is not finite", cell, settings)
        else:
            yield Score(cell, number, table.place(index), costs, settings, logged)


def _not_a_number(column: str, value: object) -> str:
    is_mean = is_spread(str(value))
    return f"{column} is {'a mean with its spread, not the score of one run' if is_mean else 'not a number'}"


def _of_column(shared: Cell, mapping: ColumnMapping, column: str) -> Cell:
    """Return the cell of one column of a wide table."""
    seed = seed_of_column(column) if len(mapping.score) > 1 else None
    if seed is not None:
        return shared._replace(seed=str(seed))
    split, metric = metric_column(column) or (None, column)
    if mapping.split or mapping.only_split or split is None:
        split = shared.split
    if len(mapping.score) == 1 and column.lower() in ("score", "value", "result"):
        metric = shared.metric
    return shared._replace(split=split, metric=metric)


def _joined(row: Mapping[str, Any], columns: tuple[str, ...]) -> str:
    return " ".join(text_of(row[column]) for column in columns if not is_missing(row.get(column)))


def _seed(row: Mapping[str, Any], mapping: ColumnMapping) -> str:
    pair = (mapping.pair,) if mapping.pair and mapping.pair != UNPAIRED else ()
    columns = (*pair, *(column for column in mapping.seed if column not in pair))
    return " ".join(_as_seed(row[column]) for column in columns if not is_missing(row.get(column))) or "0"


def _as_seed(cell: object) -> str:
    """Return a seed as a text; whole numbers are one seed however they are written, as 1, 01 or 1.0."""
    number = number_of(cell)
    return text_of(cell) if number is None or not isfinite(number) else text_of(number)


def _size(row: Mapping[str, Any], mapping: ColumnMapping) -> str:
    cell = row.get(mapping.rows) if mapping.rows else None
    text = "" if is_missing(cell) else text_of(cell)
    rows = read_rows(text)
    return text if rows is None else str(rows)


def _split(row: Mapping[str, Any], mapping: ColumnMapping) -> str:
    if mapping.only_split is not None:
        return mapping.only_split
    cell = row.get(mapping.split) if mapping.split else None
    return REPORTED if is_missing(cell) else split_name(text_of(cell))


def _metric(row: Mapping[str, Any], mapping: ColumnMapping) -> str:
    cell = row.get(mapping.metric) if mapping.metric else None
    return mapping.only_metric or _NO_METRIC if is_missing(cell) else text_of(cell)


def _step(row: Mapping[str, Any], mapping: ColumnMapping, ranks: Mapping[float, int]) -> int | None:
    number = number_of(row.get(mapping.step)) if mapping.step else None
    return None if number is None or not isfinite(number) else ranks.get(number, round(number))


def _ranks_of_steps(table: RawTable, mapping: ColumnMapping) -> dict[float, int]:
    """Return the rank of each step, from 1, if some are fractions, as epochs may be; otherwise nothing."""
    cells = [number_of(row.get(mapping.step)) for row in table.rows] if mapping.step else []
    steps = sorted({cell for cell in cells if cell is not None and isfinite(cell)})
    return {} if all(step.is_integer() for step in steps) else {step: rank for rank, step in enumerate(steps, 1)}


def _duplicate(
    score: Score, table: RawTable, index: int, other: Score, other_table: RawTable, other_index: int
) -> DataError:
    mine, theirs = table.rows[index], other_table.rows[other_index]
    cell = score.cell
    if mine is theirs:
        return DataError(
            f"{score.place} has two columns with the {cell.metric} of {cell.arm} on {cell.split}: {other.value:g} and "
            f"{score.value:g}. Name the one to read with score=."
        )
    what = ", ".join(filter(None, (cell.arm, cell.model, cell.task, cell.size and f"{cell.size} rows")))
    differing = [
        name
        for name in table.columns
        if name in mine and name in theirs and mine[name] != theirs[name] and number_of(theirs[name]) != other.value
    ]
    values = [f"{name} ({text_of(theirs[name])}, {text_of(mine[name])})" for name in differing[:4]]
    remedy = (
        f"They differ in {', '.join(values)}. Name the column that makes them two scores with arm=, task=, "
        "model=, seed= or step=, in addition to the recognized ones; or remove one."
        if values
        else "Remove one."
    )
    return DataError(
        f"{other.place} and {score.place} both have the {cell.metric} of {what} with seed {cell.seed} on {cell.split}: "
        f"{other.value:g} and {score.value:g}. {remedy}"
    )


def shares(read: ReadScores, bounded: Mapping[str, bool]) -> tuple[ReadScores, list[str]]:
    """Return scores as shares of 1 where a bounded metric of a task is in percent, and what was divided by 100.

    Raises:
        DataError: if some scores of a task's metric look like percent and others like shares.
    """
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in read.scores:
        if bounded[score.cell.metric]:
            groups.setdefault((score.cell.task, score.cell.metric), []).append(score)
    percent = {key for key, own in groups.items() if any(abs(score.value) > _LARGEST_SHARE for score in own)}
    if not percent:
        return read, []
    for key in percent:
        _require_one_scale(groups[key])
    scores = [
        score._replace(value=score.value / 100) if (score.cell.task, score.cell.metric) in percent else score
        for score in read.scores
    ]
    metrics = sorted({metric for _, metric in percent})
    return replace(read, scores=scores), metrics


def _require_one_scale(scores: Sequence[Score]) -> None:
    """Refuse scores above 1.5 if most are at most 1, or if all of an arm are, and would fit as shares.

    An arm that failed has low scores in percent: one with 0.1 among others with 40 and more passes, as 10 % would be
    out of place, too.
    """
    high = [score for score in scores if abs(score.value) > _LARGEST_SHARE]
    low = [score for score in scores if 0 < abs(score.value) <= 1]
    if len(low) > len(high):
        raise _mixed(low[0], high[0])
    least = min(abs(score.value) for score in high)
    for arm in dict.fromkeys(score.cell.arm for score in low):
        own = [score for score in scores if score.cell.arm == arm and score.value != 0]
        if all(score in low for score in own) and 100 * max(abs(score.value) for score in own) > least / 2:
            raise _mixed(own[0], high[0])


def _mixed(low: Score, high: Score) -> DataError:
    return DataError(
        f"The {low.cell.metric} scores are partly shares and partly percent: {low.value:g} in {low.place}, and "
        f"{high.value:g} in {high.place}. Correct the one that is wrong, or write all of them as shares of 1."
    )
