"""What a section gives to a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from gradgate.analysis.folder import AnalysisFolder
from gradgate.errors import RunError
from gradgate.report.drawing import Drawing
from gradgate.report.findings import Findings
from gradgate.report.table import Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True)
class Section(ABC):
    """One subject of a report: its data, and the tables, figures and sentences made from it.

    Write a subclass into a file of this package and add it to ``SECTIONS``. It overrides what it has something for.
    """

    findings: Findings

    @classmethod
    @abstractmethod
    def find(cls, findings: Findings) -> Section | None:
        """The section with its data; None for a study that has none for it."""

    def tables(self) -> list[Table]:
        """Shown on the page, and written as CSV, Markdown and LaTeX under their names."""
        return []

    def drawings(self) -> list[Drawing]:
        """Figures, shown on the page, and written as SVG and PDF under their names."""
        return []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Tables for the terminal, each with the keys of the columns to show there, most important first."""
        return []

    def answer(self) -> str | None:
        """The answer of the study where it is another than the comparison of finished runs, which then is a remark."""
        return None

    def remarks(self) -> list[str]:
        """Sentences that add to the study's answer."""
        return []

    def notes(self) -> list[str]:
        """How the section's numbers are made, for a reader who was not there."""
        return []

    def cautions(self) -> list[str]:
        """What could not be read, and why."""
        return []


@dataclass(frozen=True)
class AnalyzedSection(Section, Generic[Row]):
    """What ``gradgate analyze`` has measured on the runs of a study, as rows; or why these cannot be read."""

    analysis: ClassVar[str]
    row: ClassVar[type[Any]]

    rows: list[Row]
    problem: str = ""

    @classmethod
    def find(cls, findings: Findings) -> Self | None:
        """None for a study that was not analyzed."""
        folder = AnalysisFolder.of(findings.results.folder, cls.analysis, cls.row)
        try:
            rows = [row for row in folder.read() if row.arm in findings.results.study.arm_names]
        except RunError as error:
            return cls(findings, [], str(error))
        return cls(findings, rows) if rows else None

    def cautions(self) -> list[str]:
        """Why what was measured cannot be read."""
        return [self.problem] if self.problem else []
