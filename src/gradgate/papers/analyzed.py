"""Turn analyses of runs (Fisher traces, representations, landscapes) into numbers that claims are checked on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scipy import stats

from gradgate.analysis import landscape, representations
from gradgate.analysis.fisher import FEWEST_LAYERS, FisherRun, correlation
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
from gradgate.study.run_result import RunResult
from gradgate.tasks.types import ORIGINAL_DEV, TEST


def analyzed_quantities(study: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Return what the analyses in a study's folder measured for each run, by its label and seed.

    An analysis that is absent or unreadable, which the report mentions, adds nothing.
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
    """Compute RSA per layer on dev, without the embeddings, and its rank correlation with depth (AdapterEff, Fig. 2).

    Runs that hold out dev rows of train have the task's own dev rows as a test split, which is used if more of them
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
    """Return the width of each run's minimum on dev.

    Of an arm with a run whose width is only a lower bound, none is returned: a comparison would be between the ends of
    the measured line.
    """
    rows = AnalysisFolder.of(study, landscape.NAME, LandscapeRow).read()
    found: dict[tuple[str, int], float] = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        widths = {seed: landscape.flatness(points) for seed, points in landscape.lines(rows, arm, DEV).items()}
        if not any(flat is not None and flat.at_least for flat in widths.values()):
            found |= {(arm, seed): flat.width for seed, flat in widths.items() if flat is not None}
    return found


def tracked_run(cell: RunResult, score: float | None = None) -> FisherRun | None:
    """Return the measurements of a run; None if there are none, or they are unreadable, which the report mentions."""
    if cell.folder is not None:
        with suppress(RunError):
            records = read_fisher(RunFolder(cell.folder).fisher_file)
            return FisherRun(cell.arm.name, cell.seed, records, score) if records else None
    return None


def tracked_quantities(cell: RunResult) -> dict[str, float]:
    """Compute how high the normalised trace is early in training, and how pronounced its hill is."""
    run = tracked_run(cell)
    numbers = {} if run is None else {TRACE_EARLY: run.early, TRACE_HILL: run.hill}
    return {name: value for name, value in numbers.items() if value is not None}


def schedule_correlations(
    scored: Iterable[tuple[RunResult, float | None]],
) -> tuple[dict[str, dict[int, float]], tuple[str, ...]]:
    """Rank-correlate peak and area of schedules with their scores, for each seed with four schedules or more.

    Returns:
        Name to seed to Spearman's correlation; and the arms that enter it.
    """
    runs = [run for cell, score in scored if (run := tracked_run(cell, score)) is not None and run.is_schedule]
    correlations: dict[str, dict[int, float]] = {}
    for seed in dict.fromkeys(run.seed for run in runs):
        of_seed = [run for run in runs if run.seed == seed]
        for name, ranked in (
            (TRACE_PEAK, correlation(of_seed, lambda run: run.peak)),
            (TRACE_AREA, correlation(of_seed, lambda run: run.area)),
        ):
            if ranked is not None:
                correlations.setdefault(name, {})[seed] = ranked[0]
    return correlations, tuple(dict.fromkeys(run.arm for run in runs))
