"""A replay for people: what the full grid says, and how each way to spend a budget fared."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradgate.study.curves import Curves
from gradgate.study.replay import Replay, Truth


def truth_line(curves: Curves, truth: Truth) -> str:
    """The grid and its best arm, in two sentences."""
    grid = curves.grid
    size = f"{len(grid.arms)} arms x {len(grid.seeds)} seeds, {grid.total_steps:,} steps"
    if truth.decisive:
        told = f"told from every other arm (p = {truth.p:.2g})"
    elif truth.method_decisive:
        told = f"its method told from every other method (p = {truth.method_p:.2g}), its rate not from every other rate"
    else:
        told = f"which is not told from {len(truth.tied) - 1} other arms" + (
            "" if truth.p is None else f" (p up to {truth.p:.2g})"
        )
    return f"{size}. The full grid's best on dev is {truth.best}, {told}."


def replay_table(replays: Sequence[Replay]) -> Table:
    """One row for each budget and way to spend it; shares in percent of all repeats."""
    table = Table(box=None, pad_edge=False)
    for title in (
        "Budget",
        "Spent by",
        "Best arm",
        "Best method",
        "Of the tie",
        "Behind",
        "Winner named",
        "False winner",
        "Steps",
    ):
        table.add_column(title, justify="left" if title == "Spent by" else "right")
    for each in replays:
        for score in each.scores:
            table.add_row(
                f"{each.share:g}",
                score.name,
                f"{score.agreement:.1%}",
                f"{score.method_agreement:.1%}",
                f"{score.tie_agreement:.1%}",
                f"{score.regret:.4f}",
                "-" if score.named is None else f"{score.named:.1%}",
                "-" if score.false_winners is None else f"{score.false_winners:.1%}",
                f"{score.steps:.1%}",
            )
    return table
