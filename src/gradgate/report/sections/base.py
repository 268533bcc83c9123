"""What a section gives to a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from gradgate.analysis.folder import AnalysisFolder
from gradgate.errors import RunError
from gradgate.report.drawing import Drawing
from gradgate.report.next_steps import Lines
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True)
class Section(ABC):
    """One subject of a report: its data, and the tables, figures and sentences made from it.

    Write a subclass into a file of this package and add it to ``SECTIONS``. It overrides what it has something for.
    """

    study: StudySummary

    @classmethod
    @abstractmethod
    def find(cls, study: StudySummary) -> Section | None:
        """Return the section with its data; None if the study has none for it."""

    @property
    def name(self) -> str:
        """The name of its class, as each section occurs once in a report."""
        return type(self).__name__

    @property
    def on_page(self) -> bool:
        """Whether the page and the terminal show the section by default.

        Sections that a paper needs and a user's question does not are shown with ``--all-sections`` and by
        ``reproduce``. Their tables and figures are written in any case.
        """
        return True

    @property
    def leads(self) -> bool:
        """Whether the section answers the study in place of the comparison of finished runs, and comes first."""
        return False

    def commands(self) -> list[Lines]:
        """Return the commands and the Python that follow from the section's answer."""
        return []

    def tables(self) -> list[Table]:
        """Return the tables, which are written as CSV, Markdown and LaTeX under their names."""
        return []

    def drawings(self) -> list[Drawing]:
        """Return the figures, which are written as SVG and PDF under their names."""
        return []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the tables for the terminal, each with the keys of its columns, most important first."""
        return []

    def answer(self) -> str | None:
        """Return the study's answer if it is not the comparison of finished runs, which then is a remark."""
        return None

    def remarks(self) -> list[str]:
        """Return sentences that add to the study's answer."""
        return []

    def notes(self) -> list[str]:
        """Say how the section's numbers are made, for a reader who was not there."""
        return []

    def cautions(self) -> list[str]:
        """Say what could not be read, and why."""
        return []


@dataclass(frozen=True)
class AnalyzedSection(Section, Generic[Row]):
    """The rows that ``gradgate analyze`` has measured on the runs of a study, or why these cannot be read."""

    analysis: ClassVar[str]
    row: ClassVar[type[Any]]

    rows: list[Row]
    problem: str = ""
    outdated: int = 0

    @classmethod
    def find(cls, study: StudySummary) -> Self | None:
        """Return None for a study that was not analyzed."""
        folder = AnalysisFolder.of(study.results.folder, cls.analysis, cls.row)
        try:
            rows = [row for row in folder.read() if row.arm in study.record.arm_names]
        except RunError as error:
            return cls(study, [], str(error))
        if not rows:
            return None
        finished = {(cell.arm.name, cell.seed, cell.mark) for arm in study.arms for cell in arm.finished}
        current = [row for row in rows if (row.arm, row.seed, row.run) in finished]
        outdated = {(row.arm, row.seed, row.run) for row in rows}.difference(finished)
        return cls(study, current, outdated=len(outdated))

    def cautions(self) -> list[str]:
        """Say why what was measured cannot be read, or is not shown."""
        found = [self.problem] if self.problem else []
        if self.outdated:
            runs = "1 run that was" if self.outdated == 1 else f"{self.outdated} runs that were"
            found.append(
                f"What was measured on {runs} trained again or removed since is left out; run 'gradgate analyze "
                f"{self.analysis}' again."
            )
        return found
