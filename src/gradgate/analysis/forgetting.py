"""Read how a study's runs forgot other text while they trained: one value for each checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean

from gradgate.analysis.folder import AnalysisFolder
from gradgate.settings.arms.recorded import ArmName
from gradgate.settings.forgetting import shown_value

NAME = "forgetting"
NO_COURSE = (
    "Each run has two points, the pretrained model and its best weights. 'train' and 'compare' with "
    "keep_checkpoints=True keep those between."
)


@dataclass(frozen=True, kw_only=True)
class ForgettingRow:
    """The metric of other text, of the weights after one step.

    Attributes:
        arm, seed: of the run.
        run: its mark, see :class:`gradgate.study.run_result.RunResult`.
        text: what was measured on, as it was typed.
        fingerprint: of the texts.
        metric, higher_is_better: what was measured.
        step: optimizer steps done; 0 is the pretrained model without an adapter.
        best: whether these are the weights that were best on dev, which is the last row of a run.
        value: None if it is not finite.
    """

    arm: ArmName
    seed: int
    run: str
    text: str
    fingerprint: str
    metric: str
    higher_is_better: bool
    step: int
    best: bool
    value: float | None

    @property
    def key(self) -> tuple[str, int, str, str, str]:
        """The identity of the run and the texts."""
        return self.arm, self.seed, self.run, self.text, self.fingerprint


def forgetting_folder(path: Path) -> AnalysisFolder[ForgettingRow]:
    """Return the folder of this analysis at ``path``."""
    return AnalysisFolder(path, NAME, ForgettingRow)


def texts_of(rows: Iterable[ForgettingRow]) -> tuple[str, ...]:
    """Return the texts that were measured on, in their order."""
    return tuple(dict.fromkeys(row.text for row in rows))


def curves(rows: Iterable[ForgettingRow], text: str) -> dict[str, dict[int, list[float]]]:
    """Return arm to the values of its seeds by step, in the order of the steps."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in sorted(rows, key=lambda row: row.step):
        if row.text == text and row.value is not None and isfinite(row.value):
            found.setdefault(row.arm, {}).setdefault(row.step, []).append(row.value)
    return found


def has_course(rows: Sequence[ForgettingRow]) -> bool:
    """Return whether any run has more than the points before and after."""
    return any(sum(other.key == row.key for other in rows) > 2 for row in rows if row.best)


def caption(rows: Sequence[ForgettingRow], text: str) -> str:
    """Say what the values show, in a sentence."""
    own = [row for row in rows if row.text == text]
    metric, worse = own[0].metric, -1 if own[0].higher_is_better else 1
    parts = []
    for arm in dict.fromkeys(row.arm for row in own):
        before = _mean(row.value for row in own if row.arm == arm and row.step == 0)
        after = _mean(row.value for row in own if row.arm == arm and row.best)
        steps = curves(own, text).get(arm, {})
        if before is None or after is None or not steps:
            parts.append(f"{arm} has no finite {metric}")
            continue
        seeds = max(map(len, steps.values()))  # the best step of one seed is no mean over all
        means = {step: fmean(values) for step, values in steps.items() if len(values) == seeds}
        peak = max(means, key=lambda step: worse * means[step])
        at = (
            f", worst at step {peak} with {shown_value(metric, means[peak])}"
            if worse * means[peak] > max(worse * before, worse * after)
            else ""
        )
        ends = f"from {shown_value(metric, before)} to {shown_value(metric, after)}"
        parts.append(f"{arm} goes {ends} with its best weights{at}")
    return f"{metric} on {text}: {'; '.join(parts)}."


def _mean(values: Iterable[float | None]) -> float | None:
    finite = [value for value in values if value is not None and isfinite(value)]
    return fmean(finite) if finite else None
