"""The commands that measure what training changed in the models of finished runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradgate.cli.grouped_help import GroupedCommand
from gradgate.cli.options import AsJson, Config, Quiet, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError
from gradgate.settings.analysis import ForgettingCourseSettings, LandscapeSettings, RepresentationSettings

if TYPE_CHECKING:
    from gradgate.analysis.fisher import TrackedGroup
    from gradgate.analysis.runs import RunGroup
    from gradgate.report.drawing import Drawing
    from gradgate.report.table import Table
    from gradgate.runs.progress import RunProgress

analyze_app = typer.Typer(
    help="Measure what training changed; the report shows it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Analyzed = Annotated[list[Path], typer.Argument(metavar="RUN|STUDY", help="A study; or one or more finished runs.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        rich_help_panel="output",
        help="Folder for CSV, SVG and PDF [default: analyses/NAME in the run's or study's].",
    ),
]


@analyze_app.callback()
def _group() -> None: ...


@analyze_app.command(cls=GroupedCommand)
@takes_settings(of=RepresentationSettings)
def representations(
    settings: RepresentationSettings,
    paths: Analyzed,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Measure how far training moved the representations of each layer.

    Similarity of tokens with the pretrained model: RSA and linear CKA.
    """
    from gradgate.analysis.representations import NAME, caption, representations_folder, similarities, splits_of

    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.hidden_states import measure  # torch loads after the folders are checked
    from gradgate.report.sections.analyzed.representations import draw_representations, similarity_table

    every = []
    for group in groups:
        folder = representations_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "comparing", "runs") as progress:
            rows = measure(group.runs, folder, settings, progress)
        every += rows
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        show(
            folder.path,
            draw_representations(rows, arms),
            [similarity_table(rows, name) for name in splits_of(rows)],
            [caption(similarities(rows, name)) for name in splits_of(rows)],
            quiet or as_json,
        )
    if as_json:
        print_json([asdict(row) for row in every])


@analyze_app.command(cls=GroupedCommand)
@takes_settings(of=LandscapeSettings)
def landscape(
    settings: LandscapeSettings,
    paths: Analyzed,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Measure the loss from the weights before training to those after.

    And beyond, and on a random plane around the latter.
    """
    from gradgate.analysis.landscape import NAME, caption, landscape_folder

    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.loss_surface import measure  # torch loads after the folders are checked
    from gradgate.report.sections.analyzed.landscape import flatness_table
    from gradgate.report.sections.analyzed.landscape_figures import draw_landscape

    every = []
    for group in groups:
        folder = landscape_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "measuring", "points") as progress:
            found = measure(group.runs, folder, settings, progress)
        every += found
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        show(folder.path, draw_landscape(found, arms), [flatness_table(found)], [caption(found)], quiet or as_json)
    if as_json:
        print_json([asdict(row) for row in every])


@analyze_app.command(cls=GroupedCommand)
def fisher(
    paths: Analyzed,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """The Fisher information of each layer through training.

    As 'train --track fisher' measured it.
    """
    from gradgate.analysis.fisher import NAME, find_tracked
    from gradgate.files import write_text
    from gradgate.report.export import to_csv
    from gradgate.report.sections.analyzed.fisher import fisher_drawings, fisher_tables, shown_as
    from gradgate.report.sections.analyzed.fisher_tables import caption, schedules_caption

    groups = find_tracked(paths)
    check_shared(paths, out)
    every: dict[str, list[Any]] = {}
    for group in groups:
        folder = folder_of(group, NAME, out)
        order, metric, split = shown_as(group)
        tables = fisher_tables(group.runs, metric, split)
        for table in tables:
            every.setdefault(table.name, []).extend(table.records)
            write_text(folder / f"{table.name}.csv", to_csv(table))
        sentences = [caption(group.runs), *([schedules_caption(group.runs)] if metric else [])]
        show(folder, fisher_drawings(group.runs, order, metric), tables, sentences, quiet or as_json)
    if as_json:
        print_json(every)


@analyze_app.command(cls=GroupedCommand)
@takes_settings(of=ForgettingCourseSettings)
def forgetting(
    settings: ForgettingCourseSettings,
    paths: Analyzed,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Measure what runs forget of other text.

    Before training, at each step that --keep-checkpoints kept, and at the best.
    """
    from gradgate.analysis.forgetting import NAME, caption, forgetting_folder, has_course
    from gradgate.settings.forgetting import read_forgetting

    setting = read_forgetting(settings.text, "--text")
    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.forgetting_course import NO_COURSE, measure  # torch loads after the folders are checked
    from gradgate.report.sections.analyzed.forgetting_course import course_tables, draw_courses

    every = []
    for group in groups:
        folder = forgetting_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "measuring", "runs") as progress:
            rows = measure(group.runs, folder, setting, settings, progress)
        every += rows
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        sentences = [caption(rows, str(setting)), *([] if has_course(rows) else [NO_COURSE])]
        show(folder.path, draw_courses(folder.read(), arms), course_tables(rows), sentences, quiet or as_json)
    if as_json:
        print_json([asdict(row) for row in every])


def groups_of(paths: Sequence[Path], out: Path | None, quiet: bool) -> list[RunGroup]:
    """The runs to analyze.

    Raises:
        UsageError: for several runs that have no folder to share, or what :func:`find_runs` refuses.
        RunError: as that.
    """
    from gradgate.analysis.runs import find_runs

    groups = find_runs(paths, (lambda text: None) if quiet else (lambda text: errors.print(text, soft_wrap=True)))
    check_shared(paths, out)
    return groups


def check_shared(paths: Sequence[Path], out: Path | None) -> None:
    """UsageError for several runs that have no folder to share."""
    if len(paths) > 1 and out is None:
        raise UsageError(f"{len(paths)} runs were named; expected --out, a folder for what is measured of them all.")


def folder_of(group: RunGroup | TrackedGroup, name: str, out: Path | None) -> Path:
    """Where the analysis of a group is kept."""
    from gradgate.analysis.folder import ANALYSES_FOLDER

    return group.folder / ANALYSES_FOLDER / name if out is None else out / group.part


@contextmanager
def progress_of(quiet: bool, action: str, unit: str) -> Iterator[RunProgress]:
    """A bar on standard error, or nothing."""
    from gradgate.runs.progress import Bar, Silent

    if quiet:
        yield Silent()
    else:
        with Bar(errors, action, unit) as bar:
            yield bar


def show(
    folder: Path, drawings: Sequence[Drawing], tables: Sequence[Table], sentences: Sequence[str], quiet: bool
) -> None:
    """Write the figures of an analysis, and print its tables and what they say."""
    from gradgate.report import write_drawings
    from gradgate.report.export import to_terminal

    write_drawings(folder, drawings)
    if quiet:
        return
    for table in tables:
        console.print(to_terminal(table, tuple(column.key for column in table.columns), console.width))
    for sentence in sentences:
        print_line(sentence)
    print_line(f"CSV, SVG and PDF are in {folder}")
