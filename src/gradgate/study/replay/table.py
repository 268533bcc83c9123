"""Show a replay as a table: the answer of the full grid, and the result of each way to spend a budget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradgate.errors import counted, some_of
from gradgate.study.replay.curves import Curves
from gradgate.study.replay.replay import Replay, Truth

COLUMNS = {
    "Agrees": "how often the arm ranked first is not significantly worse than the full grid's best; on a decisive "
    "grid, only the best arm agrees.",
    "By chance": "how often an arm chosen at random agrees.",
    "Same best": "how often the arm ranked first has the best mean of the full grid, however small its lead.",
    "Same method": "how often the arm ranked first has that arm's method, at any learning rate.",
    "Within 1 sd": "how often the mean of the arm ranked first is at most the noise of one full run behind the best.",
    "Behind": "mean distance on dev between the best arm and the one ranked first.",
    "Names a winner": "how often one arm was declared the winner; - if the budget allows no test.",
    "False winner": "how often a winner was declared although the full grid is not decisive, or one that is not its "
    "best; - if the budget allows no test, so there is no winner to be wrong about.",
    "Steps": "of the full grid's, on average.",
}
"""Each column to what it counts, as a share of all repeats."""


def truth_line(curves: Curves, truth: Truth) -> str:
    """Return the size of the grid, and whether its best arm is significantly better than every other."""
    grid = curves.grid
    failed = [arm for arm in grid.arms if arm not in truth.means]
    size = f"{len(grid.arms)} arms x {len(grid.seeds)} seeds, {grid.total_steps:,} steps"
    size += f"; {counted(len(failed), 'arm')} with a failed run not compared ({some_of(failed, 3)})" if failed else ""
    if truth.second is None:
        return f"{size}. {truth.best} is its only arm{' without a failed run' if failed else ''}."
    lead = abs(truth.means[truth.best] - truth.means[truth.second])
    best = f"{truth.best} has the best mean on dev, {lead:.4g} ahead of {truth.second}"
    if len(grid.seeds) * len(grid.steps) < 2:
        return f"{size}. One seed can rank arms but not test them: {best}, and no arm is known to be worse."
    p = "" if truth.p is None else f", p = {truth.p:.2g} at most"
    how = f"two-sided paired t-tests of full runs, Holm-corrected{p}"
    if truth.decisive:
        return f"{size}. The full grid is decisive: {best}; the difference to every other arm is significant ({how})."
    others = len(truth.tied) - 1
    tie = f"the difference to {others} of {len(truth.means) - 1} other arms is not significant ({how})"
    if truth.method_decisive:
        tie += f"; its method is significantly better than every other method (p = {truth.method_p:.2g})"
    return f"{size}. The full grid is not decisive: {best}; {tie}."


def legend() -> list[str]:
    """Return what each column of the table counts, one line per column."""
    return [f"{name}: {meaning}" for name, meaning in COLUMNS.items()]


def replay_table(replays: Sequence[Replay]) -> Table:
    """Return one row per budget and way to spend it; shares in percent of all repeats."""
    table = Table(box=None, pad_edge=False)
    for title in ("Budget", "Spent by", *COLUMNS):
        table.add_column(title, justify="left" if title == "Spent by" else "right")
    for each in replays:
        for score in each.scores:
            table.add_row(
                f"{each.share:g}",
                score.name,
                f"{score.agreement:.1%}",
                f"{each.truth.by_chance:.1%}",
                f"{score.same_best:.1%}",
                f"{score.same_method:.1%}",
                _shown(score.within_one_sd),
                f"{score.regret:.4f}",
                _shown(score.named),
                _shown(score.false_winners),
                f"{score.steps:.1%}",
            )
    return table


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
