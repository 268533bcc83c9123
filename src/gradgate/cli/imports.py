"""The command that imports results of other programs as a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradgate.cli.options import AsJson, Config, Out, Quiet, takes_settings
from gradgate.cli.render import errors, print_json, print_line
from gradgate.errors import counted, some_of
from gradgate.settings.imports import ImportSettings


@takes_settings(of=ImportSettings)
def import_(
    settings: ImportSettings,
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="Tables (CSV, TSV, JSON Lines, Parquet) with one row per score, or one column per metric or seed; "
            "results of PEFT's method_comparison, trainer_state.json, lm-evaluation-harness; exports from "
            "Weights & Biases, Trackio and gradgate; or folders of these.",
        ),
    ],
    out_folder: Out,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Import results from other programs as a study.

    Columns are recognized by their names if there is only one sensible reading; name the others with flags. Two scores
    for one run are an error. Nothing can be trained in an imported study.
    """
    from gradgate.study.importing.sources import read_files
    from gradgate.study.importing.studies import import_tables

    tables, files = read_files(results)
    found = import_tables(tables, files, settings, out_folder)
    if as_json:
        print_json(found.record())
        return
    if quiet:
        return
    unread = [file.name for file in files if not file.is_read]
    read = f"{counted(found.rows_read, 'row')} of {counted(len(files) - len(unread), 'file')}"
    print_line(f"Read {read}, kept {found.rows_kept:,}.")
    if unread:
        print_line(f"Left out: {counted(len(unread), 'file')}: JSON of an unknown form ({some_of(unread, 3)})")
    for reason, rows in found.left_out.items():
        print_line(f"Left out: {counted(rows, 'row')}: {reason}")
    sizes = ((found.arms, "arm"), (found.tasks, "task"), (found.models, "model"), (found.seeds, "seed"))
    print_line(f"{', '.join(counted(len(names), what) for names, what in sizes)}; reference: {found.arms[0]}")
    for note in found.notes:
        errors.print(note, soft_wrap=True)
    for warning in found.warnings:
        errors.print(f"Doubt ({warning.kind}): {warning.text}", soft_wrap=True)
    print_line(f"Report: gradgate report {out_folder}")
