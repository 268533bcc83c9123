"""The tracked Fisher information of runs, as numbers that FUN's claims are checked on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from gradgate.analysis.fisher import TrackedRun, correlation
from gradgate.errors import RunError
from gradgate.fisher.track import read_fisher
from gradgate.papers.claims.numbers import TRACE_AREA, TRACE_EARLY, TRACE_HILL, TRACE_PEAK
from gradgate.study.results import Cell
from gradgate.training.run_folder import RunFolder


def tracked_run(cell: Cell, score: float | None = None) -> TrackedRun | None:
    """The measurements of a run; None where it has none, or they cannot be read, which the report says."""
    if cell.folder is not None:
        with suppress(RunError):
            records = read_fisher(RunFolder(cell.folder).fisher_file)
            return TrackedRun(cell.label, cell.seed, records, score) if records else None
    return None


def tracked_quantities(cell: Cell) -> dict[str, float]:
    """How high the normalised trace is early on, and how much of a hill it is."""
    run = tracked_run(cell)
    found = {} if run is None else {TRACE_EARLY: run.early, TRACE_HILL: run.hill}
    return {name: value for name, value in found.items() if value is not None}


def schedule_correlations(
    scored: Iterable[tuple[Cell, float | None]],
) -> tuple[dict[str, dict[int, float]], tuple[str, ...]]:
    """How peak and area of schedules rank with their scores: by seed, where it has four schedules or more.

    Returns:
        Name to seed to Spearman's correlation; and the arms that it is over.
    """
    runs = [run for cell, score in scored if (run := tracked_run(cell, score)) is not None and run.is_schedule]
    found: dict[str, dict[int, float]] = {}
    for seed in dict.fromkeys(run.seed for run in runs):
        own = [run for run in runs if run.seed == seed]
        for name, told in (
            (TRACE_PEAK, correlation(own, lambda run: run.peak)),
            (TRACE_AREA, correlation(own, lambda run: run.area)),
        ):
            if told is not None:
                found.setdefault(name, {})[seed] = told[0]
    return found, tuple(dict.fromkeys(run.arm for run in runs))
