"""Read the exports of experiment trackers: tables and charts of Weights & Biases, projects of Trackio."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gradgate.study.importing.raw import RawTable, columns_of, is_missing, number_of, run_parts, text_of
from gradgate.tasks.metrics.names import metric_column

_CHART = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
_TRACKIO = {"run_name", "step", "timestamp"}
_UNFINISHED = {"crashed", "failed", "running", "killed", "preempted", "preempting", "pending"}


def read_tracker(table: RawTable) -> RawTable | None:
    """Return the scores of a tracker's export; None for a table that is not one."""
    if set(table.columns) >= _TRACKIO:
        return _long(table, "Trackio", _trackio_scores(table))
    if "Step" in table.columns and any(_CHART.fullmatch(name) for name in table.columns if name != "Step"):
        return _long(table, "Weights & Biases chart", _chart_scores(table))
    if "Name" in table.columns and {"State", "Created", "Runtime"} & set(table.columns):
        return _finished_runs(table)
    return None


def _long(table: RawTable, form: str, scores: Iterator[tuple[int, dict[str, Any]]]) -> RawTable:
    found = list(scores)
    rows = [row for _, row in found]
    return RawTable.of_scores(table.source, rows, form, lambda at: table.place(found[at][0]))


def _trackio_scores(table: RawTable) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, row in enumerate(table.rows):
        own = row.get("metrics")
        values: Mapping[str, Any] = json.loads(own) if isinstance(own, str) and own.startswith("{") else row
        for name, value in values.items():
            found = metric_column(name.removeprefix("metrics."))
            if found is not None and number_of(value) is not None and found[0] != "train":
                yield index, _score(text_of(row["run_name"]), found, value, row.get("step"))


def _chart_scores(table: RawTable) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, row in enumerate(table.rows):
        for column, value in row.items():
            found = _CHART.fullmatch(column)
            if found is None or found["bound"] or is_missing(value):
                continue
            metric = metric_column(found["metric"]) or (None, found["metric"])
            if metric[0] != "train":
                yield index, _score(found["run"], metric, value, row.get("Step"))


def _score(run: str, metric: tuple[str | None, str], value: Any, step: Any) -> dict[str, Any]:
    split = metric[0] or "dev"
    return {**run_parts(run), "split": split, "metric": metric[1], "score": value, "step": step}


def _finished_runs(table: RawTable) -> RawTable:
    """Return the table of runs with the arm and the seed of each name; those that did not finish are rejected."""
    states = [text_of(row.get("State")) for row in table.rows]
    rejected = {at: f"the run's state is {state}" for at, state in enumerate(states) if state.lower() in _UNFINISHED}
    columns = {name.lower() for name in table.columns}
    missing = {part for part, names in (("arm", {"arm", "method"}), ("seed", {"seed"})) if not columns & names}
    rows = []
    for row in map(dict, table.rows):
        parts = run_parts(text_of(row.pop("Name", "")))
        rows.append({name: parts[name] for name in ("arm", "seed") if name in missing} | row)
    form = "Weights & Biases runs"
    return RawTable(table.source, columns_of(rows), rows, form, table.place, rejected=rejected)
