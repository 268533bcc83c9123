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

Studies = Annotated[list[Path], typer.Argument(help="Folders that 'gradgate compare' made.")]


def export(
    study: Studies,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print as CSV, one column for each split and metric.")] = False,
    curves: Annotated[
        Path | None,
        typer.Option(
            metavar="<file>",
            help="Write the learning curves of all runs to this CSV file instead, a row for each evaluation on dev; "
            "'gradgate study replay' takes it.",
        ),
    ] = None,
    config_file: Config = None,
) -> None:
    """Export runs and scores as JSON (default) or CSV.

    The JSON of a study with a budget has its budget and verdict, and the runs under 'runs'.
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
        typer.Argument(
            help="Finished studies of one grid, or the CSV file that 'gradgate study export --curves' wrote."
        ),
    ],
    budget: Annotated[
        list[float] | None, typer.Option(help="Share of the grid's steps, by default 0.1; repeatable.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How often, each time with another order of seeds.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the orders.")] = 0,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Measure how often a budget's answer agrees with a whole grid.

    Each repeat takes an order of the grid's seeds, the same for all arms, and spends the budget on the recorded runs in
    this order; if there are no more orders than repeats, each is taken once. The full grid is decisive if its best arm
    is significantly better than every other by two-sided paired t-tests of its whole runs (p < 0.05 after Holm's
    correction). A repeat agrees if it puts an arm first that is not significantly worse than the best by these tests:
    of a decisive grid the best arm alone. A false winner is named if the grid is not decisive, or if it is another arm
    than its best.
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
        help="Difference that does not matter, in the unit of the page: points for accuracy and the like; default "
        "1 point, and none for losses.",
    ),
]


def verdicts(
    study: AnyStudy,
    margin: Margin = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Judge every arm against the reference.

    Its word is better, worse, non-inferior, equivalent or inconclusive.

    Better and worse are paired t-tests over seeds at p < 0.05, corrected (Holm) over the arms of one task and model.
    Non-inferior: worse by less than the margin, one-sided at 95 %. Equivalent: within the margin by two one-sided
    tests. An inconclusive verdict says how many seeds would decide it at the observed spread. If the runs store what
    they predicted, test rows are resampled with the seeds, and the interval is in rows.
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

    Each number gives a test 80 % power at the spread of the comparison's own differences: to find the observed
    difference or one as large as the margin, at 0.05 over the arms of one task and model (Holm's first and strictest
    step); and, if an arm is as good as the reference, to show that it is non-inferior or equivalent, at 0.05.
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
