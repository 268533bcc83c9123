"""What ``--dry-run`` prints: what would be trained, for how long, and in how much memory and disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gradgate.cli.render import console, print_json, print_line
from gradgate.errors import listed
from gradgate.runs.progress import about

if TYPE_CHECKING:
    from gradgate.study.forecast import ArmForecast, Forecast

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        rich_help_panel="output",
        help="Print what would be trained, the time, memory and disk it takes, and, for a comparison, what difference "
        "the seeds can detect; then stop. The first 8 steps of each method are timed; nothing is written.",
    ),
]
_GIB = 2**30


def show_forecast(found: Forecast, as_json: bool) -> None:
    """Print a forecast, as a table with sentences or as JSON."""
    if as_json:
        print_json(found.record())
        return
    console.print(_table(found))
    for line in _lines(found):
        print_line(line)


def _table(found: Forecast) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("arm", overflow="fold")
    for name in ("runs", "steps each", "ms per step", "peak GiB"):
        table.add_column(name, justify="right")
    for arm in found.arms:
        table.add_row(arm.label, str(arm.runs), f"{arm.steps:,}", _pace(arm), _peak(arm))
    return table


def _pace(arm: ArmForecast) -> str:
    return "–" if arm.step_seconds is None else f"{1e3 * arm.step_seconds:.1f}"


def _peak(arm: ArmForecast) -> str:
    return "–" if arm.peak_bytes is None else f"{arm.peak_bytes / _GIB:.2f}"


def _lines(found: Forecast) -> list[str]:
    lines = [f"{arm.label} cannot be trained: {console.worded(arm.trouble)}" for arm in found.arms if arm.trouble]
    kept = f"; {found.finished} are finished and stay" if found.finished else ""
    lines.append(f"{found.runs} run{'s' * (found.runs != 1)} would be trained{kept}.")
    if found.runs:
        at_once = f", {found.workers} at a time" if found.workers > 1 else ""
        share = f", {found.share:.0%} of the grid's steps as the budget says" if found.share is not None else ""
        lines.append(
            f"Time: {about(found.seconds)}{at_once}{share}, if all steps take as long as the first ones did just now "
            f"and a batch that is scored a third of that."
        )
    lines.extend([found.promise] if found.promise else [])
    lines.extend(each.sentence for each in found.decides)
    peak = max((arm.peak_bytes for arm in found.arms if arm.peak_bytes is not None), default=None)
    if peak is not None:
        lines.append(
            f"Memory: {found.workers * peak / _GIB:.2f} GiB at most by the estimate of 'gradgate memory', and "
            f"{found.free_memory / _GIB:.1f} GiB are free. Libraries and data come on top."
        )
    if first := [arm.label for arm in found.arms if arm.tapt]:
        lines.append(f"{listed(first)}: the pretraining on the task's texts comes on top, in time and in memory.")
    lines.append(
        f"Disk: models take {found.disk_bytes / _GIB:.2f} GiB at most, and {found.free_disk / _GIB:.1f} GiB are free. "
        f"Nothing was written."
    )
    return lines
