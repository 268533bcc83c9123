"""Where imported results come from, what was left out, and what is doubtful about the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradgate.errors import RunError, some_of
from gradgate.files import read_json
from gradgate.report.pairing import BY_SEED, UNPAIRED
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.study.imported import IMPORT_FILE


@dataclass(frozen=True)
class ImportedSection(Section):
    """The provenance of an imported study."""

    record: dict[str, Any]
    problem: str = ""

    @classmethod
    def find(cls, study: StudySummary) -> ImportedSection | None:
        """Return None for a study that was trained here, and for a part of one, whose whole study says it."""
        file = study.results.folder / IMPORT_FILE
        if study.record.imported is None or not file.is_file():
            return None
        try:
            return cls(study, read_json(file))
        except RunError as error:
            return cls(study, {}, str(error))

    def notes(self) -> list[str]:
        """Name the files with their digests, and what was left out."""
        files = [f"{file['name']} (SHA-256 {file['sha256'][:12]}…)" for file in self.record.get("files", [])]
        named = some_of(files, 8)
        read, kept = self.record.get("rows_read", 0), self.record.get("rows_kept", 0)
        lost = self.record.get("left_out", [])
        left = "; ".join(f"{each['rows']:,} rows: {each['reason']}" for each in lost)
        source = named or "a data frame"
        return [
            f"The scores were measured elsewhere and imported from {source}: {kept:,} of {read:,} rows."
            + (f" Left out: {left}." if left else ""),
            *self.record.get("notes", []),
            *(["'gradgate report --all-sections' writes a page for each task and model."] if self.study.parts else []),
        ]

    def cautions(self) -> list[str]:
        """Return the doubts about the comparison that the import found."""
        doubts = [str(each["text"]) for each in self.record.get("warnings", [])]
        return [*([self.problem] if self.problem else []), *self._of_pairs(), *doubts]

    def _of_pairs(self) -> list[str]:
        how = self.study.pairing
        if how in (BY_SEED, UNPAIRED):
            return []
        return [
            f"Scores are {how.matched}: what this report calls a seed is a {how.unit}. If {how.over} share training "
            "data, as folds of one data set do, intervals and p are too small."
        ]
