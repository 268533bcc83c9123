"""Tables of other programs' results, imported as studies."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradgate.settings.base import checked_settings
from gradgate.settings.imports import ImportSettings
from gradgate.study.conditions import condition_folders
from gradgate.study.importing.sources import read_files
from gradgate.study.importing.studies import Imported, import_tables
from gradgate.study.results import read_study

LONG = [
    {"arm": arm, "seed": seed, "score": round(base + seed / 100, 4)}
    for arm, base in (("full", 0.7), ("lora:r=8", 0.75), ("ours (v2) + tricks", 0.6))
    for seed in range(4)
]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = ",") -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def imported(paths: Path | Iterable[Path], out: Path, **columns: Any) -> Imported:
    tables, files = read_files([paths] if isinstance(paths, Path) else paths)
    return import_tables(tables, files, checked_settings(ImportSettings, columns), out)


def scores_of(out: Path) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for part in condition_folders(out):
        results = read_study(part)
        for run in results.cells:
            if run.scores is not None:
                found.setdefault(run.arm.name, []).append(run.score(results.main_split))
    return found
