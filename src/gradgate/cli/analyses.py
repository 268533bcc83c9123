"""The commands that measure what training changed in the models of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gradgate.api import analyze as measuring
from gradgate.api.analyses import Analysis, Fisher, ForgettingCourse, Landscape, Representations
from gradgate.cli.grouped_help import GroupedCommand
from gradgate.cli.options import AsJson, Config, Quiet, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.settings.analysis import ForgettingCourseSettings, LandscapeSettings, RepresentationSettings

analyze_app = typer.Typer(
    help="Measure what training changed, for the report.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Analyzed = Annotated[list[Path], typer.Argument(metavar="RUN|STUDY", help="A study, or one or more finished runs.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        rich_help_panel="output",
        help="Folder for CSV, SVG and PDF files [default: analyses/NAME in the run or study].",
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
    """Measure how far each layer's representations moved.

    Compare token representations with the pretrained model's by RSA and linear CKA.
    """
    _analyze(Representations(settings), paths, out, quiet, as_json)


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
    """Measure the loss around the trained weights.

    Evaluate it along the line from the initial weights (including the head's) to the trained ones, and on a random
    plane.
    """
    _analyze(Landscape(settings), paths, out, quiet, as_json)


@analyze_app.command(cls=GroupedCommand)
def fisher(
    paths: Analyzed,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Show the Fisher information of each layer.

    Needs runs trained with --track fisher.
    """
    _analyze(Fisher(), paths, out, quiet, as_json)


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
    """Measure how much other text the runs have forgotten.

    It is measured before training, at each checkpoint of --keep-checkpoints, and at the best checkpoint.
    """
    _analyze(ForgettingCourse(settings), paths, out, quiet, as_json)


def _analyze(analysis: Analysis[Any, Any], paths: Sequence[Path], out: Path | None, quiet: bool, as_json: bool) -> None:
    """Measure the runs, and show what was found."""
    talk = not (quiet or as_json)
    note = (lambda text: errors.print(text, soft_wrap=True)) if talk else (lambda text: None)
    every = []
    for analyzed in measuring.analyze_in(analysis, paths, out, note, quiet=not talk):
        every.append(analyzed)
        if talk:
            _show(analyzed)
    if as_json:
        print_json(_together([(analyzed.part, analysis.record(analyzed.found)) for analyzed in every]))


def _together(parts: Sequence[tuple[str, Any]]) -> Any:
    """Return the records of all parts of a study, or those of each table, with the name of the part in each."""
    if isinstance(parts[0][1], dict):
        names = dict.fromkeys(name for _, tables in parts for name in tables)
        return {name: _together([(part, tables.get(name, [])) for part, tables in parts]) for name in names}
    return [{"part": part, **record} if part else record for part, records in parts for record in records]


def _show(analyzed: measuring.Analyzed) -> None:
    """Print the tables and what they say."""
    from gradgate.report.export import to_terminal

    for table in analyzed.tables:
        console.print(to_terminal(table, tuple(column.key for column in table.columns), console.width))
    for sentence in analyzed.captions:
        print_line(console.worded(sentence))
    print_line(f"CSV, SVG and PDF are in {analyzed.folder}")
