"""Define ``scores.json`` of a run and of an evaluation: what the weights scored on each split, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, TypeGuard

from gradgate.errors import RunError
from gradgate.files import remedy
from gradgate.runs.records import IF_GIVEN, TaskRecord, read_record
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.tasks.metrics.per_class import ClassScores
from gradgate.tasks.types import DEV

Metrics = Mapping[str, float | None]
"""Metric name to value."""

_LARGEST = 1e100  # beyond it, squares and sums of scores overflow


@dataclass(frozen=True, kw_only=True)
class FileSizes:
    """Bytes on disk of the weights of a run.

    Attributes:
        stored: the run's own files: its delta, or the whole model.
        whole: the whole model.
        base: the pretrained model, which a delta needs once for all tasks; 0 if the whole model is stored.
    """

    stored: int
    whole: int
    base: int = 0

    def of_tasks(self, count: int) -> int:
        """Return the bytes of n tasks that are stored like this one."""
        return self.base + count * self.stored

    def saved(self, count: int) -> float:
        """Return the share that n tasks save, compared with n whole models."""
        return 1 - self.of_tasks(count) / (count * self.whole)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a run; None is what the source of an imported one does not say.

    Attributes:
        steps: optimizer steps done.
        seconds_per_step: median over the steps.
        seconds_total: of the whole training.
        peak_memory_bytes: None if it was not measured.
        trainable_share: open parameters over all parameters, the mean over the steps.
        parameters: in the model.
        parameters_trained: open at any time.
        bytes_stored: that the task needs in addition to the pretrained model; None if it was not counted.
        device: where it ran.
        prefix_rows: rows that the frozen lower layers computed, and rows from the activation cache; None without it.
        files: of the weights; None for an adapter, or if the weights were not kept.
    """

    steps: int | None
    seconds_per_step: float | None
    seconds_total: float | None
    peak_memory_bytes: int | None = None
    trainable_share: float | None
    parameters: int | None
    parameters_trained: int | None
    bytes_stored: int | None = None
    device: str
    prefix_rows: dict[str, int] | None = None
    files: FileSizes | None = field(default=None, metadata=IF_GIVEN)


@dataclass(frozen=True, kw_only=True)
class SplitScores:
    """The scores of one set of weights.

    Attributes:
        metric: that selects.
        dev: the scores on dev.
        tests: the scores on each test split.
        averages: the same over languages, as :func:`gradgate.tasks.languages.average` gives them.
        tasks: the scores of each of several tasks.
    """

    metric: str
    dev: Metrics
    tests: Mapping[str, Metrics]
    tasks: dict[str, SplitScores] | None = field(default=None, metadata=IF_GIVEN)
    averages: Mapping[str, Metrics] = field(default_factory=dict)

    @property
    def test_mean(self) -> float | None:
        """The mean of the metric over the test splits; None without any."""
        values = [value for metrics in self.tests.values() if (value := metrics[self.metric]) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The content of ``scores.json``: the scores of the best weights on dev, and the cost of the run.

    Attributes:
        metric: that selected them.
        best_step: after which the weights were the best; None for the scores of several runs.
        dev: the scores on dev.
        tests: the scores on each test split.
        tasks: the scores of each of several tasks.
        averages: as in :class:`SplitScores`.
        cost: of the run.
        forgetting: of something other than the task; None if it was not measured.
    """

    metric: str
    best_step: int | None
    dev: Metrics
    tests: Mapping[str, Metrics]
    tasks: dict[str, SplitScores] | None = field(default=None, metadata=IF_GIVEN)
    averages: Mapping[str, Metrics] = field(default_factory=dict)
    cost: Cost
    forgetting: ForgettingRecord | None = field(default=None, metadata=IF_GIVEN)

    @property
    def fault(self) -> str | None:
        """The fault of a number that runs are compared by: absent, not finite, or too large to compute with.

        Metrics that select nothing may be NaN, as the loss of a model that diverged late.
        """
        for split in (DEV, *self.tests):
            if (self.dev if split == DEV else self.tests[split]).get(self.metric) is None:
                return f"{self.metric} on {split} is None, expected a finite number"
        for place, value in self._numbers():
            if not isfinite(value) and place.startswith((f"{self.metric} on ", "cost.")):
                return f"{place} is {value}, expected a finite number"
            if isfinite(value) and abs(value) > _LARGEST:
                return f"{place} is {value:g}, expected a number between -{_LARGEST:g} and {_LARGEST:g}"
        return None

    def _numbers(self) -> Iterator[tuple[str, float]]:
        splits = {DEV: self.dev, **self.tests, **self.averages}
        for task, scores in (self.tasks or {}).items():
            splits |= {f"{task}/{name}": values for name, values in {DEV: scores.dev, **scores.tests}.items()}
        for split, metrics in splits.items():
            yield from ((f"{name} on {split}", value) for name, value in metrics.items() if value is not None)
        for item in fields(self.cost):
            value = getattr(self.cost, item.name)
            if isinstance(value, int | float):
                yield f"cost.{item.name}", value


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """The content of ``scores.json`` of an evaluation: the scores of a run's model on a task.

    Attributes:
        run: the settings of the run.
        task: the data.
        metric: the task's.
        tests: the scores on each split.
        averages: as in :class:`SplitScores`.
        classes: the scores of each class on each split; None if the task has none.
    """

    run: dict[str, Any]
    task: TaskRecord
    metric: str
    tests: Mapping[str, Metrics]
    averages: Mapping[str, Metrics]
    classes: dict[str, ClassScores] | None = field(default=None, metadata=IF_GIVEN)


def comparable(value: float | None) -> TypeGuard[float]:
    """Return True for a number that means and deviations can be computed with."""
    return value is not None and abs(value) <= _LARGEST


def read_scores(path: Path) -> Scores:
    """Read ``scores.json`` and check its numbers.

    Raises:
        RunError: as :func:`read_record`.
    """
    scores = read_record(path, Scores)
    if scores.fault is not None:
        raise RunError(f"{path} is damaged: {scores.fault}. {remedy(path)}")
    return scores
