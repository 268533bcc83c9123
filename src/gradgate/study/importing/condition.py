"""Hold the scores of one task, model and training size of an import; write them as a study, or judge them unwritten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradgate.study.imported import ImportedCosts, ImportedScore, write_imported
from gradgate.study.results import StudyResults, imported_results
from gradgate.study.study_file import StudyRecord, check_size, write_study_file


@dataclass(frozen=True)
class ImportedCondition:
    """The scores of one condition.

    Attributes:
        study: its arms and seeds, as ``study.json`` has them.
        scores: of all runs.
        costs: of the runs whose source states some.
    """

    study: StudyRecord
    scores: tuple[ImportedScore, ...]
    costs: tuple[ImportedCosts, ...]

    def write(self, folder: Path) -> None:
        """Write the condition as a study; raise RunError if it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        write_imported(folder, self.scores, self.costs)
        write_study_file(folder, self.study)

    def results(self, source: Path) -> StudyResults:
        """Return the results that the written study would have; raise RunError if it has too many runs.

        Args:
            source: of the scores.
        """
        check_size(self.study)
        return imported_results(source, self.study, self.scores, self.costs)
