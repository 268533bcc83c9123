"""Read gradgate's own exports: runs as JSON or CSV, and learning curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradgate.runs.state import RunState
from gradgate.study.importing.raw import RawTable, is_missing, text_of

_FINISHED = RunState.FINISHED.value
_RUNS = {"task", "model", "method", "seed", "status", "split", "score"}
_CURVES = {"task", "model", "arm", "seed", "step", "of_steps", "dev"}
_COSTS = {
    "cost.seconds_total": "seconds",
    "cost.peak_memory_bytes": "peak_memory_bytes",
    "cost.parameters_trained": "parameters_trained",
    "cost.steps": "steps",
}


def read_own(table: RawTable) -> RawTable | None:
    """Return the scores of an export of gradgate; None for a table that is not one.

    A run that has not finished is a row that is rejected, so that its arm is known.
    """
    columns = set(table.columns)
    if columns >= _CURVES:
        return _long(table, "gradgate's curves", list(_of_curves(table)))
    if columns >= _RUNS:
        found = list(_of_runs(table))
        states = {at: str(table.rows[index].get("status")) for at, (index, _) in enumerate(found)}
        rejected = {at: f"the run's state is {state}" for at, state in states.items() if state != _FINISHED}
        stated = (row for row in table.rows if not is_missing(row.get("metric")))
        metrics = {text_of(row["task"]): text_of(row["metric"]) for row in stated}
        return _long(table, "gradgate's export", found, rejected, metrics)
    return None


def _long(
    table: RawTable,
    form: str,
    found: Sequence[tuple[int, dict[str, Any]]],
    rejected: Mapping[int, str] | None = None,
    metrics: Mapping[str, str] | None = None,
) -> RawTable:
    rows = [row for _, row in found]
    return RawTable.of_scores(table.source, rows, form, lambda at: table.place(found[at][0]), rejected, metrics)


def _of_runs(table: RawTable) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, row in enumerate(table.rows):
        method, adapter = row["method"], row.get("adapter")
        whole = adapter if method == "full" else f"{adapter} + {method}"
        settings = {
            name[8:]: cell for name, cell in row.items() if name.startswith("setting.") and not is_missing(cell)
        }
        own = "".join(f", {name}={cell}" for name, cell in settings.items())
        shared = {
            "arm": f"{method if is_missing(adapter) else whole}{own.replace(', ', ' ', 1)}",
            **{name: row.get(name) for name in ("task", "model", "train_size", "seed")},
            **{ours: row.get(theirs) for theirs, ours in _COSTS.items()},
        }
        if row.get("status") != _FINISHED:
            yield index, {**shared, "score": None}
            continue
        for split, metric, value in _scores(row):
            yield index, {**shared, "split": split, "metric": metric, "score": value}


def _scores(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield split, metric and value: of columns such as ``test.accuracy`` or ``scores.test.accuracy``."""
    parts = {"cost", "setting", "forgetting"}
    for name, value in row.items():
        split, _, metric = name.removeprefix("scores.").rpartition(".")
        if split and split.partition(".")[0] not in parts and not is_missing(value):
            yield split, metric, value


def _of_curves(table: RawTable) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, row in enumerate(table.rows):
        if row.get("schedule") not in (None, "", "cut"):
            continue
        shared = {name: row.get(name) for name in ("arm", "task", "model", "seed")}
        metric = row.get("metric") or "score"
        if not is_missing(row.get("dev")):
            yield index, {**shared, "split": "dev", "metric": metric, "score": row["dev"], "step": row["step"]}
        if not is_missing(row.get("test")):
            yield index, {**shared, "split": "test", "metric": metric, "score": row["test"]}
