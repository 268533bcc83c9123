"""The commands that make a study: begin it, work on it, report on it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradgate.api.compare import Study, forecast_comparison
from gradgate.api.compare import compare as compare_methods
from gradgate.api.shown import PAGE
from gradgate.api.values import STORE_VARIABLE
from gradgate.cli.completion import method_names, models_named, tasks_named
from gradgate.cli.forecast import DryRun, show_forecast
from gradgate.cli.options import AsJson, Config, Out, Quiet, setting_help, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError, nearest

if TYPE_CHECKING:
    from gradgate.study.workers.queue import QueuedRun

Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        autocompletion=tasks_named,
        help=setting_help(
            "task", "repeat to compare on several, for which --data holds a folder each that is named like it"
        ),
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", autocompletion=models_named, help=setting_help("model", "repeat to compare on several")),
]
TrainSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--train-size",
        metavar="<int|all>",
        help=setting_help("train_size", "repeat to compare at several, with 'all' for every row"),
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        autocompletion=method_names,
        help="A method; repeat for several. With an adapter of its own, as lora:r=8 or 'lora:r=8 + graddrop', it is "
        "not crossed with --adapter.",
    ),
]
Sweep = Annotated[
    str | None,
    typer.Option(
        help="A row of methods: 'freeze' is full, then freeze:layers=1, 2, ... up to the head alone; "
        "'freeze:step=3' takes every third of these."
    ),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        help="Compare on this adapter: a kind with its options, such as houlsby:size=64, or with PEFT lora:r=8, dora, "
        "rslora, ia3, shira or peft:TYPE,r=4; repeat for several, with 'none' for the model itself. Every method runs "
        "on each. lr=1e-3 among the options is this adapter's own learning rate, as adapters want a higher one than "
        "--lr is for fine-tuning: LoRA's best one is about ten times as high. --search lr=... finds one for each.",
    ),
]
Seeds = Annotated[str, typer.Option(help="How many seeds (3 means 0, 1, 2), or the seeds themselves (0,7,42; or 7,).")]
Workers = Annotated[int, typer.Option(min=1, help="Runs that are trained at the same time.")]
Ray = Annotated[
    str | None,
    typer.Option(help="Train on a Ray cluster instead: host:port, auto, or local to start Ray on this machine."),
]
GpusPerRun = Annotated[float, typer.Option(min=0.0, help="GPUs that one run takes on --ray; 0.5 puts two on one.")]
Grace = Annotated[
    int, typer.Option(min=1, help="Seconds without a sign of life after which a worker's run is given to another.")
]
Search = Annotated[
    list[str] | None,
    typer.Option(
        help="Try settings first, the same for each method, and compare each method with its best on dev: "
        "lr=1e-5,2e-5,5e-5, or the range lr=1e-5..1e-4 with --trials; repeat for several settings. A task of "
        "generation searches lr=2e-5,1e-4,5e-4,2e-3,1e-2 where --lr is not given. With --budget, each setting is "
        "an arm of each method, and the worse ones leave."
    ),
]
Trials = Annotated[int | None, typer.Option(min=1, help="Settings to draw from the ranges of --search.")]
SearchSeeds = Annotated[int, typer.Option(min=1, help="Runs of each setting of --search, each with its own seed.")]
Prune = Annotated[
    bool, typer.Option("--prune", help="End runs of --search early whose dev scores are below the median so far.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="Train at most this share of the grid's optimizer steps, such as 0.1: all methods run for an eighth of "
        "their steps, the worse ones leave, the others go on and get more seeds, and a test on dev says at the end "
        "which one wins, or that it cannot be told. Run again with a larger share, it goes on; 1 trains every run.",
    ),
]
BudgetSteps = Annotated[int | None, typer.Option(help="The same as a number of optimizer steps, of all runs together.")]
BudgetTime = Annotated[
    str | None,
    typer.Option(
        metavar="<time>",
        help="The same as a time, such as 30m or 1h30m. An eighth of one run of each method is trained in any case; "
        "how long these take by the clock turns the time into steps, which stay the same when the study goes on.",
    ),
]

study_app = typer.Typer(help="Look at a study under way, and mend it.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(help="A folder that 'gradgate compare' made.")]
StoreAddress = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar=STORE_VARIABLE,
        help="Database server that keeps the queue, as postgresql+psycopg://user:password@host/database; by default "
        "a SQLite file in the study's folder.",
    ),
]


Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        help=setting_help(
            "store",
            "or the address of a database server that keeps the queue, as "
            "postgresql+psycopg://user:password@host/database, instead of a SQLite file in the study's folder; "
            f"{STORE_VARIABLE} has one, too; repeat for both",
        ),
    ),
]


@study_app.command()
def status(study: Folder, store: StoreAddress = None, as_json: AsJson = False, config_file: Config = None) -> None:
    """What waits, runs, is paused at a step, has finished or failed."""
    from gradgate.study.status import read_status, status_table

    found = read_status(study, store)
    if as_json:
        print_json(found.record())
    else:
        console.print(status_table(found))


@study_app.command()
def failed(study: Folder, store: StoreAddress = None, as_json: AsJson = False, config_file: Config = None) -> None:
    """The failed runs, why they failed, and where their logs are."""
    from gradgate.study.status import failures_table, read_status

    found = read_status(study, store)
    if as_json:
        print_json([run for run in found.record()["runs"] if run["state"] == "failed"])
    else:
        console.print(failures_table(found), soft_wrap=True)


@study_app.command()
def retry(
    study: Folder,
    store: StoreAddress = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Of this method only.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of this seed only.")] = None,
    config_file: Config = None,
) -> None:
    """Queue failed runs again; they go on where they failed."""
    from gradgate.study.status import open_queue

    queue = open_queue(study, store)
    text = None if method is None else method.replace(" ", "")
    _require_run(queue.runs(), text, seed)
    again = queue.retry(lambda run: _is_asked_for(run, text, seed))
    for run in again:
        print_line(run.label)
    print_line(f"{len(again)} runs wait again; start them with: gradgate worker {study}")


def _is_asked_for(run: QueuedRun, method: str | None, seed: int | None) -> bool:
    """Whether a run is of a method, by itself or by its arm's name without blanks, and of a seed; None is any."""
    return method in (None, run.config["method"], _arm_of(run).replace(" ", "")) and seed in (None, run.config["seed"])


def _arm_of(run: QueuedRun) -> str:
    from gradgate.settings.adapter import titled

    return titled(run.config["method"], run.config.get("adapter"))


def _require_run(runs: list[QueuedRun], method: str | None, seed: int | None) -> None:
    """Refuse a method or seed that no run of a study has."""
    if any(_is_asked_for(run, method, seed) for run in runs):
        return
    arms = list(dict.fromkeys(map(_arm_of, runs)))
    seeds = ", ".join(map(str, sorted({run.config["seed"] for run in runs})))
    given = (("--method", method), ("--seed", seed))
    asked = " ".join(f"{flag} {value}" for flag, value in given if value is not None) or "A run"
    raise UsageError(
        f"{asked}: no run of the study is of that.{nearest(method or '', arms)} Expected one of its methods "
        f"({', '.join(arms)}) and seeds ({seeds})."
    )


@takes_settings("task", "model", "train_size", "method", "adapter", "seed", "fsdp", "store")
def compare(
    settings: dict[str, Any],
    task: Tasks = None,
    model: Models = None,
    train_size: TrainSizes = None,
    method: Methods = None,
    adapter: Adapters = None,
    sweep: Sweep = None,
    seeds: Seeds = "3",
    search: Search = None,
    trials: Trials = None,
    search_seeds: SearchSeeds = 1,
    prune: Prune = False,
    budget: Budget = None,
    budget_steps: BudgetSteps = None,
    budget_time: BudgetTime = None,
    out_folder: Out = Path("studies/latest"),
    workers: Workers = 1,
    ray: Ray = None,
    gpus_per_run: GpusPerRun = 0.0,
    store: Stores = None,
    grace: Grace = 30,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Compare methods over seeds, and write the report.

    Tasks, models, adapters and sizes of the training set can be crossed with them. Run again, it goes on.
    """
    asked: dict[str, Any] = dict(
        model=model, task=task, method=method, adapter=adapter, train_size=train_size, sweep=sweep, seeds=seeds,
        search=search, trials=trials, search_seeds=search_seeds, prune=prune, budget=budget, budget_steps=budget_steps,
        budget_time=budget_time, out=out_folder, workers=workers, ray=ray, gpus_per_run=gpus_per_run, store=store,
        grace=grace, quiet=quiet or as_json, **settings,
    )  # fmt: skip
    if dry_run:
        show_forecast(forecast_comparison(**asked), as_json)
    else:
        _show(compare_methods(**asked), quiet, as_json)


def worker(
    study: Folder,
    store: StoreAddress = None,
    workers: Workers = 1,
    wait: Annotated[bool, typer.Option("--wait", help="Stay for runs that are added later.")] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the study's models.")
    ] = False,
    quiet: Quiet = False,
    config_file: Config = None,
) -> None:
    """Train what waits in a study, on this or another machine.

    Any machine that sees the study's folder and store can help. It ends when nothing is left.
    """
    _require_study(study)

    from gradgate.study.progress import SilentStudy, StudyBars  # torch loads after the folder is checked
    from gradgate.study.workers.worker import join

    if quiet:
        failed = join(study, store, SilentStudy(), workers, linger=wait, trust_remote_code=trust_remote_code)
    else:
        with StudyBars(errors) as bars:
            failed = join(study, store, bars, workers, linger=wait, trust_remote_code=trust_remote_code)
    if failed:
        errors.print(f"{failed} runs failed; 'gradgate study failed {study}' says why.", soft_wrap=True)
        raise typer.Exit(1)


def report(
    study: Annotated[Path, typer.Argument(help="A folder that 'gradgate compare' made.")],
    quiet: Quiet = False,
    config_file: Config = None,
) -> None:
    """Write the report, tables and figures of a study again."""
    _require_study(study)

    from gradgate.report import write_report  # matplotlib loads after the folder is checked

    written = write_report(study)
    if not quiet:
        print_line(f"Report: {written.html}")


def _require_study(folder: Path) -> None:
    """Refuse a folder that holds no study."""
    from gradgate.study.parts import part_folders
    from gradgate.study.study_file import read_study_file

    for part in part_folders(folder):
        read_study_file(part)


class QuickstartKind(str, Enum):
    """What is tried."""

    classification = "classification"
    generation = "generation"


def quickstart(
    kind: Annotated[
        QuickstartKind,
        typer.Option(
            help="classification of reviews by an encoder in ten languages, or generation of sentences by a decoder, "
            "which needs pip install 'gradgate[llm]'."
        ),
    ] = QuickstartKind.classification,
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for everything that is written; default in studies/.")
    ] = None,
    quiet: Quiet = False,
    config_file: Config = None,
) -> None:
    """Compare methods on an embedded model, in minutes.

    Nothing is downloaded.
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
