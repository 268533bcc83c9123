"""Run full grids of methods, rates and seeds with their learning curves, for ``gradgate study replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from evidence.commands import first_rows, gradgate, here
from evidence.replay.squeezed import as_squeezed
from gradgate.study.replay.curve_rows import WHOLE, read_rows, study_rows, write_curves

GRIDS = Path(__file__).parent / "grids"


class ReplayedGrid(BaseModel):
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


def read_grids() -> dict[str, ReplayedGrid]:
    """Read every grid, by name."""
    return {
        file.stem: ReplayedGrid(name=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8")))
        for file in sorted(GRIDS.glob("*.yaml"))
    }


def record_grid(grid: ReplayedGrid, out: Path) -> Path:
    """Run what is missing of a grid, and write its curves next to its studies.

    Raises:
        subprocess.CalledProcessError: if a command fails; it has printed why.
    """
    folder = out / "grids" / grid.name
    settings = _settings_here(grid, folder)
    whole = _whole_studies(grid, folder, settings)
    short = [
        _study(folder, settings | {"skip_test": True}, every, rate, steps)
        for steps, every in grid.squeezed.items()
        for rate in grid.rates
    ]
    curves = folder / f"{grid.name}.csv"
    rows = [row for study in whole for row in study_rows(study)]
    write_curves([*rows, *as_squeezed([row for study in short for row in study_rows(study)], rows)], curves)
    return curves


def add_seeds(grid: ReplayedGrid, out: Path) -> Path:
    """Run the seeds that the committed curves of whole runs lack, and write both next to the new studies.

    Raises:
        subprocess.CalledProcessError: if a command fails; it has printed why.
    """
    folder = out / "grids" / f"{grid.name}-more"
    rows = list(read_rows(grid.curves))
    there = {row.seed for row in rows if row.schedule == WHOLE}
    lacking = [seed for seed in range(grid.compare["seeds"]) if seed not in there]
    if lacking:
        settings = _settings_here(grid, folder) | {"seeds": ",".join(map(str, lacking)) + ","}
        more = [row for study in _whole_studies(grid, folder, settings) for row in study_rows(study)]
        rows += [row for row in more if row.seed in lacking]
    arms = list(dict.fromkeys(row.arm for row in rows))
    curves = folder / f"{grid.name}.csv"
    write_curves(sorted(rows, key=lambda row: (row.schedule != WHOLE, arms.index(row.arm))), curves)
    return curves


def _settings_here(grid: ReplayedGrid, folder: Path) -> dict[str, Any]:
    settings = dict(grid.compare)
    if grid.data is not None:
        settings["data"] = str(first_rows(Path(here(grid.data)), grid.first_rows, folder / "data"))
    return settings


def _whole_studies(grid: ReplayedGrid, folder: Path, settings: dict[str, Any]) -> list[Path]:
    return [_study(folder, settings, grid.every, rate, settings["steps"]) for rate in grid.rates]


def _study(folder: Path, settings: dict[str, Any], every: int, rate: float, steps: int) -> Path:
    methods = [method.replace("{every}", str(every)) for method in settings["method"]]
    own = settings | {"model": here(settings["model"]), "method": methods, "lr": rate, "steps": steps}
    study, file = folder / f"steps{steps}-lr{rate:g}", folder / f"steps{steps}-lr{rate:g}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(own, sort_keys=False), encoding="utf-8")
    gradgate("compare", "--config", str(file), "--out", str(study))
    return study
