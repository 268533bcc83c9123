"""Measure what training changed in finished runs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.api.analyses import Analysis, Fisher, ForgettingCourse, Landscape, Representations
from gradgate.api.finished import AnyRun, folders_of
from gradgate.api.shown import data_frame
from gradgate.console import errors
from gradgate.errors import UsageError, nearest
from gradgate.files import below
from gradgate.places import typed_path
from gradgate.settings.analysis import ForgettingCourseSettings, LandscapeSettings, RepresentationSettings
from gradgate.settings.base import checked_settings

if TYPE_CHECKING:
    from gradgate.report.drawing import Drawing
    from gradgate.report.table import Table
    from gradgate.runs.progress import RunProgress

_SETTINGS: Mapping[str, Any] = {
    "representations": (Representations, RepresentationSettings),
    "landscape": (Landscape, LandscapeSettings),
    "forgetting": (ForgettingCourse, ForgettingCourseSettings),
}
_NAMES = (*_SETTINGS, "fisher")


@dataclass(frozen=True)
class Analyzed:
    """The findings of an analysis about runs that share a figure.

    Attributes:
        folder: with the measurements as CSV.
        tables: of the report.
        drawings: the figures.
        captions: what they show, in sentences.
        found: the rows as measured.
        part: the name of the part of a study of several tasks or models; empty for others.
    """

    folder: Path
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    captions: tuple[str, ...]
    found: Any
    part: str = ""

    @property
    def figures(self) -> Mapping[str, Drawing]:
        """The figures by their names. Each shows itself in a notebook; ``.svg`` and ``.pdf`` hold it."""
        return {drawing.name: drawing for drawing in self.drawings}

    def table(self, name: str | None = None) -> Any:
        """Return a table as a ``pandas.DataFrame``; by default the first.

        Raises:
            UsageError: if there is no such table.
            MissingPandasError: if pandas is not installed.
        """
        tables = {table.name: table for table in self.tables}
        name = next(iter(tables)) if name is None else name
        if name not in tables:
            raise UsageError(f"There is no table {name!r}.{nearest(name, tables)} Expected one of {', '.join(tables)}.")
        return data_frame(tables[name].records)

    def __repr__(self) -> str:
        return "\n".join([*self.captions, f"CSV, SVG and PDF are in {self.folder}"])


def analyze(
    what: str,
    runs: AnyRun | Sequence[AnyRun],
    *,
    out: str | PathLike[str] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> list[Analyzed]:
    """Measure what training changed, as ``gradgate analyze`` does; earlier measurements are reused.

    Args:
        what: ``"representations"``, ``"landscape"``, ``"fisher"`` or ``"forgetting"``.
        runs: a study, or one finished run or more.
        out: folder for CSV, SVG and PDF; by default ``analyses/NAME`` in the run's or study's.
        quiet: show no progress.
        settings: those of the command, such as ``tokens=1000``.

    Returns:
        One result per task and model; a single one for runs, and for a study of one task and model.

    Raises:
        UsageError: for an unknown analysis or setting, no run, or several runs without ``out``.
        RunError: for a folder without runs that kept their model.
    """
    analysis = _read(what, settings)
    paths = folders_of(runs)
    if not paths:
        raise UsageError("No run was named; expected a study, or one finished run or more.")
    note = (lambda text: None) if quiet else (lambda text: errors.print(text, soft_wrap=True))
    return list(analyze_in(analysis, paths, None if out is None else typed_path(out), note, quiet=quiet))


def analyze_in(
    analysis: Analysis[Any, Any],
    paths: Sequence[Path],
    out: Path | None,
    note: Callable[[str], None],
    *,
    quiet: bool = False,
) -> Iterator[Analyzed]:
    """Find the runs, measure them, write the figures, and yield what was found; see :func:`analyze`.

    Raises:
        UsageError: for several runs without a folder to share.
    """
    groups = analysis.find(paths, note)
    if len(paths) > 1 and out is None:
        raise UsageError(f"{len(paths)} runs were named, which needs out=, a folder for the results of all of them.")
    for group in groups:
        folder = below(group.folder, "analyses", analysis.name) if out is None else out / group.part
        with _progress(None if quiet else analysis.progress) as progress:
            found = analysis.measure(group, folder, progress)
        yield replace(_written(analysis, found, group.arms, folder), part=group.part)


def _read(what: str, settings: Mapping[str, Any]) -> Analysis[Any, Any]:
    if what not in _NAMES:
        near = nearest(what, _NAMES) if isinstance(what, str) else ""
        raise UsageError(f"There is no analysis {what!r:.80}.{near} Expected one of {', '.join(_NAMES)}.")
    if what == "fisher":
        if settings:
            raise UsageError(f"fisher takes no settings, got {', '.join(settings)}. Leave them out.")
        return Fisher()
    kind, of = _SETTINGS[what]
    analysis: Analysis[Any, Any] = kind(checked_settings(of, settings))
    return analysis


def _written(analysis: Analysis[Any, Any], found: Any, arms: Sequence[str], folder: Path) -> Analyzed:
    from gradgate.report import write_drawings

    drawings = analysis.drawings(found, arms)
    write_drawings(folder, drawings)
    return Analyzed(folder, tuple(analysis.tables(found)), tuple(drawings), tuple(analysis.caption(found)), found)


@contextmanager
def _progress(counted: tuple[str, str] | None) -> Iterator[RunProgress]:
    """Yield a bar on standard error, or nothing that shows."""
    from gradgate.runs.progress import Bar, Silent

    if counted is None:
        yield Silent()
    else:
        with Bar(errors, *counted) as bar:
            yield bar
