"""What a study found, as numbers: tables, figures and sentences all read them from here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median

from gradgate.report.formats import ScoreFormat
from gradgate.runs.records import DEV, Cost, FileSizes
from gradgate.statistics import Comparison, Summary, compare_paired, holm, summarize
from gradgate.study.frontier import forgetting_of, frontier_of
from gradgate.study.results import RunResult, StudyResults
from gradgate.tasks.languages import average_label, averaged_splits


@dataclass(frozen=True)
class CostSummary:
    """Costs of one method over its finished seeds; all None without one.

    Attributes:
        seconds_per_step: median over the seeds.
        seconds_total: mean over the seeds.
        trainable_share: mean over the seeds.
        parameters_trained: the largest of the seeds.
        peak_memory_bytes: the largest of the seeds; None where it was not measured.
        bytes_stored: the largest of the seeds; None where it was not counted.
        files: of the seed that stores most; None where no weights were kept.
    """

    seconds_per_step: float | None = None
    seconds_total: float | None = None
    trainable_share: float | None = None
    parameters_trained: int | None = None
    peak_memory_bytes: int | None = None
    bytes_stored: int | None = None
    files: FileSizes | None = None


@dataclass(frozen=True)
class MethodFindings:
    """One method of a study.

    Attributes:
        cells: one for each seed of the study.
        finished: the cells that have scores.
        failed: how many cells have failed.
        score: on the main split.
        dev: on dev.
        versus: the difference to the reference on the main split; None for the reference itself.
        p: of that difference, corrected over the methods.
        cost: of its finished seeds.
        forgetting: how much worse the metric of forgetting has become; of no seeds where it was not measured.
    """

    name: str
    cells: tuple[RunResult, ...]
    finished: tuple[RunResult, ...]
    failed: int
    score: Summary
    dev: Summary
    versus: Comparison | None
    p: float | None
    cost: CostSummary
    forgetting: Summary


@dataclass(frozen=True)
class Findings:
    """A study's results and what follows from them. ``methods[0]`` is the reference."""

    results: StudyResults
    methods: tuple[MethodFindings, ...]
    format: ScoreFormat

    @property
    def reference(self) -> MethodFindings:
        """What the other methods are compared to."""
        return self.methods[0]

    @property
    def split(self) -> str:
        """The split that methods are compared on."""
        return self.results.main_split

    @property
    def split_label(self) -> str:
        """The same for people."""
        return average_label(self.split)

    @property
    def units(self) -> tuple[str, ...]:
        """What the main score is a mean over: languages, tasks or models; the main split itself if it is no mean."""
        results = self.results
        if self.split not in results.averages:
            return (self.split,)
        if results.parts:
            return results.test_splits
        task = results.study.task
        return averaged_splits((DEV, *results.test_splits), task.languages, task.source).get(self.split, (self.split,))

    @property
    def scored(self) -> tuple[MethodFindings, ...]:
        """The methods with at least one finished seed, in the study's order."""
        return tuple(method for method in self.methods if method.finished)

    @property
    def tests_done(self) -> int:
        """How many p-values the correction is over."""
        return sum(method.p is not None for method in self.methods)

    @property
    def best(self) -> tuple[MethodFindings, ...]:
        """The methods with the best mean: one, or several that are level; none where nothing has finished."""
        sign = 1 if self.results.study.task.metric_higher_is_better else -1
        ranked = [(sign * method.score.mean, method) for method in self.methods if method.score.mean is not None]
        top = max((mean for mean, _ in ranked), default=0.0)
        return tuple(method for mean, method in ranked if mean >= top - 1e-12 * abs(top))

    @property
    def by_score(self) -> tuple[MethodFindings, ...]:
        """All methods, the best first; those without a score are last."""
        sign = 1 if self.results.study.task.metric_higher_is_better else -1
        last = float("inf")
        return tuple(
            sorted(self.methods, key=lambda method: last if method.score.mean is None else -sign * method.score.mean)
        )

    @cached_property
    def forgetting(self) -> ScoreFormat | None:
        """How what was forgotten is shown; None where it was not measured."""
        metrics = [record.metric for method in self.methods for record in forgetting_of(method.finished)]
        spreads = [spread for method in self.methods for spread in (method.forgetting.mean, method.forgetting.sd)]
        return ScoreFormat.fitting(metrics[0], spreads) if metrics else None

    @cached_property
    def frontier(self) -> frozenset[str]:
        """The names of the methods that none beats in score, forgetting and training time."""
        return frontier_of(self.results)

    @property
    def others(self) -> tuple[MethodFindings, ...]:
        """The scored methods other than the reference, the best first."""
        sign = 1 if self.results.study.task.metric_higher_is_better else -1
        others = [method for method in self.scored if method is not self.reference]
        return tuple(sorted(others, key=lambda method: -sign * (method.score.mean or 0.0)))


def find(results: StudyResults) -> Findings:
    """Summarize each method and compare it to the first over their common seeds."""
    reference = _scores(results.of(results.reference), results.main_split)
    methods = [_find_method(results, name, reference) for name in results.study.arm_names]
    corrected = holm([method.p for method in methods])
    methods = [replace(method, p=p) for method, p in zip(methods, corrected, strict=True)]
    spreads = [method.score.sd for method in methods]
    spreads += [method.versus.difference for method in methods if method.versus]
    return Findings(results, tuple(methods), ScoreFormat.fitting(results.study.task.metric, spreads))


def _find_method(results: StudyResults, name: str, reference: dict[int, float]) -> MethodFindings:
    cells = results.of(name)
    scores = _scores(cells, results.main_split)
    versus = None if name == results.reference else compare_paired(scores, reference)
    return MethodFindings(
        name,
        cells,
        tuple(cell for cell in cells if cell.scores),
        sum(cell.state == "failed" for cell in cells),
        summarize(list(scores.values())),
        summarize(list(_scores(cells, DEV).values())),
        versus,
        versus.p if versus else None,
        _summarize_cost([cell.scores.cost for cell in cells if cell.scores]),
        summarize([record.forgotten for record in forgetting_of(cells)]),
    )


def _scores(cells: tuple[RunResult, ...], split: str) -> dict[int, float]:
    scores = {cell.seed: cell.score(split) for cell in cells}
    return {seed: score for seed, score in scores.items() if score is not None}


def _summarize_cost(costs: list[Cost]) -> CostSummary:
    if not costs:
        return CostSummary()
    memory = [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]
    stored = [cost.bytes_stored for cost in costs if cost.bytes_stored is not None]
    return CostSummary(
        seconds_per_step=median(cost.seconds_per_step for cost in costs),
        seconds_total=fmean(cost.seconds_total for cost in costs),
        trainable_share=fmean(cost.trainable_share for cost in costs),
        parameters_trained=max(cost.parameters_trained for cost in costs),
        peak_memory_bytes=max(memory, default=None),
        bytes_stored=max(stored, default=None),
        files=max((cost.files for cost in costs if cost.files), key=lambda files: files.stored, default=None),
    )


def ratio(value: float | None, reference: float | None) -> float | None:
    """A cost over the reference's; None where either is unknown or the reference's is 0."""
    return value / reference if value is not None and reference else None
