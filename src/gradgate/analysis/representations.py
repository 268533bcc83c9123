"""Read the representations of a study's runs: their similarity to the pretrained model, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from gradgate.analysis.folder import AnalysisFolder
from gradgate.runs.records import DEV
from gradgate.settings.arms.recorded import ArmName
from gradgate.statistics import Summary, summarize

NAME = "representations"


@dataclass(frozen=True, kw_only=True)
class RepresentationRow:
    """One layer of one run, compared with the same layer of the pretrained model.

    Attributes:
        arm, seed: of the run.
        run: its mark, see :class:`gradgate.study.run_result.RunResult`.
        split: where the tokens are from.
        tokens: how many.
        layer: 0 is the output of the embeddings, 1 the lowest layer.
        layers: the number of the highest.
        rsa, cka: the similarities; None if one is not defined.
    """

    arm: ArmName
    seed: int
    run: str
    split: str
    tokens: int
    layer: int
    layers: int
    rsa: float | None
    cka: float | None


@dataclass(frozen=True)
class ArmSimilarity:
    """Means over the seeds of one arm, by layer from 0 on; None if no seed has a value.

    Attributes:
        rsa, cka: a list of values, one for each seed, for each layer.
    """

    arm: str
    rsa: tuple[tuple[float, ...], ...]
    cka: tuple[tuple[float, ...], ...]

    def summary(self, measure: str, layer: int) -> Summary:
        """Return the values of ``rsa`` or ``cka`` at a layer, summarized over the seeds."""
        return summarize(getattr(self, measure)[layer])

    def mean(self, measure: str, layer: int) -> float | None:
        """Return the mean over seeds of ``rsa`` or ``cka`` at a layer."""
        values = getattr(self, measure)[layer]
        return fmean(values) if values else None

    def overall(self, measure: str = "rsa") -> float | None:
        """Return the mean over the layers above the embeddings."""
        means = [self.mean(measure, layer) for layer in range(1, len(self.rsa))]
        known = [mean for mean in means if mean is not None]
        return fmean(known) if known else None


def representations_folder(path: Path) -> AnalysisFolder[RepresentationRow]:
    """Return the folder of this analysis at ``path``."""
    return AnalysisFolder(path, NAME, RepresentationRow)


def splits_of(rows: Iterable[RepresentationRow]) -> tuple[str, ...]:
    """Return the splits whose tokens were compared, dev first."""
    return tuple(sorted({row.split for row in rows}, key=lambda split: (split != DEV, split)))


def similarities(rows: Sequence[RepresentationRow], split: str) -> list[ArmSimilarity]:
    """Return one for each arm, in the order of the rows."""
    chosen = [row for row in rows if row.split == split]
    depth = max(row.layers for row in chosen)
    found = []
    for arm in dict.fromkeys(row.arm for row in chosen):
        by_layer = [[row for row in chosen if row.arm == arm and row.layer == layer] for layer in range(depth + 1)]
        found.append(
            ArmSimilarity(
                arm,
                tuple(tuple(row.rsa for row in at if row.rsa is not None) for at in by_layer),
                tuple(tuple(row.cka for row in at if row.cka is not None) for at in by_layer),
            )
        )
    return found


def caption(arms: Sequence[ArmSimilarity]) -> str:
    """Say what the similarities show, in one sentence."""
    known = sorted(
        ((mean, arm) for arm in arms if (mean := arm.overall()) is not None), key=lambda pair: pair[0], reverse=True
    )
    if not known:
        return "No similarity is defined: all tokens of a layer are identical."
    (best, closest), (worst, farthest) = known[0], known[-1]
    fall = _largest_fall(farthest)
    if closest is farthest:
        return f"{closest.arm} keeps an RSA of {best:.3f} with the pretrained model, the mean over its layers{fall}."
    return (
        f"{closest.arm} stays closest to the pretrained model (RSA {best:.3f}, the mean over layers), {farthest.arm} "
        f"changes most ({worst:.3f}{fall})."
    )


def _largest_fall(arm: ArmSimilarity) -> str:
    means = [(mean, layer) for layer in range(1, len(arm.rsa)) if (mean := arm.mean("rsa", layer)) is not None]
    least, layer = min(means)
    return f"; lowest at layer {layer} of {len(arm.rsa) - 1}, with {least:.3f}" if len(means) > 1 else ""
