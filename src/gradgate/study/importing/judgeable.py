"""Read results for a judgement, from a study's folder or from files of results; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

_SAID = ("warnings", "left_out", "notes")
"""The entries of an import's record that a judgement repeats."""


@dataclass(frozen=True)
class Judgeable:
    """Results that can be judged.

    Attributes:
        conditions: the results of each task, model and training size.
        warnings: doubts about the comparison, as ``gradgate study import --json`` has them; empty for a trained study.
        left_out: the rows that an import left out, each reason with their number, as there.
        notes: what an import decided for the reader.
        imported: what was read; None for a study's folder.
    """

    conditions: tuple[StudyResults, ...]
    warnings: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    imported: Imported | None = None

    @property
    def said(self) -> dict[str, list[Any]]:
        """The warnings, left-out rows and notes that limit a judgement, as plain values for scripts."""
        return {name: list(getattr(self, name)) for name in _SAID}

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
        return _with_said(Judgeable(conditions), record)
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
    return _with_said(Judgeable(tuple(conditions), imported=imported), imported.record())


def _with_said(found: Judgeable, record: Mapping[str, Any]) -> Judgeable:
    """Return results with what the record of their import says; a study that was trained has none."""
    warnings, left_out, notes = (tuple(record.get(name, ())) for name in _SAID)
    return replace(found, warnings=warnings, left_out=left_out, notes=notes)
