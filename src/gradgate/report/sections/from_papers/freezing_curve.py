"""Read quality against frozen layers: full fine-tuning and the arms of a study that freeze ever more layers.

Lee et al. 2019, Sec. 3 and 4: https://arxiv.org/abs/1911.03090
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean, stdev

from gradgate.analysis.sharing import ParamCounts, Sizes, model_sizes
from gradgate.errors import RunError
from gradgate.methods import Freeze, Full, Head
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import Timeline
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.runs.folder import RunFolder
from gradgate.settings.arms.arm import Arm
from gradgate.statistics import relative_quality
from gradgate.study.results import TASK
from gradgate.study.run_result import RunResult

ENOUGH = 0.95
"""The relative quality that the paper asks of a point."""


@dataclass(frozen=True)
class FreezePoint:
    """One arm that keeps the lowest ``frozen`` layers and the embeddings closed.

    Attributes:
        ratios: relative quality of each seed that full fine-tuning has finished too, against the mean scores of full
            fine-tuning over these seeds; empty if undefined.
        quality: the relative quality of the mean scores over these seeds (Sec. 3 of the paper, whose scores are means
            over repeats); None if undefined. :func:`gradgate.statistics.relative_quality` defines both.
    """

    arm: ArmSummary
    frozen: int
    ratios: tuple[float, ...] = ()
    quality: float | None = None

    @property
    def spread(self) -> float | None:
        """The sample standard deviation of ``ratios``; None for fewer than two."""
        return stdev(self.ratios) if len(self.ratios) > 1 else None

    @property
    def enough(self) -> bool:
        """Whether it keeps 0.95 of the quality."""
        return self.quality is not None and self.quality >= ENOUGH


@dataclass(frozen=True)
class FreezeCurve:
    """Full fine-tuning and the points of a study, fewest frozen layers first.

    Attributes:
        groups: the model's groups from the bottom up, name to number of parameters.
    """

    study: StudySummary
    full: ArmSummary
    points: tuple[FreezePoint, ...]
    groups: dict[str, int]

    @property
    def layers(self) -> int:
        """The number of layers of the model."""
        return len(self.sizes("model").layers)

    @property
    def full_ratios(self) -> tuple[float, ...]:
        """The relative quality of each seed of full fine-tuning itself."""
        return _point(self.study, self.full, self.full, 0).ratios

    @property
    def fewest_tuned(self) -> FreezePoint | None:
        """The point with the most frozen layers that keeps 0.95 of the quality."""
        return max((point for point in self.points if point.enough), key=lambda point: point.frozen, default=None)

    def sizes(self, param_counts: ParamCounts) -> Sizes:
        """Return the sizes that savings are counted with."""
        return model_sizes(self.groups, param_counts)


def find_curve(study: StudySummary) -> FreezeCurve | None:
    """Return the curve, or None without full fine-tuning and two points that have finished seeds.

    It is None too if no run of these has a readable ``plan.yaml``, which says how many layers there are.
    """
    alone = (arm for arm in study.results.study.arms if arm == Arm(arm.method))
    kinds = dict.fromkeys(arm.name for arm in study.arms) | {arm.name: arm.method for arm in alone}
    full = next((arm for arm in study.scored if kinds[arm.name] == Full()), None)
    frozen = [m for m in study.arms if isinstance(kind := kinds[m.name], Freeze | Head) and _is_point(kind)]
    plan = _any_plan(study, [full, *frozen]) if full else None
    if full is None or plan is None or sum(bool(arm.finished) for arm in frozen) < 2:
        return None
    points: dict[int, FreezePoint] = {}
    layers = len(model_sizes(plan.sizes).layers)
    for arm in frozen:
        kind = kinds[arm.name]
        count = kind.closed_of(layers) if isinstance(kind, Freeze) else layers
        points.setdefault(count, _point(study, arm, full, count))
    return FreezeCurve(study, full, tuple(points[count] for count in sorted(points)), plan.sizes)


def _is_point(method: Freeze | Head) -> bool:
    """Return whether all is closed below some layer, and not a tower or other weights alone."""
    return not (isinstance(method, Freeze) and (method.tower or method.only))


def _any_plan(study: StudySummary, arms: Sequence[ArmSummary]) -> Timeline | None:
    """Return a plan that says how large the model's groups are; None too for a study of several models."""
    results, names = study.results, [arm.name for arm in arms]
    if results.parts and results.split_unit != TASK:
        return None
    for cell in results.runs:
        if cell.arm.name in names and cell.scores and cell.folder:
            with suppress(RunError):
                plan = read_timeline(RunFolder(cell.folder).plan_file)
                if plan.sizes:
                    return plan
    return None


def _point(study: StudySummary, arm: ArmSummary, full: ArmSummary, frozen: int) -> FreezePoint:
    units = study.units
    ours, theirs = (_complete(cells.finished, units) for cells in (arm, full))
    seeds = sorted(ours.keys() & theirs.keys())
    reference = [fmean(theirs[seed][place] for seed in seeds) for place in range(len(units))] if seeds else []
    higher = study.record.task.metric_higher_is_better
    ratios = [relative_quality(ours[seed], reference, higher) for seed in seeds]
    means = [fmean(ours[seed][place] for seed in seeds) for place in range(len(reference))]
    known = tuple(ratio for ratio in ratios if ratio is not None)
    if len(known) < len(ratios):  # an error of 0 has no share of another
        return FreezePoint(arm, frozen)
    return FreezePoint(arm, frozen, known, relative_quality(means, reference, higher))


def _complete(cells: Sequence[RunResult], units: Sequence[str]) -> dict[int, list[float]]:
    """Return seed to its scores on these splits, for the runs that have all of them."""
    rows = {cell.seed: [score for unit in units if (score := cell.score(unit)) is not None] for cell in cells}
    return {seed: row for seed, row in rows.items() if len(row) == len(units)}
