"""Read results for a judgement, from a study's folder or from files of results; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import UsageError
from gradgate.files import read_json
from gradgate.settings.base import passed
from gradgate.settings.imports import ImportSettings
from gradgate.study.conditions import condition_folders, is_study
from gradgate.study.imported import IMPORT_FILE
from gradgate.study.importing.sources import read_files, recognised
from gradgate.study.importing.studies import Imported, read_tables
from gradgate.study.importing.tables import of_frame
from gradgate.study.results import StudyResults, read_study


@dataclass(frozen=True)
class Judgeable:
    """Results that can be judged.

    Attributes:
        conditions: the results of each task, model and training size.
        warnings: doubts about the comparison, as ``gradgate study import --json`` has them; empty for a trained study.
        imported: what was read and left out; None for a study's folder.
    """

    conditions: tuple[StudyResults, ...]
    warnings: tuple[Mapping[str, Any], ...] = ()
    imported: Imported | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of all arms."""
        return tuple(dict.fromkeys(name for each in self.conditions for name in each.study.arm_names))


def read_judgeable(place: Path, asked: ImportSettings) -> Judgeable:
    """Read a study's folder, or what ``gradgate study import`` reads.

    Args:
        place: a study's folder, a file of results, or a folder of such files.
        asked: the columns of files that are not found by their names.

    Raises:
        UsageError: for columns of a study, and as ``gradgate study import``.
        DataError: for a path that does not exist, and as ``gradgate study import``.
        RunError: if the study is damaged.
    """
    if is_study(place):
        columns = [f"{name}=" for name in passed(asked) if name != "reference"]
        if columns:
            raise UsageError(
                f"{place} is a study and needs no columns. Leave out {', '.join(columns)}, or name the file that "
                "it was imported from."
            )
        conditions = tuple(read_study(part) for part in condition_folders(place))
        record = read_json(place / IMPORT_FILE) if (place / IMPORT_FILE).is_file() else {}
        return Judgeable(conditions, tuple(record.get("warnings", ())))
    tables, _ = read_files([place])
    return _judgeable(*read_tables(tables, asked, place))


def judgeable_rows(rows: Sequence[Mapping[str, Any]], asked: ImportSettings) -> Judgeable:
    """Return rows with a score each as results.

    Raises:
        UsageError: as ``gradgate study import``.
        DataError: as ``gradgate study import``.
    """
    return _judgeable(*read_tables([recognised(of_frame(rows))], asked, Path("scores")))


def _judgeable(imported: Imported, conditions: list[StudyResults]) -> Judgeable:
    return Judgeable(tuple(conditions), tuple(imported.record()["warnings"]), imported)
