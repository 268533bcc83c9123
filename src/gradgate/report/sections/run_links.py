"""Link the rows of a table to the files of their runs, as far as these are in the folder of the study."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Link
from gradgate.runs.folder import RunFolder


def run_links(study: StudySummary, arm: ArmSummary) -> tuple[Link, ...]:
    """Return links to an arm's runs, and to settings and log of its first; none for imported and pooled results."""
    cell = next((cell for cell in arm.cells if cell.folder is not None and cell.folder.is_dir()), None)
    if cell is None or cell.folder is None:
        return ()
    folder, of = cell.folder, f"of seed {cell.seed}"
    found = (
        ("runs", folder.parent, "the folders of all seeds"),
        ("settings", RunFolder(folder).run_file, of),
        ("log", folder.with_name(f"{folder.name}.log"), of),
    )
    return tuple(
        Link(text, address, about) for text, path, about in found if (address := _address(study.results.folder, path))
    )


def _address(study: Path, path: Path) -> str | None:
    """Return the relative address of a path that exists inside a study's folder; None for others."""
    if not path.exists() or study.resolve() not in path.resolve().parents:
        return None
    address = quote(path.relative_to(study).as_posix())
    return f"{address}/" if path.is_dir() else address
