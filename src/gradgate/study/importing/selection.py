"""Select the setting at which each arm of imported results is compared, where several were tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gradgate.runs.records import DEV
from gradgate.study.importing.scores import Score

Setting = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SelectedScores:
    """The scores of one setting of each run.

    Attributes:
        scores: that are left.
        shared: arm to its setting, where several were tried and one is compared on all seeds.
        single: arms of which each seed has the setting that was best for it, as no setting has all seeds.
    """

    scores: list[Score]
    shared: Mapping[str, Setting]
    single: tuple[str, ...]


def select(scores: Sequence[Score], metric: str, higher: bool) -> SelectedScores:
    """Return the scores at one setting of each arm: that with the best mean on dev over all seeds of the arm.

    An arm without dev is judged on the split that is reported. If no setting was run with every seed, each seed keeps
    the setting that was best for it.

    Args:
        scores: of one task, model and training size.
        metric: that arms are compared on.
        higher: whether higher values of it are better.
    """
    by_arm: dict[str, list[Score]] = {}
    for score in scores:
        by_arm.setdefault(score.cell.arm, []).append(score)
    kept: list[Score] = []
    shared: dict[str, Setting] = {}
    single = []
    for arm, own in by_arm.items():
        chosen = _chosen(own, metric, higher)
        kept += [score for score in own if not chosen or chosen.get(score.cell.seed) == score.settings]
        if len(set(chosen.values())) == 1:
            shared[arm] = next(iter(chosen.values()))
        elif chosen:
            single.append(arm)
    return SelectedScores(kept, shared, tuple(single))


def _chosen(scores: Sequence[Score], metric: str, higher: bool) -> dict[str, Setting]:
    """Return seed to setting for one arm; nothing if each seed has one setting alone.

    A seed of which no setting can be judged has none.
    """
    tried: dict[str, set[Setting]] = {}
    for score in scores:
        tried.setdefault(score.cell.seed, set()).add(score.settings)
    if all(len(settings) == 1 for settings in tried.values()):
        return {}
    judged = _judged(scores, metric, higher)
    whole = {setting: values for setting, values in judged.items() if values.keys() == tried.keys()}
    if whole:
        return dict.fromkeys(tried, max(whole, key=lambda setting: fmean(whole[setting].values())))
    chosen = {seed: next(iter(settings)) for seed, settings in tried.items() if len(settings) == 1}
    for seed in tried.keys() - chosen.keys():
        own = [setting for setting, values in judged.items() if seed in values]
        if own:
            chosen[seed] = max(own, key=lambda setting: judged[setting][seed])
    return chosen


def _judged(scores: Sequence[Score], metric: str, higher: bool) -> dict[Setting, dict[str, float]]:
    """Return setting to seed to score, on dev if the arm has it; higher is better."""
    own = [score for score in scores if score.cell.metric == metric]
    found: dict[Setting, dict[str, float]] = {}
    for score in [score for score in own if score.cell.split == DEV] or own:
        value = score.value if higher else -score.value
        seeds = found.setdefault(score.settings, {})
        seeds[score.cell.seed] = max(value, seeds.get(score.cell.seed, value))
    return found


def selection_notes(selections: Iterable[SelectedScores]) -> Iterable[str]:
    """Yield which setting of each arm is compared."""
    shared: dict[str, set[Setting]] = {}
    single: dict[str, None] = {}
    for selection in selections:
        single |= dict.fromkeys(selection.single)
        for arm, setting in selection.shared.items():
            shared.setdefault(arm, set()).add(setting)
    if shared:
        chosen = (
            f"{arm} ({', '.join(f'{name}={value}' for name, value in next(iter(settings)))})"
            if len(settings) == 1
            else f"{arm} (chosen for each task and model)"
            for arm, settings in shared.items()
        )
        yield f"Several settings were tried. Compared at the one with the best mean over seeds: {', '.join(chosen)}."
    if single:
        yield (
            f"Several settings were tried for {', '.join(single)}, none of them with every seed: each seed is compared "
            "at the setting that was best for it."
        )
