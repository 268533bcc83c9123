"""The command that turns a finished run into a model for other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradgate.api.pushing import push_run, refuse_several_models
from gradgate.cli.options import AsJson, Config, Public, PushToHub, Quiet, takes_settings
from gradgate.cli.render import errors, print_json, print_line
from gradgate.errors import UsageError
from gradgate.evaluation.export.hub_repository import HubRepository, check_public
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord, read_record
from gradgate.settings.finished import ExportSettings

if TYPE_CHECKING:
    from gradgate.evaluation.export.export import ExportedModel

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN|STUDY", help="Folders of finished runs, or a study, of which the best run is exported."
    ),
]
ExportFolder = Annotated[
    Path | None, typer.Option("--out", "-o", rich_help_panel="output", help="Folder for the model; new or empty.")
]


@takes_settings(of=ExportSettings)
def export(
    settings: ExportSettings,
    runs: Runs,
    out_folder: ExportFolder = None,
    push_to_hub: PushToHub = None,
    public: Public = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Export a run's model for other libraries.

    The export has the tokenizer, label names, generation settings and a model card, and loads without gradgate. Several
    runs, or several tasks trained together, are written to one folder each. Give --out, --push-to-hub, or both.
    """
    if out_folder is None and push_to_hub is None:
        raise UsageError("No place for the model was given. Pass --out FOLDER, --push-to-hub NAME, or both.")
    check_public(push_to_hub, public)
    if push_to_hub is not None and len(runs) > 1:
        raise UsageError(
            f"--push-to-hub {push_to_hub} with {len(runs)} runs: a repository has one model. Name one run."
        )
    from gradgate.study.best_run import best_run

    chosen = [best_run(path) for path in runs]
    if not quiet and not as_json:
        for run in chosen:
            if run.why:
                errors.print(run.why, soft_wrap=True)

    repository = None if push_to_hub is None else _repository(chosen[0].folder, push_to_hub, public)

    from gradgate.evaluation.export.export import export as export_runs  # torch loads after the folders are checked
    from gradgate.runs.progress import Bar, Silent
    from gradgate.study.card_findings import card_findings

    made: list[ExportedModel] = []
    if out_folder is not None:
        with nullcontext(Silent()) if quiet or as_json else Bar(errors, "exporting", "runs") as bar:
            folders = [run.folder.path for run in chosen]
            made = export_runs(folders, out_folder, settings, bar, findings=card_findings)
    address = None if repository is None else push_run(chosen[0].folder.path, repository, settings)
    _show(made, address, quiet=quiet, as_json=as_json)


def _repository(run: RunFolder, name: str, public: bool) -> HubRepository:
    """Create the repository that a run is pushed to."""
    refuse_several_models(str(read_record(run.run_file, RunRecord).config["task"]), name)
    return HubRepository.create(name, private=not public)


def _show(made: Sequence[ExportedModel], address: str | None, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        pushed = {} if address is None else {"hub": address}
        records = [each.record() | pushed for each in made] or [pushed]
        print_json(records if len(records) > 1 else records[0])
    elif not quiet:
        for each in made:
            print_line(f"{each.folder}: {each.form}" + ("" if each.task is None else f", {each.task}"))
        if made:
            first = "It" if len(made) == 1 else str(made[0].folder)
            print_line(f"{first} loads {'with' if made[0].form == 'delta' else 'without'} gradgate:")
            print_line(made[0].code.rstrip())
        if address is not None:
            print_line(f"The model is at {address}")
