"""Tabulate how the arms of a study were trained: the rates that were searched, and how far dev still rose."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evidence.convergence import LateChange, late_changes
from evidence.searches import ROWS, SearchedRun
from evidence.studies import Study
from gradgate.report.formats import learning_rate
from gradgate.study.replay.curve_rows import read_rows

CAPTION = """\
A table of a study has dev in points: in the search, by learning rate (**bold**: the one that the arm is compared at;
*stopped*: early, below the median of the arm's other rates), and its change over the last fifth of the steps or more
(mean over seeds, lowest to highest)."""


def training_table(study: Study) -> str:
    """Return a table with a row per arm; empty if neither the search nor the curves are committed."""
    runs = ROWS.read(study.search) if study.search.exists() else []
    tried = dict.fromkeys((run.arm, run.size) for run in runs)
    searched = {size for _, size in tried}
    only = searched.pop() if len(searched) == 1 else None  # of curves that were recorded before they had sizes
    curves = late_changes(read_rows(study.curves)) if study.curves.exists() else []
    changes = {(each.arm, only if each.size is None else each.size): each for each in curves}
    arms = dict.fromkeys((*changes, *tried))
    if not arms:
        return ""
    several = len({size for _, size in arms}) > 1
    rates = sorted({run.lr for run in runs})
    lines = [
        f"| arm | {''.join(f'{learning_rate(rate)} | ' for rate in rates)}change at the end |",
        f"|---|{'---:|' * (len(rates) + 1)}",
    ]
    for arm, size in arms:
        own = [run for run in runs if (run.arm, run.size) == (arm, size)]
        name = f"`{arm}`" + f", {size or 'all'} rows" * several
        devs = "".join(f"{_dev(own, rate)} | " for rate in rates)
        lines.append(f"| {name} | {devs}{_change(changes.get((arm, size)))} |")
    return "\n".join(lines)


def _dev(runs: Sequence[SearchedRun], rate: float) -> str:
    own = [run for run in runs if run.lr == rate]
    devs = [run.dev for run in own if run.dev is not None]
    shown = "stopped" if len(devs) < len(own) else f"{100 * fmean(devs):.1f}" if devs else "–"
    return f"**{shown}**" if any(run.chosen for run in own) else shown


def _change(change: LateChange | None) -> str:
    return "–" if change is None else str(change)
