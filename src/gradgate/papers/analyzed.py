"""What analyses of runs found, as numbers that claims are checked on: Fisher traces, representations, landscapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scipy import stats

from gradgate.analysis import landscape, representations
from gradgate.analysis.fisher import FEWEST_LAYERS, TrackedRun, correlation
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.landscape import LandscapeRow
from gradgate.analysis.representations import RepresentationRow
from gradgate.errors import RunError
from gradgate.measure.track import read_fisher
from gradgate.papers.claims.numbers import (
    FLATNESS,
    RSA,
    RSA_DEPTH,
    TRACE_AREA,
    TRACE_EARLY,
    TRACE_HILL,
    TRACE_PEAK,
)
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV
from gradgate.study.results import RunResult
from gradgate.tasks.types import ORIGINAL_DEV, TEST


def analyzed_quantities(study: Path) -> dict[tuple[str, int], dict[str, float]]:
    """What the analyses in a study's folder say of each run, by its label and seed.

    An analysis that is not there, or that cannot be read, which the report says, gives nothing.
    """
    found: dict[tuple[str, int], dict[str, float]] = {}
    with suppress(RunError):
        for run, quantities in _similarity(study).items():
            found.setdefault(run, {}).update(quantities)
    with suppress(RunError):
        for run, width in _flatness(study).items():
            found.setdefault(run, {})[FLATNESS] = width
    return found


def _similarity(study: Path) -> dict[tuple[str, int], dict[str, float]]:
    """RSA by layer on dev, the embeddings left out, and how it goes with depth (AdapterEff, Fig. 2).

    Runs that hold out dev rows of train have the task's own dev rows as a test split, which is taken where more of them
    were measured.
    """
    by_run: dict[tuple[str, int], dict[int, float]] = {}
    rows = AnalysisFolder.of(study, representations.NAME, RepresentationRow).read()
    measured = Counter(row.split for row in rows)
    split = max((DEV, ORIGINAL_DEV, TEST), key=measured.__getitem__)
    for row in rows:
        if row.split == split and row.layer > 0 and row.rsa is not None:
            by_run.setdefault((row.arm, row.seed), {})[row.layer] = row.rsa
    found = {}
    for run, by_layer in by_run.items():
        found[run] = {f"{RSA}{layer}": rsa for layer, rsa in sorted(by_layer.items())}
        if len(by_layer) >= FEWEST_LAYERS and len(set(by_layer.values())) > 1:
            found[run][RSA_DEPTH] = float(stats.spearmanr(list(by_layer), list(by_layer.values())).statistic)
    return found


def _flatness(study: Path) -> dict[tuple[str, int], float]:
    """How wide the minimum of each run is on dev, as far as the line shows, which is one for all runs of a study."""
    rows = AnalysisFolder.of(study, landscape.NAME, LandscapeRow).read()
    widths = {
        (arm, seed): landscape.flatness(points)
        for arm in dict.fromkeys(row.arm for row in rows)
        for seed, points in landscape.lines(rows, arm, DEV).items()
    }
    return {run: flat.width for run, flat in widths.items() if flat is not None}


def tracked_run(cell: RunResult, score: float | None = None) -> TrackedRun | None:
    """The measurements of a run; None where it has none, or they cannot be read, which the report says."""
    if cell.folder is not None:
        with suppress(RunError):
            records = read_fisher(RunFolder(cell.folder).fisher_file)
            return TrackedRun(cell.label, cell.seed, records, score) if records else None
    return None


def tracked_quantities(cell: RunResult) -> dict[str, float]:
    """How high the normalised trace is early on, and how much of a hill it is."""
    run = tracked_run(cell)
    found = {} if run is None else {TRACE_EARLY: run.early, TRACE_HILL: run.hill}
    return {name: value for name, value in found.items() if value is not None}


def schedule_correlations(
    scored: Iterable[tuple[RunResult, float | None]],
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
