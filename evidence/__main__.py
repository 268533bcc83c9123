"""Record full grids again: ``python -m evidence NAME...``, or all of evidence/grids. Run again, it goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evidence.grids import read_grids, record_grid

OUT = Path("studies/evidence")


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Grids to record; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="Where the studies' folders are.")] = OUT,
) -> None:
    """Train full grids and write their learning curves, for 'gradgate study replay'."""
    there = read_grids()
    for name in names or there:
        if name not in there:
            sys.exit(f"There is no grid {name!r}. There are {', '.join(there)}.")
        print(f"{name}: {there[name].title}", flush=True)
        print(f"Wrote {record_grid(there[name], out)}", flush=True)


if __name__ == "__main__":
    typer.run(main)
