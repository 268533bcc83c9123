"""Say what limits the verdicts on a study: how long it trained, which rates it took, what its scores can show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evidence.arms import grid_arms, method_of, study_arms
from evidence.convergence import late_changes
from evidence.grids import ReplayedGrid
from evidence.searches import ROWS, at_an_end, tied
from evidence.studies import Study
from gradgate.errors import listed
from gradgate.settings.arms.arm import split_arm
from gradgate.study.replay.curve_rows import WHOLE, read_rows
from gradgate.tasks.find import find_task

SHORT_TRAINING, AT_AN_END, TIED, NEAR_GUESSING, AT_CEILING, FAMILIAR, LANGUAGES, AFTER_TEST = NAMES = (
    "short training",
    "rates at the edge",
    "rates tied on dev",
    "scores near guessing",
    "scores at the ceiling",
    "encoder trained for similarity before",
    "little trained language adapters",
    "changed after scores on test",
)
TRACES, REPRESENTATIONS = "traces at different rates", "representations at different rates"
"""The limits of claims that compare Fisher traces, which a learning rate changes as a schedule does, or how far
representations move, which it changes too."""
DEV_ROWS = "dev rows that picked the rates"
"""The limit of claims that compare scores on dev."""
CEILING = 0.99
"""Of a score that is at most 1: if all arms reach it, there is little left in which they could differ."""
RISES = 1.0
"""An arm still rises if dev gains more points than this at the end (``late_changes``), on average over its runs."""


@dataclass(frozen=True)
class Limit:
    """One thing about the training of a study that may change its verdicts.

    Attributes:
        name: one of ``NAMES``, ``TRACES``, ``REPRESENTATIONS`` or ``DEV_ROWS``.
        how: in what way.
        arms: those that it is about; None for all.
    """

    name: str
    how: str
    arms: frozenset[str] | None = None

    def __str__(self) -> str:
        """Return the name, with how in parentheses."""
        return f"{self.name} ({self.how})"

    def is_about(self, arms: Collection[str]) -> bool:
        """Return True if it limits a comparison of these arms."""
        return self.arms is None or not self.arms.isdisjoint(arms)


def limits_of(study: Study) -> tuple[Limit, ...]:
    """Return the limits of a study, from its committed curves and search, and from its file for what these lack."""
    after = (Limit(AFTER_TEST, study.after_test_scores),) * bool(study.after_test_scores)
    of_scores = (*_guessing(study), *_ceiling(study), *_familiar(study))
    return (*_short_training(study), *_rates(study), *of_scores, *_languages(study), *after)


def limits_of_measurements(study: Study) -> tuple[Limit, ...]:
    """Return what limits the comparison of its Fisher traces and representations: arms that took different rates."""
    runs = ROWS.read(study.search) if study.search.exists() else ()
    rates = {run.arm: run.lr for run in runs if run.chosen}
    adapters = {arm: rate for arm, rate in rates.items() if arm != "full"}
    tracked = str(study.compare.get("track", "")).startswith("fisher")
    measured = {
        TRACES: adapters if tracked else {},
        REPRESENTATIONS: rates if "representations" in study.analyses else {},
    }
    return tuple(
        Limit(name, _by_rate(own), frozenset(own)) for name, own in measured.items() if len(set(own.values())) > 1
    )


def _by_rate(rates: Mapping[str, float]) -> str:
    arms_at: dict[float, list[str]] = {}
    for arm, rate in rates.items():
        arms_at.setdefault(rate, []).append(arm)
    return "; ".join(f"{rate:g} for {_named(arms_at[rate], len(rates))}" for rate in sorted(arms_at))


def _short_training(study: Study) -> Iterator[Limit]:
    rises: dict[str, float] = {}
    arms = set()
    for change in late_changes(read_rows(study.curves)) if study.curves.exists() else ():
        arms.add(change.arm)
        if change.mean > RISES:
            rises[change.arm] = max(change.mean, rises.get(change.arm, 0))
    if rises:
        own = study.short_training
        how = f"{own or _length(study)}, {_rising(rises, len(arms))}"
        yield Limit(SHORT_TRAINING, how, None if own else frozenset(rises))
    elif study.short_training:
        yield Limit(SHORT_TRAINING, study.short_training)


def short_training_of_grid(grid: ReplayedGrid) -> Limit | None:
    """Return the limit of a grid with arms that still rise at their best rate; None if none does."""
    best = {(arm.name, arm.rate) for arm in grid_arms(grid)}
    whole = [row for row in read_rows(grid.curves) if row.schedule == WHOLE and (method_of(row), row.lr) in best]
    rises = {change.arm: change.mean for change in late_changes(whole) if change.mean > RISES}
    if not rises:
        return None
    return Limit(SHORT_TRAINING, f"{grid.compare['steps']} steps, {_rising(rises, len(best))}", frozenset(rises))


def _rising(rises: Mapping[str, float], arms: int) -> str:
    least, most = min(rises.values()), max(rises.values())
    points = " to ".join(dict.fromkeys(f"{rise:.1f}" for rise in (least, most)))
    first = f", most in `{max(rises, key=lambda arm: rises[arm])}`" if most - least > RISES else ""
    return f"dev of {_named(list(rises), arms)} still rises by {points} points at the end, on average{first}"


def _rates(study: Study) -> Iterator[Limit]:
    if not study.search.exists():
        if study.edge_of_rates:
            yield Limit(AT_AN_END, study.edge_of_rates)
        return
    runs = ROWS.read(study.search)
    ends = at_an_end(runs)
    if ends:
        arms = len({run.arm for run in runs})
        by_end: dict[str, list[str]] = {}
        for arm, end in ends.items():
            by_end.setdefault(end, []).append(arm)
        how = f"of the rates searched, {listed(f'{_named(own, arms)} took the {end}' for end, own in by_end.items())}"
        yield Limit(AT_AN_END, how, frozenset(ends))
    if alike := tied(runs):
        how = f"{_named(alike, len({run.arm for run in runs}))} reached the same on dev at another rate"
        yield Limit(TIED, how, frozenset(alike))


def _guessing(study: Study) -> Iterator[Limit]:
    if (near := study.near_guessing) is not None:
        yield Limit(NEAR_GUESSING, near.how.strip(), near.arms or None)


def _ceiling(study: Study) -> Iterator[Limit]:
    means = [arm.mean for arms in study_arms(study).values() for arm in arms] if study.is_committed else []
    if means and min(means) >= CEILING:
        yield Limit(AT_CEILING, f"all arms reach {100 * min(means):.1f} to {100 * max(means):.1f} on test")


def _familiar(study: Study) -> Iterator[Limit]:
    if study.data == "real" and find_task(study.compare["task"]).kind == "regression":
        yield Limit(FAMILIAR, "by those who published it")


def _languages(study: Study) -> Iterator[Limit]:
    if study.language_adapters is not None:
        steps = study.language_adapters.settings["steps"]
        stacked = frozenset(arm for arm in study.compare["method"] if split_arm(arm).adapter)
        yield Limit(LANGUAGES, f"{steps} steps each, and full fine-tuning has none", stacked)


def _named(own: Sequence[str], arms: int) -> str:
    if len(own) <= 2:
        return listed(f"`{arm}`" for arm in own)
    return f"all {arms} arms" if len(own) == arms else f"{len(own)} of {arms} arms"


def _length(study: Study) -> str:
    steps, epochs, size = (study.compare.get(name) for name in ("steps", "epochs", "train_size"))
    if steps is not None:
        return f"{steps} steps"
    return f"{epochs} epoch{'s' * (epochs != 1)}" + (f" of {size:,} examples" if size else "")
