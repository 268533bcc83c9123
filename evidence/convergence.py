"""Measure whether the runs of a study had converged: how much their scores on dev still change at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from gradgate.settings.arms.recorded import arm_of_texts, recorded_arm
from gradgate.study.replay.curve_rows import CurveRow

LATE = 0.2
"""The share of a run's steps that is its end, at least: evaluations divide it further."""


@dataclass(frozen=True)
class LateChange:
    """How much one arm's scores on dev change at the end, in points, positive for better ones; one value per run.

    Attributes:
        size: training examples; None for all.
    """

    arm: str
    size: int | None
    by_run: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return fmean(self.by_run)

    def __str__(self) -> str:
        """Return the mean, the lowest and the highest."""
        return f"{self.mean:+.1f} ({min(self.by_run):+.1f} to {max(self.by_run):+.1f})".replace("-", "−")


def late_changes(rows: Sequence[CurveRow]) -> list[LateChange]:
    """Return the change of each arm, with each size of the training set.

    It is from the last evaluation before the last fifth of the steps to the last one.
    Runs without an evaluation before their last fifth are left out.
    """
    runs: dict[tuple[str, int | None], dict[tuple[int, int], list[CurveRow]]] = {}
    for row in rows:
        if row.dev is not None:
            name = without_rate(row.arm, row.method, row.adapter)
            runs.setdefault((name, row.train_size), {}).setdefault((row.seed, row.of_steps), []).append(row)
    changes = {key: [change for own in by_run.values() for change in _change(own)] for key, by_run in runs.items()}
    return [LateChange(*key, tuple(own)) for key, own in changes.items() if own]


@cache  # thousands of rows have the same few arms
def without_rate(arm: str, method: str, adapter: str | None) -> str:
    """Return the name of a run's arm, without the rate that it trained at."""
    own = {name: value for name, value in recorded_arm(arm).overrides.items() if name != "lr"}
    return arm_of_texts(method, adapter).with_settings(own).name


def _change(rows: Sequence[CurveRow]) -> Iterator[float]:
    ordered = sorted(rows, key=lambda row: row.step)
    before, last = [row for row in ordered if row.step <= (1 - LATE) * row.of_steps], ordered[-1]
    if before and before[-1].dev is not None and last.dev is not None:
        yield (1 if last.better == "higher" else -1) * 100 * (last.dev - before[-1].dev)
