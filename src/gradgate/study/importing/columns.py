"""Find which columns of a table say what was compared, on what, and how it scored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from gradgate.errors import UsageError, nearest, some_of
from gradgate.settings.imports import ImportSettings
from gradgate.study.importing.number_forms import SCORE_PER_RUN, is_spread
from gradgate.study.importing.raw import UNNAMED, RawTable, number_of
from gradgate.tasks.metrics.names import metric_column

UNPAIRED, SEED, FOLD = "none", "seed", "fold"
SEED_COLUMNS = (SEED, "random_seed", "run_seed", "trial", "repeat", "repetition", "replicate")
"""Columns whose values identify independent runs, in lower case."""
_some = partial(some_of, most=20)
_NAMES = {
    "arm": ("arm", "method", "system", "approach", "strategy", "algorithm", "experiment_name", "experiment",
            "peft_type", "kind", "run_name", "name"),
    "score": ("score", "value", "result"),
    SEED: (*SEED_COLUMNS, FOLD),
    "task": ("task", "dataset", "data_set", "benchmark", "task_name", "dataset_name"),
    "model": ("model", "base_model", "base", "backbone", "encoder", "model_name", "model_name_or_path", "model_id"),
    "split": ("split", "eval_split", "partition"),
    "step": ("step", "global_step", "iteration", "evaluation", "epoch"),
    "metric": ("metric", "metric_name", "measure"),
    "rows": ("train_size", "train_rows", "rows", "n_train"),
}  # fmt: skip
_COSTS = {
    "seconds_total": ("seconds", "train_seconds", "train_time", "runtime", "runtime_seconds", "total_seconds",
                      "train_runtime", "elapsed_seconds"),
    "peak_memory_bytes": ("peak_memory_bytes", "memory_max_bytes", "peak_allocated_bytes"),
    "parameters_trained": ("parameters_trained", "trainable_parameters", "num_trainable_params",
                           "inserted_parameters"),
    "parameters": ("parameters", "total_parameters", "num_total_params"),
    "bytes_stored": ("bytes_stored", "file_bytes", "file_size"),
    "steps": ("steps", "max_steps", "of_steps"),
}  # fmt: skip
_SETTINGS = ("lr", "learning_rate", "weight_decay", "warmup", "warmup_ratio", "batch_size", "dropout", "other")
LOGGED = ("lr_highest_logged", "lr_last_logged", "lr_stated")
"""Columns with rates as they were logged, which a search did not try."""
_SEED_COLUMN = re.compile(r"(?:(?P<word>seed|run|split|fold|trial|repeat)[ _.=-]?)?(?P<number>\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnMapping:
    """The part that each column of a table has.

    Attributes:
        arm, task, model, seed: columns whose texts are joined to one name; empty if the table has none.
        score: the columns of the scores; several in a wide table.
        split: the column with the split; ``only_split`` is its name if all scores have the same.
        step, metric, rows: columns; None if the table has none.
        pair: what makes two scores a pair; None for the seed.
        costs: the cost as :class:`gradgate.runs.scores.Cost` names it, or the column's own name, by column.
        settings: columns with settings that a search may have tried, such as ``lr``.
        logged: columns with rates as they were logged.
        only_metric: the metric to compare on, if the settings name one.
    """

    arm: tuple[str, ...]
    score: tuple[str, ...]
    seed: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    split: str | None = None
    only_split: str | None = None
    step: str | None = None
    metric: str | None = None
    rows: str | None = None
    pair: str | None = None
    costs: tuple[tuple[str, str], ...] = ()
    settings: tuple[str, ...] = ()
    logged: tuple[str, ...] = ()
    only_metric: str | None = None

    def record(self) -> dict[str, object]:
        """Return the parts that have a column, for the study's folder."""
        return {name: value for name, value in vars(self).items() if value}


def find_columns(table: RawTable, asked: ImportSettings) -> ColumnMapping:
    """Return which column says what: as asked, else as known of the form, else as the names say.

    Raises:
        UsageError: for a column that the table lacks, and if there is no arm or no score to be found.
    """
    for name in ("arm", "score", "seed", "task", "model", "cost"):
        for column in getattr(asked, name):
            _check(table, name, column)
    split, only_split = _column_or_word(table, asked.split, "split", {"dev", "test"})
    metric, only_metric = _column_or_word(table, asked.metric, "metric", None)
    mapping = ColumnMapping(
        arm=asked.arm or _found(table, "arm"),
        score=asked.score or _found(table, "score"),
        seed=asked.seed or _found(table, "seed"),
        task=asked.task or _found(table, "task"),
        model=asked.model or _found(table, "model"),
        split=split or (None if asked.split else _first(_found(table, "split"))),
        only_split=only_split,
        step=_check(table, "step", asked.step) if asked.step else _first(_found(table, "step")),
        metric=metric or _first(_found(table, "metric")),
        rows=_check(table, "rows", asked.rows) if asked.rows else _first(_found(table, "rows")),
        only_metric=only_metric,
    )
    mapping = _without_twice(mapping, asked)
    mapping = _with_pair(table, mapping, asked)
    mapping = _with_scores(table, mapping, asked)
    if not mapping.arm:
        raise UsageError(
            f"{table.source}: no column names what to compare; the columns are {_some(table.columns)}. Name one "
            "with arm=."
        )
    used = {*mapping.arm, *mapping.score, *mapping.seed, *mapping.task, *mapping.model}
    logged = tuple(name for name in table.columns if name in LOGGED)
    return replace(mapping, costs=_costs(table, asked, used), settings=_settings(table, mapping, used), logged=logged)


def _without_twice(mapping: ColumnMapping, asked: ImportSettings) -> ColumnMapping:
    """Return the mapping without a column that was found for one part and named for another."""
    named = {*asked.arm, *asked.score, *asked.seed, *asked.task, *asked.model, *asked.cost}
    named |= {name for name in (asked.split, asked.step, asked.metric, asked.rows, asked.pair) if name}
    changes: dict[str, object] = {}
    for part in ("arm", "score", "seed", "task", "model"):
        if not getattr(asked, part):
            changes[part] = tuple(column for column in getattr(mapping, part) if column not in named)
    for part in ("split", "step", "metric", "rows"):
        if not getattr(asked, part) and getattr(mapping, part) in named:
            changes[part] = None
    return replace(mapping, **changes)  # type: ignore[arg-type]


def _with_pair(table: RawTable, mapping: ColumnMapping, asked: ImportSettings) -> ColumnMapping:
    """Add what pairs scores: as asked, or a column ``split`` that numbers the draws of the data."""
    pair = asked.pair
    if pair is not None and pair != UNPAIRED:
        _check(table, "pair", pair)
        return replace(mapping, pair=pair)
    split = mapping.split
    if pair is None and [name.lower() for name in mapping.seed] == [FOLD]:
        return replace(mapping, pair=mapping.seed[0])
    if split is not None and asked.split is None and all(number_of(word) is not None for word in table.words(split)):
        return replace(mapping, split=None, pair=pair or split, seed=mapping.seed)
    return replace(mapping, pair=pair)


def _with_scores(table: RawTable, mapping: ColumnMapping, asked: ImportSettings) -> ColumnMapping:
    """Add the columns of a wide table, a column per seed or per metric."""
    if mapping.score and (mapping.metric or len(mapping.score) == 1):
        return mapping
    if mapping.score:
        return replace(mapping, metric=None)
    used = {*mapping.arm, *mapping.seed, *mapping.task, *mapping.model, mapping.step, mapping.rows, mapping.pair}
    named = [name for name in table.columns if name not in used and _names_scores(name)]
    numeric = [name for name in named if _has_numbers(table, name)]
    seeds = [(name, match["word"]) for name in numeric if (match := _SEED_COLUMN.fullmatch(name))]
    worded, bare = (tuple(name for name, word in seeds if bool(word) is has_word) for has_word in (True, False))
    metrics = tuple(filter(_is_metric, numeric))
    # The columns of a pivot table are bare numbers; next to metrics they may be anything.
    found = worded if len(worded) > 1 else metrics or (bare if len(bare) > 1 else ())
    if not found:
        words = [(name, value) for name in named for value in table.values(name)]
        wrong = next((f" ({name} has {value!r:.40}, which is not a number)" for name, value in words), "")
        raise UsageError(
            f"{table.source}: no column has scores{wrong}; the columns are {_some(table.columns)}. "
            f"{_remedy(table, [value for _, value in words])}"
        )
    return replace(mapping, score=found, metric=None)


def _remedy(table: RawTable, words: Sequence[object]) -> str:
    """Return what to do if no column has scores."""
    if not table.rows:
        return "It has no rows with values. Export it again."
    if any(is_spread(str(word)) for word in words):
        return SCORE_PER_RUN
    if len(table.columns) - sum(name.startswith(UNNAMED) for name in table.columns) == 1:
        return "If these are several, separate them with commas, and let the first line name them all."
    return "Name one with score=."


def seed_of_column(column: str) -> int | None:
    """Return the seed that a column of a wide table is named after; None for a metric."""
    found = _SEED_COLUMN.fullmatch(column)
    return int(found["number"]) if found else None


def _found(table: RawTable, part: str) -> tuple[str, ...]:
    known = tuple(column for column, what in table.known.items() if what == part)
    if known or table.known:
        return known
    simple = {re.sub(r"[ .-]+", "_", column.strip().lower()): column for column in reversed(table.columns)}
    return next(((simple[name],) for name in _NAMES[part] if name in simple and table.values(simple[name])), ())


def _costs(table: RawTable, asked: ImportSettings, used: set[str]) -> tuple[tuple[str, str], ...]:
    simple = {column.strip().lower(): column for column in table.columns if column not in used}
    costs: dict[str, str] = {}
    for cost, names in _COSTS.items():
        column = next((simple[name] for name in names if name in simple), None)
        if column is not None:
            costs[column] = cost
    return tuple({**costs, **{column: costs.get(column, column) for column in asked.cost}}.items())


def _settings(table: RawTable, mapping: ColumnMapping, used: set[str]) -> tuple[str, ...]:
    if mapping.step is not None:  # a rate by step is one that a schedule went through
        return ()
    return tuple(name for name in table.columns if name.lower() in _SETTINGS and name not in used)


def _column_or_word(
    table: RawTable, text: str | None, part: str, words: set[str] | None
) -> tuple[str | None, str | None]:
    """Return a column, or the one value that all rows have in its place."""
    if text is None or text in table.columns:
        return text, None
    if words is None or text in words:
        return None, text
    return _check(table, part, text), None


def _check(table: RawTable, part: str, column: str) -> str:
    if column not in table.columns:
        raise UsageError(
            f"{part}={column!r}: {table.source} has no such column.{nearest(column, table.columns)} It has "
            f"{_some(table.columns)}."
        )
    return column


def _names_scores(column: str) -> bool:
    return _SEED_COLUMN.fullmatch(column) is not None or _is_metric(column)


def _is_metric(column: str) -> bool:
    metric = metric_column(column)
    return metric is not None and metric[0] != "train"


def _has_numbers(table: RawTable, column: str) -> bool:
    """Return True if a column has a number: a run that failed may have a word in its place."""
    return any(number_of(value) is not None for value in table.values(column))


def _first(names: Sequence[str]) -> str | None:
    return names[0] if names else None
