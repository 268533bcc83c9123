"""Search settings before a comparison: the same settings for each method, judged on the source's dev split alone.

The runs of the search are queued like all others. The worker that finds that all of one method have ended chooses its
setting, and queues its runs of the comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, isfinite, log, prod
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import RunError, UsageError, nearest
from gradgate.files import portable_name
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import Failure, RunRecord, TaskRecord, read_record, write_record
from gradgate.runs.scores import Scores
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.own_settings import OWN_SETTINGS, TAPT_LENGTHS, format_settings, read_setting
from gradgate.settings.values import repeated
from gradgate.study.conditions import condition_folders
from gradgate.study.grid import MOST_RUNS, Grid, GridRun
from gradgate.study.study_file import SearchRecord, SearchResult, damage_of, locked_folder

if TYPE_CHECKING:
    from gradgate.study.workers.queue import Queue

GENERATION_RATES = "lr=2e-5,1e-4,5e-4,2e-3,1e-2"
"""Tried for each method that generates text where no rate is given: from full training's to LoRA's on small models."""

SUPERSEDED = "superseded"
"""The folder of runs at settings that a longer search has not chosen again."""
FIRST_SEED = 1000  # not among the seeds of the comparison
_DRAWS = 0  # seed of the settings that are drawn from ranges
_MOST_DRAWS = 100  # for each setting, to find ones that differ


@dataclass(frozen=True)
class Space:
    """The settings that a study searches.

    Attributes:
        texts: as they were typed: ``lr=1e-5,2e-5`` is a list, ``lr=1e-5..1e-4`` a range.
        settings: to try for each method: every combination of lists, or draws where there is a range.
        seeds: each setting is run once with each.
        prune: end runs whose dev scores are below the median of their method's after half of their steps.
    """

    texts: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    prune: bool = False

    def record(self) -> SearchRecord:
        """Return the record for ``study.json``, without results."""
        return SearchRecord(self.texts, self.settings, self.seeds, self.prune)


def read_space(texts: Sequence[str], trials: int | None = None, seeds: int = 1, prune: bool = False) -> Space:
    """Read the space that texts such as ``"lr=1e-5,2e-5,5e-5"`` and ``"weight_decay=0..0.1"`` span.

    Args:
        texts: one for each setting. A range of positive numbers is drawn from evenly in its logarithm.
        trials: settings to draw, which ranges need.
        seeds: runs of each setting.
        prune: end poor runs after half of their steps, by optuna's median rule once two of a method have finished.

    Raises:
        UsageError: for a setting that is unknown, no value of it, or not searched; or without the trials of a range.
    """
    axes: dict[str, list[Any] | tuple[Any, Any]] = {}
    for text in texts:
        name, _, rest = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if name not in OWN_SETTINGS:
            raise UsageError(
                f"search={text!r}: {name!r} cannot be searched.{nearest(name, OWN_SETTINGS)} Expected one of "
                f"{', '.join(OWN_SETTINGS)}, as in 'lr=1e-5,2e-5'."
            )
        if name in axes:
            raise UsageError(f"search= gives {name!r} twice. Give it once with all its values: '{name}=a,b,c'.")
        ends = [_value(name, end) for end in rest.split("..")]
        if len(ends) > 2:
            words = [word.strip() for word in rest.split("..")]
            raise UsageError(f"search={text!r} has {len(ends)} ends. Expected two: '{name}={words[0]}..{words[-1]}'.")
        axes[name] = (ends[0], ends[1]) if len(ends) == 2 else _values(name, rest)
    ranged = [name for name, axis in axes.items() if isinstance(axis, tuple)]
    if ranged and trials is None:
        raise UsageError(f"search={ranged[0]!r} is a range, which needs trials=, the number of settings to draw.")
    if trials is not None and trials < 1:
        raise UsageError(f"trials={trials}: expected 1 or more.")
    if trials is not None and not ranged:
        raise UsageError(
            "trials= is for ranges, as in search='lr=1e-5..1e-4'; lists are tried in full. "
            f"Leave out trials={trials}, or pass a range."
        )
    count = trials or prod(len(values) for values in axes.values())
    if count * seeds > MOST_RUNS:
        raise UsageError(
            f"search= has {count:,} settings with {seeds:,} seeds, more than the {MOST_RUNS:,} runs that a study can "
            f"hold. Pass fewer values, trials= or search_seeds=."
        )
    settings = _drawn(axes, trials) if trials else [dict(zip(axes, v, strict=True)) for v in product(*axes.values())]
    return Space(tuple(texts), tuple(settings), tuple(range(FIRST_SEED, FIRST_SEED + seeds)), prune)


def wants_rates(task: TaskRecord, grid: Grid) -> bool:
    """Return whether a new study without a given rate searches one for each method.

    The best rate of full fine-tuning is a tenth of LoRA's, and others lie between: with one rate for all, a comparison
    of methods is one of rates. Biderman et al. 2024, https://arxiv.org/abs/2405.09673, sec. 4.1. A rate of an arm's own
    is a choice, too.
    """
    return task.kind == "generation" and all(arm.lr is None for arm in grid.arms)


def _values(name: str, text: str) -> list[Any]:
    values = [_value(name, word) for word in text.split(",")]
    if (again := repeated(values)) is not None:
        raise UsageError(f"search= gives {name} the value {again} twice. Give it once.")
    return values


def _value(name: str, text: str) -> Any:
    if ".." in text or "," in text:
        return text
    given = f"{name}={text.strip()}"
    if not text.strip():
        raise UsageError(f"search={given!r} has an empty value. Expected values with commas, as in 'lr=1e-5,2e-5'.")
    try:
        return read_setting(name, text.strip())
    except ValueError as error:
        raise UsageError(f"search={given!r} cannot be tried: {error}") from None


def _drawn(axes: dict[str, Any], trials: int) -> list[dict[str, Any]]:
    """Return settings that differ, fewer if the ranges have no more."""
    generator = np.random.default_rng(_DRAWS)
    drawn: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _ in range(_MOST_DRAWS * trials):
        setting = {name: _draw(axis, generator.random()) for name, axis in axes.items()}
        drawn.setdefault(tuple(setting.values()), setting)
        if len(drawn) == trials:
            break
    return list(drawn.values())


def _draw(axis: list[Any] | tuple[Any, Any], uniform: float) -> Any:
    if isinstance(axis, list):
        return axis[int(uniform * len(axis))]
    low, high = axis
    if not (isinstance(low, int | float) and isinstance(high, int | float) and low < high):
        raise UsageError(
            f"search=: {low}..{high} is not a range of numbers. Expected the lower end first, as in 1e-5..1e-4."
        )
    drawn = exp(log(low) + uniform * (log(high) - log(low))) if low > 0 else low + uniform * (high - low)
    return round(drawn) if isinstance(low, int) else float(f"{drawn:.3g}")


def all_runs(grids: Sequence[Grid]) -> list[GridRun]:
    """Return everything that can be trained now: what is still to be searched, then seed by seed through all grids."""
    searched = [run for grid in grids for run in search_runs(grid, undecided(grid))]
    compared = [run for grid in grids for run in grid.runs()]
    seeds = list(dict.fromkeys(run.config.seed for run in compared))
    return [*searched, *sorted(compared, key=lambda run: seeds.index(run.config.seed))]


def search_runs(grid: Grid, arms: Iterable[Arm]) -> list[GridRun]:
    """Return the runs of the search of some arms, setting by setting. None of them looks at a test split."""
    if grid.search is None:
        return []
    chosen = list(arms)
    return [
        _run(grid, arm, setting, seed)
        for seed in grid.search.seeds
        for setting in grid.search.settings
        for arm in chosen
    ]


def _run(grid: Grid, arm: Arm, setting: dict[str, Any], seed: int) -> GridRun:
    extras = {"skip_test": True, "test_each_epoch": None, "keep_model": False, "track": None}
    extras |= {"forgetting": None, "keep_checkpoints": None}
    config = grid.config_of(arm, seed, {**setting, **extras})
    name = portable_name(format_settings(setting))
    folder = RunFolder(grid.path / "search" / arm.folder / name / f"seed-{seed}")
    against = grid.labelled(arm.name) if grid.search is not None and grid.search.prune else None
    label = grid.labelled(f"{arm.name} seed {seed}, search {format_settings(setting)}")
    return GridRun(arm, config, folder, label, against)


def check(grid: Grid) -> None:
    """Raise UsageError if an arm has a setting of its own that is searched."""
    searched = {name for setting in grid.tried for name in setting}
    for arm in grid.given_arms:
        for name in searched:
            alike = TAPT_LENGTHS if name in TAPT_LENGTHS else (name,)
            own = [other for other in alike if arm.sets(other)]
            if own:
                raise UsageError(
                    f"search={name!r} has no effect on {arm.name!r}, which has its own {own[0]}. Leave one of them out."
                )


def undecided(grid: Grid) -> list[Arm]:
    """Return the arms whose setting is still to be chosen."""
    if grid.search is None:
        return []
    return [arm for arm in grid.arms if grid.search.chosen.get(arm.name) is None]


def awaiting_choice(grid: Grid) -> list[RunFolder]:
    """Return the folders of the runs that are queued when the search of their arm has chosen its setting."""
    if grid.search is None:
        return []
    open_arms = [arm for arm in undecided(grid) if grid.search.results.get(arm.name) != ()]
    return [grid.folder_of(arm, seed) for arm in open_arms for seed in grid.seeds]


def advance(queue: Queue) -> bool:
    """Choose the settings of methods with an ended search, and queue their runs. Return whether there were any."""
    return any(_advance(queue, folder) for folder in condition_folders(queue.store.folder))


def _advance(queue: Queue, folder: Path) -> bool:
    grid = Grid.read(folder)
    if grid.search is None:
        return False
    known = _states(queue)
    ended = [arm for arm in undecided(grid) if _has_ended(grid, arm, known) and queue.withdraw(_compared(grid, arm))]
    found = _decide(folder, ended, higher=queue.store.higher_is_better) if ended else set()
    # Read both again: another worker may have decided the same arms, or have ended between its choice and its queue.
    known = _states(queue)
    new = [run for run in Grid.read(folder).runs() if _is_to_be_queued(run, known, found)]
    queue.add(new)
    return bool(new)


def _states(queue: Queue) -> dict[str, RunState]:
    return {run.fingerprint: run.state for run in queue.runs()}


def _decide(folder: Path, ended: Collection[Arm], *, higher: bool) -> set[str]:
    """Choose the settings of arms with an ended search; return the names of those that got one."""
    with locked_folder(folder):
        grid = Grid.read(folder)
        if grid.search is None:
            return set()
        chosen_now = [arm for arm in undecided(grid) if arm in ended]
        decided = {arm.name: _results(grid, arm, grid.search, higher) for arm in chosen_now}
        found = {name: results[0].setting for name, results in decided.items() if results}
        for arm in chosen_now:
            _set_superseded_aside(grid, arm, found.get(arm.name, {}))
        search = replace(
            grid.search, results={**grid.search.results, **decided}, chosen={**grid.search.chosen, **found}
        )
        grid = replace(grid, search=search)
        grid.write_search()
        for arm in chosen_now:
            if arm.name not in found:
                _fail(grid, arm)
    return set(found)


def _is_to_be_queued(run: GridRun, known: Mapping[str, RunState], found: Collection[str]) -> bool:
    """Return True if a run of the comparison is new, was held back, or failed before its arm's choice was opened."""
    state = known.get(run.config.fingerprint())
    return state in (None, RunState.PAUSED) or (run.arm.name in found and state is RunState.FAILED)


def _has_ended(grid: Grid, arm: Arm, states: Mapping[str, RunState]) -> bool:
    own = [states.get(run.config.fingerprint()) for run in search_runs(grid, [arm])]
    if not all(state in (RunState.FINISHED, RunState.FAILED, RunState.PRUNED) for state in own):
        return False
    # If nothing had finished, error.json says so, and there is something to choose from only after a retry.
    had_nothing = grid.search is not None and grid.search.results.get(arm.name) == ()
    return not had_nothing or RunState.FINISHED in own


def _results(grid: Grid, arm: Arm, search: SearchRecord, higher: bool) -> tuple[SearchResult, ...]:
    """Return the settings of which most seeds have finished, with their mean dev score, the best first.

    That is every seed, unless each setting has one that failed or was stopped early.
    """
    found: dict[int, list[SearchResult]] = {}
    for setting in search.settings:
        scores = [_dev(_run(grid, arm, setting, seed).folder) for seed in search.seeds]
        finite = [score for score in scores if score is not None]
        if finite:
            found.setdefault(len(finite), []).append(SearchResult(setting, fmean(finite)))
    most = found[max(found)] if found else []
    return tuple(sorted(most, key=lambda result: -result.dev if higher else result.dev))


def _compared(grid: Grid, arm: Arm) -> list[Path]:
    """Return the folders of an arm's runs of the comparison."""
    return [grid.folder_of(arm, seed).path for seed in grid.seeds]


def _set_superseded_aside(grid: Grid, arm: Arm, setting: dict[str, Any]) -> None:
    """Move runs of the comparison away that have another setting, which a shorter search had chosen."""
    for path in _compared(grid, arm):
        file = RunFolder(path).run_file
        if not file.is_file():
            continue
        try:
            config = read_record(file, RunRecord).config
        except RunError:
            taken, name = None, "unreadable"
        else:
            taken = {key: config.get(key) for key in setting or grid.tried[0]}
            name = format_settings(taken)
        if taken != setting:
            aside = grid.path / SUPERSEDED / arm.folder / portable_name(name) / path.name
            while aside.exists():
                aside = aside.with_name(f"{aside.name}-again")
            aside.parent.mkdir(parents=True, exist_ok=True)
            path.rename(aside)


def _dev(folder: RunFolder) -> float | None:
    if not folder.finished or damage_of(folder) is not None:
        return None
    scores = read_record(folder.scores_file, Scores)
    value = scores.dev.get(scores.metric)
    return value if value is not None and isfinite(value) else None


def _fail(grid: Grid, arm: Arm) -> None:
    """Write why a method has no runs, for the report."""
    message = f"No run of its search has finished; the reasons are in {grid.path / 'search'}."
    for seed in grid.seeds:
        write_record(grid.folder_of(arm, seed).error_file, Failure("SearchFailed", message))
