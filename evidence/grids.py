"""Run full grids of methods, rates and seeds with their learning curves, for ``gradgate study replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from evidence.commands import first_rows, gradgate, here
from evidence.replay.squeezed import as_squeezed
from gradgate.study.replay.curve_rows import study_rows, write_curves

GRIDS = Path(__file__).parent / "grids"


class Grid(BaseModel):
    """One grid.

    Attributes:
        name: that of its file.
        title: what is compared, in one line.
        compare: settings of ``gradgate compare`` of all its studies, each of which has one rate. ``{every}`` in a
            method is the length of a phase, in steps.
        rates: learning rates, each a study.
        every: ``{every}`` of the whole runs.
        squeezed: steps of the short runs, whose schedules end with them, to their ``{every}``.
        data: a folder of data, may begin with ``$GRADGATE_SHARED``.
        first_rows: a file of this folder to how many of its rows, or sentences of a file of tokens, are used; other
            files are used in full.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    compare: dict[str, Any]
    rates: tuple[float, ...]
    every: int
    squeezed: dict[int, int] = Field(default_factory=dict)
    data: str | None = None
    first_rows: dict[str, int] = Field(default_factory=dict)

    @property
    def curves(self) -> Path:
        """The committed CSV file."""
        return GRIDS / f"{self.name}.csv"


def read_grids() -> dict[str, Grid]:
    """Read every grid, by name."""
    return {
        file.stem: Grid(name=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8")))
        for file in sorted(GRIDS.glob("*.yaml"))
    }


def record_grid(grid: Grid, out: Path) -> Path:
    """Run what is missing of a grid, and write its curves next to its studies.

    Raises:
        subprocess.CalledProcessError: if a command fails; it has printed why.
    """
    folder = out / "grids" / grid.name
    settings = dict(grid.compare)
    if grid.data is not None:
        settings["data"] = str(first_rows(Path(here(grid.data)), grid.first_rows, folder / "data"))
    whole = [_study(folder, settings, grid.every, rate, settings["steps"]) for rate in grid.rates]
    short = [
        _study(folder, settings | {"skip_test": True}, every, rate, steps)
        for steps, every in grid.squeezed.items()
        for rate in grid.rates
    ]
    curves = folder / f"{grid.name}.csv"
    rows = [row for study in whole for row in study_rows(study)]
    write_curves([*rows, *as_squeezed([row for study in short for row in study_rows(study)], rows)], curves)
    return curves


def _study(folder: Path, settings: dict[str, Any], every: int, rate: float, steps: int) -> Path:
    methods = [method.replace("{every}", str(every)) for method in settings["method"]]
    own = settings | {"model": here(settings["model"]), "method": methods, "lr": rate, "steps": steps}
    study, file = folder / f"steps{steps}-lr{rate:g}", folder / f"steps{steps}-lr{rate:g}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(own, sort_keys=False), encoding="utf-8")
    gradgate("compare", "--config", str(file), "--out", str(study))
    return study
