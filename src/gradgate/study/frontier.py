"""Find the methods of a study that no other beats: the frontier of score, forgetting and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from gradgate.settings.forgetting import ForgettingRecord
from gradgate.study.results import StudyResults
from gradgate.study.run_result import RunResult


@dataclass(frozen=True)
class Trade:
    """The score and costs of one method, as means over the finished seeds that all measured methods have.

    Attributes:
        score: on the split that methods are compared on, turned so that lower is better.
        forgotten: how much worse the metric of forgetting has become.
        seconds: of the training of a run.
    """

    score: float
    forgotten: float
    seconds: float

    @property
    def point(self) -> tuple[float, float, float]:
        """All three; lower is better in each."""
        return self.score, self.forgotten, self.seconds


def frontier(points: Mapping[str, Sequence[float]]) -> frozenset[str]:
    """Return the names whose point no other beats.

    A point beats another if it is as good or better in everything, and better in something. Equal points do not beat
    each other.

    Args:
        points: name to values, of which lower ones are better.
    """
    return frozenset(
        name for name, point in points.items() if not any(_beats(other, point) for other in points.values())
    )


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)


def forgetting_of(cells: Iterable[RunResult]) -> list[ForgettingRecord]:
    """Return the forgetting of the finished runs, if it was measured and is finite."""
    records = [cell.scores.forgetting for cell in cells if cell.scores is not None]
    return [record for record in records if record is not None and isfinite(record.forgotten)]


def trades(results: StudyResults) -> dict[str, Trade]:
    """Return label to trade, for the methods whose forgetting was measured; none if these share no seed."""
    measured = {label: found for label in results.study.arm_names if (found := _by_seed(results, label))}
    shared = set[int]().union(*measured.values()).intersection(*measured.values())
    return {
        label: Trade(*(fmean(values) for values in zip(*(own[seed].point for seed in shared), strict=True)))
        for label, own in measured.items()
        if shared
    }


def _by_seed(results: StudyResults, label: str) -> dict[int, Trade]:
    """Return seed to trade, for the finished runs of a method whose score, forgetting and seconds are known."""
    sign = -1.0 if results.study.task.metric_higher_is_better else 1.0
    found = {}
    for cell in results.of(label):
        score, lost = cell.score(results.main_split), forgetting_of([cell])
        seconds = cell.scores.cost.seconds_total if cell.scores is not None else None
        if score is not None and lost and seconds is not None:
            found[cell.seed] = Trade(sign * score, lost[0].forgotten, seconds)
    return found


def frontier_of(results: StudyResults) -> frozenset[str]:
    """Return the labels on the frontier of score, forgetting and seconds of training."""
    return frontier({label: trade.point for label, trade in trades(results).items()})
