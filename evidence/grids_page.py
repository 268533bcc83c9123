"""Write ``grids/README.md``: what a budget, and short runs, find in the recorded grids. Its replays take minutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evidence.arms import FULL, grid_arms
from evidence.grids import GRIDS, ReplayedGrid
from evidence.limits import SHORT_TRAINING, short_training_of_grid
from evidence.replay.baselines import BASELINES, replay_all
from evidence.replay.early_scores import by_schedule, shown
from evidence.replay.squeezed import SQUEEZED
from gradgate.errors import listed
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curve_rows import CurveRow, read_rows
from gradgate.study.replay.curves import Curves, as_curves
from gradgate.study.replay.replay import Replay, StrategyScore

PAGE = GRIDS / "README.md"
SHARES, REPEATS = (0.1, 0.2), 100
BUDGET = "budget"
_TEXT = """\
# Grids

Test a budget or `gradgate study replay` on full grids: every arm with every seed, trained to the end. Each row of a
CSV file is one evaluation of one run on dev.

```shell
python -m evidence grid NAME        # trains a grid from the settings next to it, in hours; call again to resume
python -m evidence grid NAME --add  # trains only the seeds that its file lacks
python -m evidence grids-page       # writes this page from the files
```

The real model and data are in `GRADGATE_SHARED`; the settings say which first rows of dev and test are used.

| grid | what | arms × seeds | steps | short runs | limits |
|---|---|---|---|---|---|
{grids}

An arm is a method (`full`, `freeze:layers=3`, `gradual`, `graddrop:p=0.2`, LoRA, Houlsby's adapters) at a learning
rate.

## What a budget finds in them

Each row replays {repeats} orders of the seeds:
`python -m evidence replay NAME --budget 0.1 --budget 0.2 --repeats {repeats}`.
{decisive}

The columns say how often the budget names a winner that the whole grid does not confirm (*false winner*); how often its
first arm is *within* one standard deviation of a whole run's noise of the best; how often it is not significantly worse
than the grid's best (*agrees*); and how far it is *behind* the best, in points. After short training, runs vary more
and *within* says less. Simulated grids that are decisive show how often the best is found
(`python -m benchmarks curves`).

| grid | share | spent by | within 1 sd | agrees | same best | behind | false winner |
|---|---|---|---|---|---|---|---|
{replays}

{summary}

## Short runs: a cut or a squeezed schedule

A short run can stop a whole run early (*cut*), or squeeze the whole learning rate schedule into fewer steps. Cut runs
can resume; squeezed ones start again for more steps. The table has Spearman's correlation of the arms' dev scores
with those of whole runs (`python -m evidence early NAME`):

| grid | schedule | of the steps | mean of the seeds | one seed | best arm in the better half of one seed |
|---|---|---|---|---|---|
{early}

A budget uses cut runs, because they resume.
"""


def grids_page(grids: Sequence[ReplayedGrid]) -> str:
    """Return the page as Markdown, from the grids that have committed curves."""
    rows = {grid.name: read_rows(grid.curves) for grid in grids}
    curves = {name: as_curves(own) for name, own in rows.items()}
    found = {
        (name, share): replay_all(own, share, REPEATS, list(BASELINES))
        for name, own in curves.items()
        for share in SHARES
    }
    replays = [_replayed(name, share, score) for (name, share), each in found.items() for score in each.scores]
    return _TEXT.format(
        repeats=REPEATS,
        grids="\n".join(_grid(grid, curves[grid.name], rows[grid.name]) for grid in grids),
        decisive=_decisive(found),
        replays="\n".join(replays),
        summary="\n".join(_summary(found)),
        early="\n".join(line for name, own in rows.items() for line in _early(name, own)),
    )


def _grid(grid: ReplayedGrid, curves: Curves, rows: Sequence[CurveRow]) -> str:
    short = [row for row in rows if row.schedule == SQUEEZED]
    lengths, seeds = sorted({row.of_steps for row in short}), len({row.seed for row in short})
    squeezed = f"squeezed into {' and '.join(map(str, lengths))} steps, {seeds} seeds" if short else ""
    size = f"{len(curves.grid.arms)} × {len(curves.grid.seeds)}"
    limits = ", ".join(grid_limits(grid)) or "–"
    return f"| `{grid.name}` | {grid.title} | {size} | {grid.compare['steps']} | {squeezed} | {limits} |"


def grid_limits(grid: ReplayedGrid) -> Iterator[str]:
    """Yield what limits a grid: arms that still rise at their best rate, full fine-tuning at an end of the rates."""
    if short_training_of_grid(grid):
        yield SHORT_TRAINING
    if next(arm for arm in grid_arms(grid) if arm.name == FULL).at_an_end:
        yield f"`{FULL}` at the edge of {len(grid.rates)} rates"


def _decisive(found: Mapping[tuple[str, float], Replay]) -> str:
    """Say which grids have an arm that is significantly better than every other."""
    decisive = dict.fromkeys(name for (name, _), each in found.items() if each.truth.decisive)
    if decisive:
        return f"The paired test of the whole runs (Holm-corrected) has one best arm in {listed(decisive)} alone."
    return (
        "None of these grids is decisive: the paired test of its whole runs (Holm-corrected) finds several arms that\n"
        "are not significantly worse than the best, so there is no right answer to find."
    )


def _replayed(name: str, share: float, score: StrategyScore) -> str:
    within, false = (_percent(each) for each in (score.within_one_sd, score.false_winners))
    return (
        f"| `{name}` | {share:g} | {score.name} | {within} | {_percent(score.agreement)} | "
        f"{_percent(score.same_best)} | {100 * score.regret:.1f} | {false} |"
    )


def _summary(found: Mapping[tuple[str, float], Replay]) -> Iterator[str]:
    for share in SHARES:
        by_way: dict[str, list[float]] = {}
        for (_, of), each in found.items():
            for score in each.scores if of == share else ():
                by_way.setdefault(score.name, []).append(100 * (score.within_one_sd or 0))
        ranges = [f"{way} in {_range(own)} of 100 orders" for way, own in by_way.items()]
        yield f"At a share of {share:g}, the arm put first is within one standard deviation of the best:"
        yield f"{listed(ranges)}."
    tested = {
        place: score.false_winners
        for place, each in found.items()
        for score in each.scores
        if score.name == BUDGET and score.false_winners is not None
    }
    if tested:
        places = listed([f"`{name}` at {share:g}" for name, share in tested])
        worst = max(tested.values())
        named = f"a false winner in up to {worst:.0%} of the orders" if worst else "no false winner in any order"
        yield f"The budget pays for a test in {places};"
        yield f"there it names {named}."


def _range(values: Sequence[float]) -> str:
    """Return the lowest and the highest value, rounded; one number if they are equal."""
    return " to ".join(dict.fromkeys(f"{value:.0f}" for value in (min(values), max(values))))


def _early(name: str, rows: Sequence[CurveRow]) -> Iterator[str]:
    """Yield the lines of a grid with short runs: both schedules at their lengths, on the seeds that both have."""
    for schedule, each, has_both in by_schedule(rows):
        if has_both:
            share = f"{each.eighths}/{EIGHTHS[-1]}"
            mean, single = shown(each.correlation), shown(each.of_one_seed)
            yield f"| `{name}` | {schedule} | {share} | {mean} | {single} | {each.best_kept:.0%} |"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
