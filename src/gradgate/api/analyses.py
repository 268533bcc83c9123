"""The analyses of finished runs in one form: which runs, what to measure, and how to show it.

Everything heavy is imported by the method that needs it, so that wrong folders are named at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gradgate.settings.analysis import ForgettingCourseSettings, LandscapeSettings, RepresentationSettings

if TYPE_CHECKING:
    from gradgate.analysis.fisher import TrackedGroup
    from gradgate.analysis.forgetting import ForgettingRow
    from gradgate.analysis.landscape import LandscapeRow
    from gradgate.analysis.representations import RepresentationRow
    from gradgate.analysis.runs import RunGroup
    from gradgate.report.drawing import Drawing
    from gradgate.report.table import Table
    from gradgate.runs.progress import RunProgress

Group = TypeVar("Group", bound="AnyGroup")
Found = TypeVar("Found")


class AnyGroup(Protocol):
    """Runs that share a figure."""

    @property
    def folder(self) -> Path:
        """The folder of the study or the run."""

    @property
    def part(self) -> str:
        """The name of its folder among the parts of a study of several tasks or models; else empty."""

    @property
    def arms(self) -> list[str]:
        """The names of the arms in order, which decides their colours."""


class Analysis(Protocol[Group, Found]):
    """One analysis."""

    @property
    def name(self) -> str:
        """The name of its folder and its files."""

    @property
    def progress(self) -> tuple[str, str] | None:
        """An action and what is counted, for the progress bar; None if nothing is measured."""

    def find(self, paths: Sequence[Path], note: Callable[[str], None]) -> list[Group]:
        """Find the runs of a study, or the named ones; ``note`` is called with what is left out."""

    def measure(self, group: Group, folder: Path, progress: RunProgress) -> Found:
        """Measure what the folder lacks, store it there, and return everything."""

    def tables(self, found: Found) -> list[Table]:
        """Return the tables."""

    def drawings(self, found: Found, arms: Sequence[str]) -> list[Drawing]:
        """Draw the figures."""

    def caption(self, found: Found) -> list[str]:
        """Say what was found, in sentences."""

    def record(self, found: Found) -> Any:
        """Return plain values: a list of records, or one per table."""


class Representations:
    """The analysis of how far training moved the representations of each layer."""

    name = "representations"
    progress = "comparing", "runs"

    def __init__(self, settings: RepresentationSettings) -> None:
        self.settings = settings

    def find(self, paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
        """Find the runs that kept their models."""
        return _finished(paths, note)

    def measure(self, group: RunGroup, folder: Path, progress: RunProgress) -> list[RepresentationRow]:
        """Compare each layer with the pretrained model's."""
        from gradgate.analysis.hidden_states import measure
        from gradgate.analysis.representations import representations_folder

        return measure(group.runs, representations_folder(folder), self.settings, progress)

    def tables(self, found: list[RepresentationRow]) -> list[Table]:
        """Return one table per split."""
        from gradgate.analysis.representations import splits_of
        from gradgate.report.sections.analyzed.representations import similarity_table

        return [similarity_table(found, split) for split in splits_of(found)]

    def drawings(self, found: list[RepresentationRow], arms: Sequence[str]) -> list[Drawing]:
        """Draw one figure per split."""
        from gradgate.report.sections.analyzed.representations import draw_representations

        return draw_representations(found, arms)

    def caption(self, found: list[RepresentationRow]) -> list[str]:
        """Say which arms stay closest to the pretrained model, per split."""
        from gradgate.analysis.representations import caption, similarities, splits_of

        return [caption(similarities(found, split)) for split in splits_of(found)]

    def record(self, found: list[RepresentationRow]) -> list[dict[str, Any]]:
        """Return one record per layer of a run."""
        return [asdict(row) for row in found]


class Landscape:
    """The loss around the weights that each run found."""

    name = "landscape"
    progress = "measuring", "points"

    def __init__(self, settings: LandscapeSettings) -> None:
        self.settings = settings

    def find(self, paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
        """Find the runs that kept their models."""
        return _finished(paths, note)

    def measure(self, group: RunGroup, folder: Path, progress: RunProgress) -> list[LandscapeRow]:
        """Measure the loss on the line of each run, and on the planes."""
        from gradgate.analysis.landscape import landscape_folder
        from gradgate.analysis.loss_surface import measure

        return measure(group.runs, landscape_folder(folder), self.settings, progress)

    def tables(self, found: list[LandscapeRow]) -> list[Table]:
        """Return the widths of the minima."""
        from gradgate.report.sections.analyzed.landscape import flatness_table

        return [flatness_table(found)]

    def drawings(self, found: list[LandscapeRow], arms: Sequence[str]) -> list[Drawing]:
        """Draw the lines and the planes."""
        from gradgate.report.sections.analyzed.landscape_figures import draw_landscape

        return draw_landscape(found, arms)

    def caption(self, found: list[LandscapeRow]) -> list[str]:
        """Say which minimum is widest."""
        from gradgate.analysis.landscape import caption

        return [caption(found)]

    def record(self, found: list[LandscapeRow]) -> list[dict[str, Any]]:
        """Return one record per point."""
        return [asdict(row) for row in found]


class ForgettingCourse:
    """The analysis of what runs forget of other text while they train.

    Raises:
        UsageError: for a text that cannot be read as one.
    """

    name = "forgetting"
    progress = "measuring", "runs"

    def __init__(self, settings: ForgettingCourseSettings) -> None:
        from gradgate.settings.forgetting import read_forgetting

        self.settings = settings
        self.text = read_forgetting(settings.text, "text")

    def find(self, paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
        """Find the runs that kept their models."""
        return _finished(paths, note)

    def measure(self, group: RunGroup, folder: Path, progress: RunProgress) -> list[ForgettingRow]:
        """Measure the text at each stored step; return the rows of all texts of the folder."""
        from gradgate.analysis.forgetting import forgetting_folder
        from gradgate.analysis.forgetting_course import measure
        from gradgate.analysis.runs import AnalyzedRuns

        stored, analyzed = forgetting_folder(folder), AnalyzedRuns(group.runs)
        measure(group.runs, stored, self.text, self.settings, progress)
        return [row for row in stored.read() if analyzed.have(row)]

    def tables(self, found: list[ForgettingRow]) -> list[Table]:
        """Return the course on the text."""
        from gradgate.report.sections.analyzed.forgetting_course import course_tables

        return course_tables(self._own(found))

    def drawings(self, found: list[ForgettingRow], arms: Sequence[str]) -> list[Drawing]:
        """Draw one figure per text."""
        from gradgate.report.sections.analyzed.forgetting_course import draw_courses

        return draw_courses(found, arms)

    def caption(self, found: list[ForgettingRow]) -> list[str]:
        """Say how much of the text each arm forgets, and what is needed for its course."""
        from gradgate.analysis.forgetting import NO_COURSE, caption, has_course

        own = self._own(found)
        return [caption(own, str(self.text)), *([] if has_course(own) else [NO_COURSE])]

    def record(self, found: list[ForgettingRow]) -> list[dict[str, Any]]:
        """Return one record per step of a run."""
        return [asdict(row) for row in self._own(found)]

    def _own(self, rows: list[ForgettingRow]) -> list[ForgettingRow]:
        return [row for row in rows if row.text == str(self.text)]


class Fisher:
    """The Fisher information of each layer through training, as ``train --track fisher`` measured it."""

    name = "fisher"
    progress = None

    def find(self, paths: Sequence[Path], note: Callable[[str], None]) -> list[TrackedGroup]:
        """Find the runs that tracked it."""
        from gradgate.analysis.fisher import find_tracked

        return find_tracked(paths)

    def measure(self, group: TrackedGroup, folder: Path, progress: RunProgress) -> TrackedGroup:
        """Write the tables of what the runs tracked as CSV."""
        from gradgate.files import write_files
        from gradgate.report.export import to_csv

        write_files(folder, {f"{table.name}.csv": to_csv(table) for table in self.tables(group)})
        return group

    def tables(self, found: TrackedGroup) -> list[Table]:
        """Return the curves, the layers, the orders, and the schedules if they have scores."""
        from gradgate.report.sections.analyzed.fisher import fisher_tables, shown_as

        return fisher_tables(found.runs, *shown_as(found))

    def drawings(self, found: TrackedGroup, arms: Sequence[str]) -> list[Drawing]:
        """Draw the same."""
        from gradgate.report.sections.analyzed.fisher import fisher_drawings, shown_as

        metric, _ = shown_as(found)
        return fisher_drawings(found.runs, arms, metric)

    def caption(self, found: TrackedGroup) -> list[str]:
        """Say what the curves show, and how they go with the scores if there are some."""
        from gradgate.report.sections.analyzed.fisher_tables import caption, schedules_caption

        return [caption(found.runs), *([schedules_caption(found.runs)] if found.results is not None else [])]

    def record(self, found: TrackedGroup) -> dict[str, list[dict[str, Any]]]:
        """Return the records of each table by its name."""
        return {table.name: list(table.records) for table in self.tables(found)}


def _finished(paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
    from gradgate.analysis.runs import find_runs

    return find_runs(paths, note)
