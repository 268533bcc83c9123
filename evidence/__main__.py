"""Run the studies behind the verdicts, check them again, and write the page: ``make evidence``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from evidence.authors import record, source
from evidence.foreign import record as record_foreign
from evidence.foreign import source as foreign_source
from evidence.grids import add_seeds as add_grid_seeds
from evidence.grids import read_grids, record_grid
from evidence.grids_page import PAGE as GRIDS_PAGE
from evidence.grids_page import grids_page
from evidence.more_seeds import add_seeds
from evidence.pages import written
from evidence.repetition import Machine, changed, equal_numbers, forget_repetition, keep_repetition
from evidence.replay.baselines import replay_all
from evidence.replay.early_scores import early_lines
from evidence.running import keep, run_study
from evidence.studies import Study, read_studies
from gradgate.study.replay.curve_rows import read_rows
from gradgate.study.replay.curves import as_curves
from gradgate.study.replay.table import replay_table

OUT = Path("studies/evidence")
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Studies to run; all by default.")] = None,
    scale: Annotated[
        Literal["full", "quick"], typer.Option(help="quick: a few steps, to check that everything works.")
    ] = "full",
    out: Annotated[Path, typer.Option(help="Where the studies' folders are; a second run resumes them.")] = OUT,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time, for studies that compare no times; by default one.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Make these the committed numbers and verdicts.")] = False,
    keep_repetitions: Annotated[
        bool, typer.Option("--keep-repetitions", help="Say on the page how many numbers came out the same.")
    ] = False,
    another_machine: Annotated[
        bool, typer.Option("--another-machine", help="The committed numbers are of another machine than this one.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Run only the seeds that the committed runs lack, at their rates.")
    ] = False,
) -> None:
    """Run studies, and print which verdicts differ from the committed ones."""
    if (record or add or keep_repetitions) and scale == "quick":
        sys.exit("Numbers are only kept of full studies; leave out --scale quick.")
    if (record or add) and keep_repetitions:
        sys.exit("--record and --add repeat nothing: leave them or --keep-repetitions out.")
    timed = [study.name for study in _studies(names) if not study.without_times]
    if timed and scale == "full" and (workers or 1) > 1:
        sys.exit(f"{timed[0]} compares times, which other runs would change: leave out --workers, or name others.")
    out = out if scale == "full" else out.with_name(f"{out.name}-quick")
    out = out / "more-seeds" if add else out  # what is there of whole studies stays
    done = []
    for study in _studies(names):
        if study.missing:
            print(f"{study.name}: skipped, as {study.missing} is not there. Set GRADGATE_SHARED or GRADGATE_MODELS.")
            continue
        print(f"{study.name}: {study.title}", flush=True)
        try:
            if add:
                add_seeds(study, out)
            else:
                run_study(study, scale, out, workers)
        except ValueError as error:
            sys.exit(str(error))
        except subprocess.CalledProcessError:  # the command has printed why
            sys.exit(f"{study.name} stopped. Run the command again to resume.")
        done.append(study)
        if record:
            try:
                keep(study, out)
            except ValueError as error:
                sys.exit(str(error))
            except FileNotFoundError as error:
                sys.exit(f"The report of {study.name} has no figure {error.filename}. Mend 'figures' of its settings.")
            if not add:
                forget_repetition(study)
    if record:
        pages()
    elif scale == "full":
        _compare(done, out, keep_repetitions, "another" if another_machine else "same")


@app.command()
def grid(
    names: Annotated[list[str] | None, typer.Argument(help="Grids to run, of evidence/grids; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="Where the studies' folders are; a second run resumes them.")] = OUT,
    add: Annotated[bool, typer.Option("--add", help="Run only the seeds that the committed curves lack.")] = False,
) -> None:
    """Run full grids and write their learning curves, for 'gradgate study replay'."""
    there = read_grids()
    for name in names or there:
        if name not in there:
            sys.exit(f"There is no grid {name!r}. There are {', '.join(there)}.")
        print(f"{name}: {there[name].title}", flush=True)
        print(f"Wrote {(add_grid_seeds if add else record_grid)(there[name], out)}")


@app.command(name="grids-page")
def write_grids_page() -> None:
    """Write grids/README.md from the committed curves: every budget is replayed, which takes minutes."""
    grids = [grid for grid in read_grids().values() if grid.curves.exists()]
    GRIDS_PAGE.write_text(grids_page(grids), encoding="utf-8")
    print(f"Wrote {GRIDS_PAGE}")


Grids = Annotated[list[str] | None, typer.Argument(help="Grids of evidence/grids, or CSV files; all by default.")]


@app.command()
def replay(
    names: Grids = None,
    budget: Annotated[list[float] | None, typer.Option(help="Share of the grid's steps, by default 0.1.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Orders of the seeds.")] = 300,
    against: Annotated[
        str, typer.Option(help="Other ways to spend the same steps, comma separated.")
    ] = "uniform,halving,hyperband",
    seed: Annotated[int, typer.Option(help="Seed of the orders.")] = 0,
) -> None:
    """Compare a budget with other ways to spend the same steps, on the recorded grids."""
    from rich.console import Console

    baselines = [name.strip() for name in against.split(",") if name.strip()]
    for file in _grid_files(names):
        curves = as_curves(read_rows(file))
        print(file.stem)
        found = [replay_all(curves, share, repeats, baselines, seed) for share in budget or [0.1]]
        Console(width=160).print(replay_table(found))


@app.command()
def early(
    names: Grids = None,
) -> None:
    """Compare early scores of cut and squeezed schedules with those of whole runs, by rank correlation."""
    for file in _grid_files(names):
        print("\n".join([file.stem, *early_lines(read_rows(file))]))


@app.command()
def authors() -> None:
    """Import the runs that the Elsa authors published, and write their small form and the pages."""
    if not (source() / "runs.csv").is_file():
        sys.exit(f"{source()} has no runs.csv. Set GRADGATE_SHARED to the folder with results/elsa.")
    record()
    pages()


@app.command()
def foreign() -> None:
    """Import what SetFit and PEFT published, and write the pages."""
    if not (foreign_source() / "setfit" / "runs.csv").is_file():
        sys.exit(f"{foreign_source()} has no setfit/runs.csv. Set GRADGATE_SHARED to the folder with results.")
    record_foreign()
    pages()


@app.command()
def pages() -> None:
    """Write the pages, README.md among them, from the committed numbers."""
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")
        print(f"Wrote {file}")


def _compare(done: Sequence[Study], out: Path, keep_repetitions: bool, machine: Machine) -> None:
    """Print what differs from the committed numbers and verdicts, and end with 1 if verdicts do."""
    committed = [study for study in done if study.is_committed]
    for study in done:
        if study not in committed:
            print(f"{study.name}: no numbers are committed, so nothing is compared. --record commits these.")
    for study in committed:
        equal, numbers = equal_numbers(study, out)
        print(f"{study.name}: {equal} of {numbers} committed numbers are the same to the last digit, times left out.")
    different = list(changed(committed, out / "results"))
    print("\n".join(different) or f"Studies with the committed verdicts: {len(committed)}.")
    if keep_repetitions:
        for study in committed:
            keep_repetition(study, out, machine=machine)
        pages()
    raise typer.Exit(bool(different))


def _grid_files(names: list[str] | None) -> list[Path]:
    there = {name: grid.curves for name, grid in read_grids().items() if grid.curves.exists()}
    files = [there.get(name, Path(name)) for name in names or there]
    absent = next((file for file in files if not file.is_file()), None)
    if absent is not None:
        sys.exit(f"There is no grid {str(absent)!r}. There are {', '.join(there)}, or name a CSV file.")
    return files


def _studies(names: list[str] | None) -> list[Study]:
    try:
        return read_studies(names)
    except KeyError as error:
        sys.exit(str(error.args[0]))


if __name__ == "__main__":
    app()
