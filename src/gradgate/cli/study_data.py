"""Export the runs of finished studies, and replay a budget on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradgate.cli.options import AsJson, Config
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError

if TYPE_CHECKING:
    from gradgate.study.replay.curves import Curves
    from gradgate.study.replay.replay import Replay

Studies = Annotated[list[Path], typer.Argument(help="Folders of studies, as 'gradgate compare' writes them.")]


def export(
    study: Studies,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with one column per split and metric.")] = False,
    curves: Annotated[
        Path | None,
        typer.Option(
            metavar="<file>",
            help="Write the learning curves of all runs to this CSV file instead, one row per evaluation on dev; "
            "input for 'gradgate study replay'.",
        ),
    ] = None,
    config_file: Config = None,
) -> None:
    """Export runs and scores as JSON (default) or CSV.

    For a study with a budget, the JSON has the budget, the verdict, and the runs under 'runs'.
    """
    _check_one_form(as_json, as_csv, curves)
    if curves is not None:
        from gradgate.study.replay.curve_rows import study_rows, write_curves

        rows = [row for folder in study for row in study_rows(folder)]
        write_curves(rows, curves)
        runs = {(row.task, row.model, row.arm, row.seed, row.of_steps) for row in rows}
        print_line(f"{len(rows)} evaluations of {len(runs)} runs: {curves}")
        return
    from gradgate.study.export import as_table, exported, records

    if len(study) == 1 and not as_csv:
        print_json(exported(study[0]))
        return
    found = [record for folder in study for record in records(folder)]
    if as_csv:
        print_line(as_table(found).rstrip("\n"))
    else:
        print_json(found)


def _check_one_form(as_json: bool, as_csv: bool, curves: Path | None) -> None:
    """Raise UsageError if several forms of one export are wanted."""
    wanted = [flag for flag, given in (("--json", as_json), ("--csv", as_csv), ("--curves", curves)) if given]
    if len(wanted) > 1:
        raise UsageError(
            f"{' and '.join(wanted)}: expected one of them, as each is a form of the same runs. Leave out one."
        )


def replay(
    study: Annotated[
        list[Path],
        typer.Argument(help="Finished studies of one grid, or a CSV file from 'gradgate study export --curves'."),
    ],
    budget: Annotated[
        list[float] | None, typer.Option(help="Share of the grid's steps; by default 0.1; repeatable.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of repeats, each with another order of the seeds.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the orders.")] = 0,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Measure how often a budget's answer agrees with the full grid.

    Each repeat shuffles the grid's seeds, in the same order for all arms, and spends the budget on the recorded runs in
    that order; if there are few enough orders, each is used once. The full grid is decisive if its best arm is
    significantly better than every other (two-sided paired t-tests, p < 0.05 after Holm's correction). A repeat agrees
    if the arm it ranks first is not significantly worse than the grid's best; on a decisive grid, only the best arm
    agrees. A repeat names a false winner if it declares one although the grid is not decisive, or one that is not the
    grid's best.
    """
    curves = _curves(study)
    found = _play_again(curves, budget or [0.1], repeats, seed, quiet=as_json)
    for note in curves.notes:
        errors.print(f"{note[0].upper()}{note[1:]}.", soft_wrap=True)
    if as_json:
        print_json([each.record() for each in found])
        return
    from gradgate.study.replay.table import legend, replay_table, truth_line

    print_line(truth_line(curves, found[0].truth))
    console.print(replay_table(found))
    for line in legend():
        errors.print(line, style="dim", soft_wrap=True)


def _play_again(curves: Curves, shares: list[float], repeats: int, seed: int, *, quiet: bool) -> list[Replay]:
    """Replay a grid with each budget, and show how far it is."""
    from rich.progress import Progress

    from gradgate.study.replay.replay import count_orders, replay

    with Progress(console=errors, disable=quiet, transient=True) as bar:
        task = bar.add_task("Replaying", total=count_orders(len(curves.grid.seeds), repeats) * len(shares))
        return [replay(curves, share, repeats, seed, lambda: bar.advance(task)) for share in shares]


AnyStudy = Annotated[Path, typer.Argument(help="A study that was trained or imported.")]
Margin = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="<float>",
        help="Largest difference that does not matter, in the report's unit (points for accuracy and similar "
        "metrics); by default 1 point, and none for losses.",
    ),
]


def verdicts(
    study: AnyStudy,
    margin: Margin = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Judge every arm against the reference.

    A verdict is better, worse, non-inferior, equivalent or inconclusive.

    Better and worse: a paired t-test over seeds at p < 0.05, Holm-corrected over the arms of one task and model.
    Non-inferior: worse by less than the margin, one-sided at 95 %. Equivalent: within the margin, by two one-sided
    tests. An inconclusive verdict says how many seeds would decide it at the observed spread. If the runs stored their
    predictions, a second interval resamples test rows together with seeds.
    """
    from gradgate.study.row_noise import row_verdicts
    from gradgate.study.verdicts import counted

    found = row_verdicts(study, margin)
    if as_json:
        print_json([each.record() for each in found])
        return
    from gradgate.report.export import to_terminal
    from gradgate.report.verdict_table import row_notes, terminal_columns, verdict_table

    table = verdict_table(found)
    console.print(to_terminal(table, terminal_columns(table), console.width))
    for note in row_notes(found):
        print_line(note)
    print_line(", ".join(f"{number} {word}" for word, number in counted(found).items()) or "Nothing is compared yet.")


def power(
    study: AnyStudy,
    margin: Margin = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Say how many seeds each comparison needs.

    With each number of seeds, a test has 80 % power at the observed spread of the paired differences: to detect the
    observed difference or one as large as the margin (at 0.05, Holm-corrected over the arms of one task and model),
    and, for an arm that is as good as the reference, to show that it is non-inferior or equivalent (at 0.05).
    """
    from gradgate.study.power import study_power

    found = study_power(study, margin)
    if as_json:
        print_json([each.record() for each in found])
        return
    from gradgate.report.export import to_terminal
    from gradgate.report.power_table import TERMINAL, notes_of, power_table
    from gradgate.report.verdict_table import terminal_columns

    table = power_table(found)
    console.print(to_terminal(table, terminal_columns(table, TERMINAL), console.width))
    for line in notes_of(found):
        print_line(line)


def _curves(studies: list[Path]) -> Curves:
    from gradgate.study.replay.curve_rows import read_rows, study_rows
    from gradgate.study.replay.curves import as_curves

    rows = [row for path in studies for row in (study_rows(path) if path.is_dir() else read_rows(path))]
    return as_curves(rows)
