"""The commands that measure what training changed in the models of finished runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradgate.cli.options import AsJson, Config, Quiet
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError

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
    typer.Option("--out", "-o", help="Folder for CSV, SVG and PDF [default: analyses/NAME in the run's or study's]."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of what is drawn.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows in one forward pass.")]
Device = Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]
Data = Annotated[Path | None, typer.Option(help="Folder with the task's files, where these have moved.")]
Trusted = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


@analyze_app.callback()
def _group() -> None: ...


@analyze_app.command()
def representations(
    paths: Analyzed,
    out: Out = None,
    tokens: Annotated[int, typer.Option(min=3, help="Tokens to draw; the paper takes 5000.")] = 1000,
    split: Annotated[
        list[str] | None, typer.Option(help="Where the tokens are from, such as test.de; repeatable [default: dev].")
    ] = None,
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    threads: Threads = None,
    data: Data = None,
    trust_remote_code: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """How far training moved the representations of each layer.

    Similarity of tokens with the pretrained model: RSA and linear CKA.
    """
    from gradgate.analysis.representations import NAME, representations_folder, seen, similarities, splits_of

    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.finished import Computing  # torch loads after the folders are checked
    from gradgate.analysis.hidden_states import Request, measure
    from gradgate.report.sections.analyzed.representations import draw_representations, similarity_table

    computing = Computing(
        batch_size=batch_size, device=device, threads=threads, data=data, trust_remote_code=trust_remote_code
    )
    request = Request(tokens, seed, tuple(dict.fromkeys(split or ["dev"])))
    every = []
    for group in groups:
        folder = representations_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "comparing", "runs") as progress:
            rows = measure(group.runs, folder, request, computing, progress)
        every += rows
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        show(
            folder.path,
            draw_representations(rows, arms),
            [similarity_table(rows, name) for name in splits_of(rows)],
            [seen(similarities(rows, name)) for name in splits_of(rows)],
            quiet or as_json,
        )
    if as_json:
        print_json([asdict(row) for row in every])


@analyze_app.command()
def landscape(
    paths: Analyzed,
    out: Out = None,
    rows: Annotated[int, typer.Option(help="Rows of train and of dev whose mean loss is taken.")] = 64,
    low: Annotated[float, typer.Option("--from", help="Where the line begins; 0 is before training.")] = -2.0,
    high: Annotated[float, typer.Option("--to", help="Where it ends; 1 is after training.")] = 2.0,
    points: Annotated[int, typer.Option(help="Points of the line, to which 0 and 1 are added; the paper: 20.")] = 21,
    plane: Annotated[int, typer.Option(help="Points of each side of the plane, an odd number; 0 for no plane.")] = 11,
    span: Annotated[float, typer.Option(help="Half of a side of the plane; 1 is as long as the weights.")] = 1.0,
    plane_seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each arm for which the plane is measured; 0 for the lines alone.")
    ] = 1,
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    threads: Threads = None,
    data: Data = None,
    trust_remote_code: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """The loss from the weights before training to those after.

    And beyond, and on a random plane around the latter.
    """
    from gradgate.analysis.landscape import NAME, landscape_folder, seen

    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.finished import Computing  # torch loads after the folders are checked
    from gradgate.analysis.loss_surface import Request, measure
    from gradgate.report.sections.analyzed.landscape import draw_landscape, flatness_table

    computing = Computing(
        batch_size=batch_size, device=device, threads=threads, data=data, trust_remote_code=trust_remote_code
    )
    request = Request(rows=rows, seed=seed, low=low, high=high, points=points, plane=plane, span=span)
    every = []
    for group in groups:
        folder = landscape_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "measuring", "points") as progress:
            found = measure(group.runs, folder, request, plane_seeds, computing, progress)
        every += found
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        show(folder.path, draw_landscape(found, arms), [flatness_table(found)], [seen(found)], quiet or as_json)
    if as_json:
        print_json([asdict(row) for row in every])


@analyze_app.command()
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
    from gradgate.report.sections.analyzed.fisher import fisher_drawings, fisher_tables, schedules_seen, seen, shown_as

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
        sentences = [seen(group.runs), *([schedules_seen(group.runs)] if metric else [])]
        show(folder, fisher_drawings(group.runs, order, metric), tables, sentences, quiet or as_json)
    if as_json:
        print_json(every)


@analyze_app.command()
def forgetting(
    paths: Analyzed,
    text: Annotated[
        str,
        typer.Option(
            help="Other text: a file with one text a line, a table or hub data set with a column of texts, or prompts "
            "and responses of another task; with options as 'train --forgetting' takes them."
        ),
    ],
    out: Out = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    threads: Threads = None,
    data: Data = None,
    trust_remote_code: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """What runs forget of other text.

    Before training, at each step that --keep-checkpoints kept, and at the best.
    """
    from gradgate.analysis.forgetting import NAME, forgetting_folder, has_course, seen
    from gradgate.settings.forgetting import read_forgetting

    setting = read_forgetting(text, "--text")
    groups = groups_of(paths, out, quiet or as_json)

    from gradgate.analysis.finished import Computing  # torch loads after the folders are checked
    from gradgate.analysis.forgetting_course import NO_COURSE, measure
    from gradgate.report.sections.analyzed.forgetting_course import course_tables, draw_courses

    computing = Computing(
        batch_size=batch_size, device=device, threads=threads, data=data, trust_remote_code=trust_remote_code
    )
    every = []
    for group in groups:
        folder = forgetting_folder(folder_of(group, NAME, out))
        with progress_of(quiet or as_json, "measuring", "runs") as progress:
            rows = measure(group.runs, folder, setting, computing, progress)
        every += rows
        arms = list(dict.fromkeys(run.arm for run in group.runs))
        sentences = [seen(rows, str(setting)), *([] if has_course(rows) else [NO_COURSE])]
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
