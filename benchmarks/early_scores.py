"""Measure how well short runs order the arms of a grid: its schedule cut short, or squeezed into the short run.

``python -m benchmarks.early_scores GRID.csv ...`` takes files of ``gradgate study export --curves --squeezed``; without
any, those of ``evidence/grids``. Figures are Spearman's rank correlations of the arms' dev scores with those of whole
runs on all seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradgate.errors import DataError
from gradgate.study.replay.curve_rows import CUT, SQUEEZED, read_rows
from gradgate.study.replay.curves import as_curves
from gradgate.study.replay.early_scores import early_scores

GRIDS = Path(__file__).parents[1] / "evidence" / "grids"


def run(*files: str) -> list[str]:
    """Return four lines or more per grid."""
    paths = [Path(file) for file in files] or sorted(GRIDS.glob("*.csv"))
    return [line for path in paths for line in _of_grid(path)] or [f"No grid in {GRIDS}."]


def _of_grid(path: Path) -> list[str]:
    rows = read_rows(path)
    lengths = {row.of_steps for row in rows if row.schedule == SQUEEZED}
    lines = [path.name, "  schedule   of the steps   all seeds   one seed   best in the better half of one seed"]
    for schedule in (CUT, SQUEEZED) if lengths else (CUT,):
        try:
            curves = as_curves(rows, schedule)
        except DataError as error:
            return [path.name, f"  {error}"]
        for each in early_scores(curves):
            until = {curves.grid.until(task, each.eighths) for task in curves.grid.steps}
            if schedule == CUT or until & lengths:
                mean, single = _shown(each.correlation), _shown(each.of_one_seed)
                lines.append(f"  {schedule:<11}{each.eighths / 8:<15g}{mean:>9}{single:>11}{each.best_kept:>39.0%}")
    return lines


def _shown(correlation: float | None) -> str:
    return "-" if correlation is None else f"{correlation:.3f}"


if __name__ == "__main__":
    print("\n".join(run(*sys.argv[1:])))
