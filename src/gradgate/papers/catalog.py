"""The presets that come with the package: one YAML file a paper, in ``presets/`` beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gradgate.errors import UsageError, nearest
from gradgate.papers.preset import Preset, matching
from gradgate.papers.published import TABLES, papers

FOLDER = Path(__file__).parent / "presets"


@cache
def presets() -> dict[str, Preset]:
    """Every preset by name, paper by paper in the order of their tables."""
    found: dict[str, Preset] = {}
    for paper in papers():
        found |= read_presets(FOLDER / f"{paper}.yaml")
    return found


def find_preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        UsageError: naming the nearest.
    """
    known = presets()
    if name not in known:
        near = nearest(name, known)
        listed = "" if near else f" Known: {', '.join(known)}."
        raise UsageError(f"There is no preset {name!r}.{near}{listed} `gradgate papers` tells what each of them is.")
    return known[name]


def read_presets(file: Path) -> dict[str, Preset]:
    """The presets in a file that is named after its paper; what stands under ``shared`` is only referred to.

    Raises:
        UsageError: naming the preset and the fault.
    """
    entries: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["presets"]
    found = {name: _build(name, file.stem, entry) for name, entry in entries.items()}
    for name, unknown in matching(found):
        raise UsageError(f"{file.name}, {name}: a case names {unknown!r}, which no preset of this paper has.")
    return found


def _build(name: str, paper: str, entry: dict[str, Any]) -> Preset:
    try:
        preset = Preset(name=name, paper=paper, **entry)
    except ValidationError as error:
        faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise UsageError(f"The preset {name} has faults: {'; '.join(faults)}.") from None
    missing = [table for table in preset.data if not (TABLES / f"{table}.csv").is_file()]
    if missing:
        raise UsageError(f"The preset {name} names tables that are not there: {', '.join(missing)}.")
    return preset
