"""The command that turns a finished run into a model for other libraries."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from gradgate.cli.options import AsJson, Config, Quiet, takes_settings
from gradgate.cli.render import errors, print_json, print_line
from gradgate.settings.export import ExportSettings

Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN|STUDY", help="Folders of finished runs; of a study, its best run is exported."),
]
ExportFolder = Annotated[
    Path, typer.Option("--out", "-o", rich_help_panel="output", help="Folder for the model; new or empty.")
]


@takes_settings(of=ExportSettings)
def export(
    settings: ExportSettings,
    runs: Runs,
    out_folder: ExportFolder,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Write the model of a run for other libraries.

    With tokenizer, names of labels, settings of generation and a model card; it loads without gradgate. Several tasks
    that were trained together, and several runs, become a folder each.
    """
    from gradgate.study.best_run import best_run

    chosen = [best_run(path) for path in runs]
    if not quiet and not as_json:
        for run in chosen:
            if run.why:
                errors.print(run.why, soft_wrap=True)

    from gradgate.evaluation.export.export import export as export_runs  # torch loads after the folders are checked
    from gradgate.runs.progress import Bar, Silent

    with nullcontext(Silent()) if quiet or as_json else Bar(errors, "exporting", "runs") as bar:
        made = export_runs([run.folder.path for run in chosen], out_folder, settings, bar)
    if as_json:
        print_json([each.record() for each in made] if len(made) > 1 else made[0].record())
    elif not quiet:
        for each in made:
            print_line(f"{each.folder}: {each.form}" + ("" if each.task is None else f", {each.task}"))
        print_line(f"It loads {'with' if made[0].form == 'delta' else 'without'} gradgate:")
        print_line(made[0].code.rstrip())
