"""What a study searched before it compared, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.findings import Findings
from gradgate.report.sections.base import Section
from gradgate.study.grid import written
from gradgate.study.study_file import StudyRecord


@dataclass(frozen=True)
class SearchSection(Section):
    """How the settings of each method were chosen."""

    @classmethod
    def find(cls, findings: Findings) -> SearchSection | None:
        """None without a search."""
        return cls(findings) if findings.results.study.search else None

    def notes(self) -> list[str]:
        """What was tried, and what was chosen."""
        return search_notes(self.findings.results.study)


def search_notes(study: StudyRecord) -> list[str]:
    """What was tried, how it was judged, and what each method runs with; empty without a search."""
    search = study.search
    if search is None:
        return []
    seeds = ", ".join(map(str, search.seeds))
    notes = [
        f"Searched before the comparison: {'; '.join(search.space)}. The same {len(search.settings)} settings "
        f"were tried for each method, with seed {seeds}, and judged by {study.task.metric} on dev alone; no test "
        f"split was scored in the search."
        + (" Runs whose dev scores fell below the median of their method's were ended early." * search.prune)
    ]
    for name in study.labels:
        results = search.results.get(name)
        if results:
            tried = "; ".join(f"{written(result.setting)}: {result.dev:.4f}" for result in results)
            notes.append(f"{name} runs with {written(results[0].setting)} (dev {study.task.metric}: {tried}).")
        elif results is not None:
            notes.append(f"{name}: no setting of its search has finished.")
    return notes
