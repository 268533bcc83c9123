"""The table of every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradgate.report import formats
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.sections.every_score import LONGEST
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Table, text_column
from gradgate.runs.records import DEV
from gradgate.study.run_result import RunResult
from gradgate.tasks.languages import average_label


@dataclass(frozen=True)
class RunsSection(Section):
    """The scores of each run."""

    @classmethod
    def find(cls, study: StudySummary) -> RunsSection:
        """Return the section; every study has it."""
        return cls(study)

    @property
    def on_page(self) -> bool:
        """Whether the runs are few; what did not finish is on the page in any case."""
        return len(self.study.results.cells) <= LONGEST

    def tables(self) -> list[Table]:
        """Return one row per run."""
        return [seed_table(self.study)]


def seed_table(study: StudySummary) -> Table:
    """Return one row per run, finished or not: the numbers that all others are made of."""
    results = study.results
    splits = tuple(dict.fromkeys((study.split, *results.averages, *results.test_splits, DEV)))
    columns = (
        text_column("method", "Method", of=lambda cell: cell.arm.name),
        Column("seed", "Seed", show=lambda cell: str(cell.seed), raw=lambda cell: cell.seed),
        Column(
            "status",
            "Status",
            numeric=False,
            show=_state,
            raw=lambda cell: cell.state.value,
        ),
        *(_split_column(study, split) for split in splits),
        Column(
            "best_step",
            "Best step",
            "the step with the best score on dev",
            show=lambda cell: (
                NONE if cell.scores is None or cell.scores.best_step is None else str(cell.scores.best_step)
            ),
            raw=lambda cell: cell.scores.best_step if cell.scores else None,
        ),
        _cost_column("steps"),
        _cost_column("seconds_per_step", "Time per step", formats.seconds),
        _cost_column("seconds_total", "Training time", formats.seconds),
        *map(_cost_column, ("trainable_share", "parameters", "parameters_trained", "device")),
        _cost_column("peak_memory_bytes", "Peak memory", formats.size),
        _cost_column("bytes_stored"),
        Column("error", raw=lambda cell: f"{cell.failure.type}: {cell.failure.message}" if cell.failure else None),
    )
    # The table by language has the means; forty columns more would hide the rest.
    hidden = map(_field, results.test_splits) if results.averages else ()
    return Table.of("seeds", "Every run", [cell for arm in study.arms for cell in arm.cells], columns, hidden={*hidden})


def _field(split: str) -> str:
    return f"{split}_score"


def _split_column(study: StudySummary, split: str) -> Column[RunResult]:
    return Column(
        _field(split),
        f"{study.format.label}, {average_label(split)}",
        show=lambda cell: study.format.value(cell.score(split)),
        raw=lambda cell: cell.score(split),
    )


def _cost_column(name: str, title: str = "", form: Callable[[float | None], str] | None = None) -> Column[RunResult]:
    """Return a cost; without a form it is exported only."""

    def raw(cell: RunResult) -> Any:
        return getattr(cell.scores.cost, name, None) if cell.scores else None

    return Column(name, title, show=None if form is None else lambda cell: form(raw(cell)), raw=raw)


def _state(cell: RunResult) -> str:
    if cell.paused is not None:
        return f"paused at {cell.paused}"
    return "not finished" if cell.state == "missing" else cell.state.value
