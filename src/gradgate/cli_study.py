"""The commands that look at a study under way, and mend it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradgate.console import console, print_json, print_line
from gradgate.flags import AsJson, Config

study_app = typer.Typer(help="Look at a study under way, and mend it.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(help="A folder that 'gradgate compare' made.")]
StoreAddress = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="GRADGATE_STORE",
        help="Database server that keeps the queue, as postgresql+psycopg://user:password@host/database; by default "
        "a SQLite file in the study's folder.",
    ),
]


@study_app.command()
def status(study: Folder, store: StoreAddress = None, as_json: AsJson = False, config_file: Config = None) -> None:
    """What waits, runs, has finished or failed."""
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
    """Let failed runs wait for a worker again; they go on from their last checkpoint."""
    from gradgate.study.status import open_queue

    queue = open_queue(study, store)
    text = None if method is None else method.replace(" ", "")
    again = queue.retry(lambda run: text in (None, run.config["method"]) and seed in (None, run.config["seed"]))
    for run in again:
        print_line(run.label)
    print_line(f"{len(again)} runs wait again; start them with: gradgate worker {study}")


@study_app.command()
def export(
    study: Folder,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print as CSV, one column for each split and metric.")] = False,
    config_file: Config = None,
) -> None:
    """Every run with its task, method, seed, status and scores, for scripts; JSON if nothing is said."""
    from gradgate.study.export import as_table, records

    found = records(study)
    if as_csv and not as_json:
        print_line(as_table(found).rstrip("\n"))
    else:
        print_json(found)
