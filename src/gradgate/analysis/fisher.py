"""Compare runs by the Fisher information that they tracked, after FUN (Liu et al. 2023, Fig. 3 and 4).

Definitions: a layer's tr(F) is Eq. 1 of the paper (:class:`gradgate.measure.track.FisherTrack`). The *normalised* trace
of a step is the sum over the layers that are open there, divided by their number. Its moving average is over a tenth
of a run's measurements, 10 at most, centred; the paper does not state its window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gradgate.analysis.runs import find_parts, run_folder
from gradgate.errors import RunError
from gradgate.measure.track import FisherRecord, read_fisher
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord, read_record
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.results import StudyResults, read_study

NAME = "fisher"
WIDEST = 10
FEWEST_LAYERS = 3
"""Fewer layers than these are in any order too often by chance."""
FEWEST_SCHEDULES = 4
"""Fewer schedules than these cannot be correlated with their scores."""
_MISSING = "train with track='fisher:every=50,batches=8'"


@dataclass(frozen=True)
class FisherRun:
    """The measurements of one run, at least one.

    Attributes:
        arm: what learned, as tables and figures name it.
        seed: of the run.
        records: by step.
        score: on the split that methods are compared on; None outside of a study.
    """

    arm: str
    seed: int
    records: tuple[FisherRecord, ...]
    score: float | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers, from the bottom."""
        return tuple(self.records[0].traces)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Optimizer steps done at each measurement."""
        return tuple(record.step for record in self.records)

    @property
    def window(self) -> int:
        """The number of measurements that the moving average is over."""
        return max(1, min(WIDEST, len(self.records) // 10))

    @cached_property
    def normalised(self) -> NDArray[np.float64]:
        """Shape ``(measurements,)``; NaN if no layer is open, as while the head learns alone."""
        means = [[record.traces[name] for name in record.open if name in record.traces] for record in self.records]
        return np.array([np.mean(traces) if traces else np.nan for traces in means])

    @cached_property
    def smoothed(self) -> NDArray[np.float64]:
        """The moving average of :attr:`normalised`."""
        return moving_average(self.normalised, self.window)

    @property
    def is_schedule(self) -> bool:
        """Whether layers opened on the way."""
        return len({record.open for record in self.records}) > 1

    @property
    def peak(self) -> float | None:
        """The highest value of the smoothed curve."""
        return None if np.isnan(self.smoothed).all() else float(np.nanmax(self.smoothed))

    @property
    def area(self) -> float | None:
        """The area under the smoothed curve over the steps: its mean height. None with one measurement."""
        return self._mean_until(self.steps[-1])

    @property
    def early(self) -> float | None:
        """The mean height in the first third of the training."""
        return self._mean_until(self.steps[-1] / 3)

    @property
    def hill(self) -> float | None:
        """The height of the peak above the higher end of the curve, as a share of the peak; 0 at an end."""
        known = self.smoothed[~np.isnan(self.smoothed)]
        peak = float(np.max(known, initial=0.0))
        return None if len(known) < FEWEST_LAYERS or not peak else float(1 - max(known[0], known[-1]) / peak)

    def _mean_until(self, last: float) -> float | None:
        known = [(s, v) for s, v in zip(self.steps, self.smoothed, strict=True) if s <= last and not np.isnan(v)]
        if not known:
            return None
        steps, values = np.array(known).T
        span = steps[-1] - steps[0]
        return float((np.diff(steps) * (values[1:] + values[:-1])).sum() / (2 * span)) if span else float(values[0])


def moving_average(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the mean over a centred window, narrower at the ends; NaN is left out and stays."""
    before, after = (window - 1) // 2, window // 2
    found = np.full(len(values), np.nan)
    for place in np.flatnonzero(~np.isnan(values)):
        found[place] = np.nanmean(values[max(0, place - before) : place + after + 1])
    return found


def order_of(record: FisherRecord) -> tuple[str, ...]:
    """Return the layers as FUN would open them: the largest trace first; in a tie, the higher layer."""
    places = {name: place for place, name in enumerate(record.traces)}
    return tuple(sorted(record.traces, key=lambda name: (-record.traces[name], -places[name])))


def top_down(record: FisherRecord) -> float | None:
    """Return Spearman's correlation of this order with top-down, below the top layer, which FUN has on anyway.

    None with fewer than three.
    """
    names = list(record.traces)[:-1]
    if len(names) < FEWEST_LAYERS:
        return None
    order = [name for name in order_of(record) if name in names]
    return float(
        stats.spearmanr([order.index(name) for name in names], [-place for place in range(len(names))]).statistic
    )


def arms_of(runs: Sequence[FisherRun]) -> dict[str, list[FisherRun]]:
    """Return the runs of each arm, in order."""
    found: dict[str, list[FisherRun]] = {}
    for run in runs:
        found.setdefault(run.arm, []).append(run)
    return found


def smoothed_at(runs: Sequence[FisherRun]) -> dict[int, list[float]]:
    """Return step to the values of the smoothed curves there, one per seed that has a number."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for step, value in zip(run.steps, run.smoothed, strict=True):
            if not np.isnan(value):
                found.setdefault(step, []).append(float(value))
    return dict(sorted(found.items()))


def mean_traces(runs: Sequence[FisherRun]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the steps that all runs have measured, and tr(F) there: ``(layers, steps)``, the mean over runs."""
    steps = sorted(set(runs[0].steps).intersection(*(run.steps for run in runs)))
    by_run = [[list(record.traces.values()) for record in run.records if record.step in steps] for run in runs]
    return steps, np.array(by_run).mean(axis=0).T


def correlation(runs: Sequence[FisherRun], quantity: Callable[[FisherRun], float | None]) -> tuple[float, float] | None:
    """Return Spearman's correlation, over schedules, of a quantity with the score, and its two-sided p; means of seeds.

    None with fewer than four schedules, or where either is the same for all.
    """
    pairs = []
    for own in arms_of([run for run in runs if run.is_schedule]).values():
        known = [(found, run.score) for run in own if (found := quantity(run)) is not None and run.score is not None]
        if known:
            pairs.append(np.mean(np.array(known, dtype=float), axis=0))
    if len(pairs) < FEWEST_SCHEDULES or any(len(set(column)) < 2 for column in zip(*pairs, strict=True)):
        return None
    result = stats.spearmanr(*np.array(pairs).T)
    return float(result.statistic), float(result.pvalue)


@dataclass(frozen=True)
class TrackedGroup:
    """Runs that share a figure.

    Attributes:
        folder: of the study or the run.
        runs: arm by arm.
        results: of the study; None for single runs.
        part: the name of its folder among the parts of a study of several tasks or models.
    """

    folder: Path
    runs: tuple[FisherRun, ...]
    results: StudyResults | None = None
    part: str = ""

    @property
    def arms(self) -> list[str]:
        """The names of the arms: of the whole study, or in the order of single runs."""
        return list(self.results.study.arm_names if self.results else arms_of(self.runs))


def find_tracked(paths: Sequence[Path]) -> list[TrackedGroup]:
    """Find the tracked runs of a study, one group per part; or the named runs, as one group.

    Raises:
        UsageError: for a study together with others, runs of different models or tasks, or two of one arm and seed.
        RunError: for a folder that is neither or in which nothing was tracked, or a damaged file.
    """
    parts = find_parts(paths)
    if not parts:
        return [TrackedGroup(paths[0], tuple(_single(path) for path in paths))]
    groups = []
    for part, name in parts.items():
        results = read_study(part)
        if runs := tracked_runs(results):
            groups.append(TrackedGroup(part, tuple(runs), results, name))
    if not groups:
        raise RunError(f"No finished run of the study in {paths[0]} has tracked its Fisher information: {_MISSING}.")
    return groups


def tracked_runs(results: StudyResults) -> list[FisherRun]:
    """Return the finished runs of a study that have measurements, arm by arm.

    Raises:
        RunError: for a damaged file.
    """
    found = []
    for cell in results.cells:
        if cell.folder is not None and cell.scores is not None:
            records = read_fisher(RunFolder(cell.folder).fisher_file)
            if records:
                found.append(FisherRun(cell.arm.name, cell.seed, records, cell.score(results.main_split)))
    return found


def _single(path: Path) -> FisherRun:
    folder = run_folder(path)
    records = read_fisher(folder.fisher_file)
    if not records:
        raise RunError(f"The run in {path} has not tracked its Fisher information: {_MISSING}.")
    run = read_record(folder.run_file, RunRecord)
    return FisherRun(arm_of_texts(run.method, run.adapter).name, run.seed, records)
