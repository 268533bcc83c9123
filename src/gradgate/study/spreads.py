"""Say what difference a number of seeds can decide, from recorded spreads of like tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from gradgate.csv_rows import CsvRows
from gradgate.statistics import detectable, pairs_for_equivalence, pairs_needed
from gradgate.statistics.family import LEVEL
from gradgate.statistics.verdicts import POWER
from gradgate.study.results import read_study
from gradgate.study.study_file import STUDY_FILE
from gradgate.study.verdicts import POINT, verdicts_of
from gradgate.tasks.metrics.page_unit import page_factor

FILE = Path(__file__).with_name("spreads.csv")


@dataclass(frozen=True, kw_only=True)
class RecordedSpread:
    """The standard deviations of paired differences in one recorded study, without collapsed runs.

    Attributes:
        task, model, metric: of the study.
        comparisons: arms that were compared with the reference.
        seeds: the fewest that a comparison has.
        low, sd, high: the first decile, the median and the ninth decile over the comparisons, as shares of 1.
        source: the study.
    """

    task: str
    model: str
    metric: str
    comparisons: int
    seeds: int
    low: float
    sd: float
    high: float
    source: str


SPREADS = CsvRows(RecordedSpread, "python -m evidence pages")


@dataclass(frozen=True)
class Decidable:
    """The differences that the seeds of one task and model can detect.

    Attributes:
        label: the task, model or size if the study has several; otherwise empty.
        task, metric: names.
        seeds: of each arm.
        tests: arms that are compared with the reference.
        basis: where the spread is from, in words; None if no like task was recorded.
        sd: the standard deviation of paired differences, in the unit of the page, as all numbers here.
        sd_range: its smallest and largest value there.
        difference: the smallest that is found with 80 % power at 0.05 over the tests; None if unknown.
        difference_range: the same at both ends of ``sd_range``.
        margin: one point, or None for metrics without bounds.
        seeds_margin: that find a difference of the margin.
        seeds_equivalent: that show equivalence within the margin.
    """

    label: str
    task: str
    metric: str
    seeds: int
    tests: int
    basis: str | None = None
    sd: float | None = None
    sd_range: tuple[float, float] | None = None
    difference: float | None = None
    difference_range: tuple[float, float] | None = None
    margin: float | None = None
    seeds_margin: int | None = None
    seeds_equivalent: int | None = None

    @property
    def sentence(self) -> str:
        """A sentence on what the seeds can decide."""
        where = f"Power of {self.label}" if self.label else "Power"
        seeds = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        if self.basis is None:
            return (
                f"{where}: what {seeds} can detect is unknown, because no similar task is recorded ({self.metric} "
                f"of {self.task}). 'gradgate study power' computes it from finished runs with 3 or more seeds."
            )
        unit = " points" if self.margin is not None else ""
        if self.difference is None or self.difference_range is None:
            needed = "" if self.seeds_margin is None else f"; {self.seeds_margin:,} would detect {self.margin:g} point"
            return f"{where}: 1 seed decides nothing, because it has no spread{needed}, by {self.basis}."
        low, high = self.difference_range
        over = f" over {self.tests} tests" if self.tests > 1 else ""
        line = (
            f"{where}: {seeds} detect a difference of {self.difference:.2g}{unit} with 80 % power (p < "
            f"0.05{over}), and of {low:.2g} to {high:.2g} over the range of {self.basis}."
        )
        if self.seeds_margin is not None and self.seeds_equivalent is not None:
            line += (
                f" {self.seeds_margin:,} seeds detect {self.margin:g} point; {self.seeds_equivalent:,} show "
                "equivalence within it if there is no difference."
            )
        return line


@dataclass(frozen=True)
class _Spread:
    basis: str
    low: float
    sd: float
    high: float


def decidable(label: str, task: str, metric: str, model: str, seeds: int, tests: int, folder: Path | None) -> Decidable:
    """Return what a number of seeds can decide.

    Args:
        label: of the task and model among several.
        task, metric, model: names; the last word of a model's path is compared.
        seeds: of each arm.
        tests: arms that are compared with the reference.
        folder: of the study; None without one. If it has runs, their spread counts, and otherwise that of recorded runs
            of the same task and metric, of the same model if there are such.
    """
    found = (folder and _of_study(folder)) or _of_like(task, metric, Path(model).name)
    if found is None:
        return Decidable(label, task, metric, seeds, tests)
    factor, level = page_factor(metric), LEVEL / tests
    margin = POINT if factor == 100 else None
    least = detectable(seeds, POWER, level) * factor if seeds > 1 else None
    return Decidable(
        label,
        task,
        metric,
        seeds,
        tests,
        basis=found.basis,
        sd=found.sd * factor,
        sd_range=(found.low * factor, found.high * factor),
        difference=None if least is None else least * found.sd,
        difference_range=None if least is None else (least * found.low, least * found.high),
        margin=None if margin is None else margin * factor,
        seeds_margin=None if margin is None else pairs_needed(margin / found.sd, POWER, level),
        seeds_equivalent=None if margin is None else pairs_for_equivalence(margin / found.sd),
    )


def _of_study(folder: Path) -> _Spread | None:
    """Return the spread of the runs that a study has; None without three pairs of an arm."""
    if not (folder / STUDY_FILE).is_file():
        return None
    results = read_study(folder)
    versus = [each.verdict.comparison for each in verdicts_of(results)]
    known = [each.sd for each in versus if each.n >= 3 and each.sd]
    if not known:
        return None
    return _Spread(f"the {_comparisons(len(known))} that {folder} has", min(known), median(known), max(known))


def _of_like(task: str, metric: str, model: str) -> _Spread | None:
    """Return the spread of recorded runs of the same task; None if none was recorded."""
    same = [row for row in _recorded() if _plain(row.task) == _plain(task) and row.metric == metric]
    rows = [row for row in same if _plain(model).startswith(_plain(row.model))] or same
    if not rows:
        return None
    models = ", ".join(sorted({row.model for row in rows}))
    basis = f"{_comparisons(sum(row.comparisons for row in rows))} recorded of {task} with {models}"
    return _Spread(basis, min(row.low for row in rows), median(row.sd for row in rows), max(row.high for row in rows))


def recorded_tasks() -> tuple[str, ...]:
    """Return the tasks and metrics of which spreads were recorded, such as ``rte (accuracy)``."""
    return tuple(sorted({f"{row.task} ({row.metric})" for row in _recorded()}))


@cache
def _recorded() -> Sequence[RecordedSpread]:
    return SPREADS.read(FILE)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _comparisons(count: int) -> str:
    return f"{count} comparison{'s' * (count != 1)}"
