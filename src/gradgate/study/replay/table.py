"""A replay for people: what the full grid says, and how each way to spend a budget fared."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradgate.study.replay.curves import Curves
from gradgate.study.replay.replay import Replay, Truth

COLUMNS = {
    "Agrees": "put an arm first that the full grid's own test does not tell from its best. Of a decisive grid that is "
    "the best arm alone.",
    "Same best": "put the arm first that has the best mean of the full grid, however small its lead.",
    "Same method": "put an arm of that arm's method first, at whatever rate.",
    "Behind": "how far the arm that was put first is behind the best, on dev, on average.",
    "Names a winner": "called one arm the winner; only the budget tests.",
    "False winner": "called one arm the winner although the full grid is not decisive, or another than its best.",
    "Steps": "of the full grid's, on average.",
}
"""Each column to what it counts, as a share of all repeats."""


def truth_line(curves: Curves, truth: Truth) -> str:
    """The size of the grid, and whether it tells its best arm from every other."""
    grid = curves.grid
    size = f"{len(grid.arms)} arms x {len(grid.seeds)} seeds, {grid.total_steps:,} steps"
    if truth.second is None:
        return f"{size}. {truth.best} is its only arm."
    lead = abs(truth.means[truth.best] - truth.means[truth.second])
    best = f"{truth.best} has the best mean on dev, {lead:.4g} before {truth.second}"
    p = "" if truth.p is None else f", p = {truth.p:.2g} at most"
    how = f"two-sided paired t-tests of whole runs, Holm-corrected{p}"
    if truth.decisive:
        return f"{size}. The full grid is decisive: {best}, and is told from every other arm ({how})."
    others = len(truth.tied) - 1
    told = f"is not told from {others} of {len(truth.means) - 1} other arms ({how})"
    if truth.method_decisive:
        told += f"; its method is told from every other method (p = {truth.method_p:.2g})"
    return f"{size}. The full grid is not decisive: {best}, and {told}."


def legend() -> list[str]:
    """What the columns of the table count, a line each."""
    return [f"{name}: {meaning}" for name, meaning in COLUMNS.items()]


def replay_table(replays: Sequence[Replay]) -> Table:
    """One row for each budget and way to spend it; shares in percent of all repeats."""
    table = Table(box=None, pad_edge=False)
    for title in ("Budget", "Spent by", *COLUMNS):
        table.add_column(title, justify="left" if title == "Spent by" else "right")
    for each in replays:
        for score in each.scores:
            table.add_row(
                f"{each.share:g}",
                score.name,
                f"{score.agreement:.1%}",
                f"{score.same_best:.1%}",
                f"{score.same_method:.1%}",
                f"{score.regret:.4f}",
                _shown(score.named),
                _shown(score.false_winners),
                f"{score.steps:.1%}",
            )
    return table


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
