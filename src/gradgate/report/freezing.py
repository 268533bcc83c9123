"""What freezing ever more layers costs and saves: the curve of "What would Elsa do?", from any study that has it.

Lee et al. 2019, Sec. 3 and 4: https://arxiv.org/abs/1911.03090
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean, stdev

from gradgate.errors import MethodError, RunError
from gradgate.methods import Freeze, Full, Head, Method
from gradgate.methods import method as read_method
from gradgate.report import formats
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.study.sharing import ParamCounts, Sizes, model_sizes
from gradgate.training.folder import RunFolder

ENOUGH = 0.95
"""The relative quality that the paper asks of a point."""


@dataclass(frozen=True)
class FreezePoint:
    """One method that keeps the lowest ``frozen`` layers and the embeddings closed.

    Attributes:
        ratios: relative quality of each seed that full fine-tuning has finished too: its score over the mean score
            of full fine-tuning over these seeds, upside down where a lower score is better; empty if undefined.
        quality: the ratio of the two means over these seeds (Sec. 3 of the paper, whose scores are means over
            repeats); None if undefined.
    """

    method: MethodFindings
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

    findings: Findings
    full: MethodFindings
    points: tuple[FreezePoint, ...]
    groups: dict[str, int]

    @property
    def layers(self) -> int:
        """How many layers the model has."""
        return len(self.sizes("model").layers)

    @property
    def full_ratios(self) -> tuple[float, ...]:
        """The relative quality of each seed of full fine-tuning itself."""
        return _point(self.findings, self.full, self.full, 0).ratios

    @property
    def fewest_tuned(self) -> FreezePoint | None:
        """The point with the most frozen layers that keeps 0.95 of the quality."""
        return max((point for point in self.points if point.enough), key=lambda point: point.frozen, default=None)

    def sizes(self, param_counts: ParamCounts) -> Sizes:
        """For :func:`gradgate.study.sharing.saved_share`."""
        return model_sizes(self.groups, param_counts)


def find_curve(findings: Findings) -> FreezeCurve | None:
    """The curve, or None without full fine-tuning and two points that have finished seeds.

    It is None too where no run of these has a readable ``plan.yaml``, which says how many layers there are.
    """
    kinds = {method.name: _read(method.name) for method in findings.methods}
    full = next((method for method in findings.scored if kinds[method.name] == Full()), None)
    frozen = [method for method in findings.methods if isinstance(kinds[method.name], Freeze | Head)]
    plan = _any_plan([full, *frozen]) if full else None
    if full is None or plan is None or sum(bool(method.finished) for method in frozen) < 2:
        return None
    points: dict[int, FreezePoint] = {}
    layers = len(model_sizes(plan.sizes).layers)
    for method in frozen:
        kind = kinds[method.name]
        count = kind.layers if isinstance(kind, Freeze) else layers
        points.setdefault(count, _point(findings, method, full, count))
    return FreezeCurve(findings, full, tuple(points[count] for count in sorted(points)), plan.sizes)


def answer(curve: FreezeCurve) -> str:
    """How few tuned layers suffice, in one sentence, or why that cannot be said."""
    full, metric = curve.full, curve.findings.format
    measured = [point for point in curve.points if point.quality is not None]
    if not measured:
        return f"Relative quality cannot be given: {_why_undefined(curve)}."
    what = f"{full.name}'s {metric.name} on {curve.findings.split_label}"
    best = curve.fewest_tuned
    if best is None:
        nearest = max(measured, key=lambda point: point.quality or 0.0)
        return (
            f"No measured point keeps {ENOUGH} of {what}; the nearest, {nearest.method.name}, keeps "
            f"{formats.quality(nearest.quality)}."
        )
    tuned = formats.counted(curve.layers - best.frozen, "layer") if best.frozen < curve.layers else "the head alone"
    short = [point.method.name for point in measured if point.frozen < best.frozen and not point.enough]
    although = f", although {formats.listed(short)} {'keeps' if len(short) == 1 else 'keep'} less" if short else ""
    return (
        f"Tuning {tuned}{f' of {curve.layers}' if best.frozen < curve.layers else ''} is enough to keep {ENOUGH} of "
        f"{what}: {best.method.name} keeps {formats.quality(best.quality)} "
        f"({formats.counted(len(best.ratios), 'seed')}){although}."
    )


def _why_undefined(curve: FreezeCurve) -> str:
    mean = curve.full.score.mean
    if mean is not None and mean <= 0:
        return (
            f"{curve.full.name} scored {curve.findings.format.value(mean)} on {curve.findings.split_label}, and a "
            f"share of a score has a meaning only above 0"
        )
    return f"no point has finished a seed that {curve.full.name} has finished too, with scores above 0"


def notes(curve: FreezeCurve) -> list[str]:
    """How the numbers come about, for a reader who was not there."""
    full = curve.full.name
    higher = curve.findings.results.study.task.metric_higher_is_better
    share = f"its mean score over that of {full}" if higher else f"the mean score of {full} over its own"
    return [
        f"The relative quality of a point is {share}, over the seeds that both finished (Lee et al. 2019). It does not "
        "allow for the score that guessing would reach, and says little where a score is near 0.",
        "Saved parameters: K tasks keep one copy of the frozen part (embeddings E and N layers) and K copies of the "
        "rest, which saves (K − 1)(E + N layers) / (K × all) of the parameters of K models. Tied weights count once.",
    ]


def _read(name: str) -> Method | None:
    """None for a method that this version does not know."""
    with suppress(MethodError):
        return read_method(name)
    return None


def _any_plan(methods: Sequence[MethodFindings]) -> WrittenPlan | None:
    for cell in (cell for method in methods for cell in method.finished if cell.folder):
        with suppress(RunError):
            assert cell.folder is not None
            plan = read_plan(RunFolder(cell.folder).plan_file)
            if plan.sizes:
                return plan
    return None


def _point(findings: Findings, method: MethodFindings, full: MethodFindings, frozen: int) -> FreezePoint:
    scores, whole = ({c.seed: c.score(findings.split) for c in m.finished} for m in (method, full))
    seeds = scores.keys() & whole.keys()
    ours = [score for seed in sorted(seeds) if (score := scores[seed]) is not None]
    theirs = [score for seed in sorted(seeds) if (score := whole[seed]) is not None]
    if not theirs or (reference := fmean(theirs)) <= 0:
        return FreezePoint(method, frozen)
    if findings.results.study.task.metric_higher_is_better:
        return FreezePoint(method, frozen, tuple(score / reference for score in ours), fmean(ours) / reference)
    if min(ours) <= 0:  # an error of 0 has no share of another
        return FreezePoint(method, frozen)
    return FreezePoint(method, frozen, tuple(reference / score for score in ours), reference / fmean(ours))
