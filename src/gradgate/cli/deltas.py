"""The commands for deltas: what a training changed, as one file next to the base model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradgate.cli.options import AsJson, Config
from gradgate.cli.render import print_json, print_line
from gradgate.cli.typed_paths import PathCommand
from gradgate.errors import UsageError
from gradgate.places import typed_path

delta_app = typer.Typer(
    help="Store what training changed as one file, and apply it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DeltaFile = Annotated[Path, typer.Argument(help="The delta file, or the folder of a run that stored one.")]
Base = Annotated[
    str | None, typer.Option(help="Folder or hub name of the base model; by default the one named in the delta.")
]
_MOST_LISTED = 12


@delta_app.command(cls=PathCommand)
def create(
    model: Annotated[
        str,
        typer.Argument(help="Folder of a finished run, folder or hub name of a trained model, or a TRL weight patch."),
    ],
    out_file: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    base: Annotated[
        str | None,
        typer.Option(help="Folder or hub name of the model it was trained from, or 'sample'; not needed for a run."),
    ] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Write the difference between a trained model and its base.

    Base and delta together restore the trained model bit for bit.
    """
    from gradgate.runs.folder import RunFolder

    run = RunFolder(typed_path(model))
    if run.run_file.is_file():
        from gradgate.runs.model import delta_of_run

        made = delta_of_run(run, out_file, base)
    elif base is None:
        raise _without_base(model)
    else:
        from gradgate import deltas

        made = deltas.create(model, base, out_file)
    _show(made.describe(), as_json)


@delta_app.command(cls=PathCommand)
def info(file: DeltaFile, as_json: AsJson = False, config_file: Config = None) -> None:
    """Show a delta's base model and contents.

    Fails if the file is damaged.
    """
    from gradgate.deltas import info as read

    _show(read(_file_of(file)), as_json)


@delta_app.command(cls=PathCommand)
def apply(
    file: DeltaFile,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model; new or empty.")],
    base: Base = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Write the trained model, for from_pretrained.

    Writes weights, configuration and tokenizer.
    """
    from gradgate import deltas

    folder = deltas.apply(_file_of(file), base, out_folder)
    if as_json:
        print_json({"folder": str(folder)})
    else:
        print_line(f"The model is in {folder}")


@delta_app.command(cls=PathCommand)
def export(
    file: DeltaFile,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the adapter; new or empty.")],
    to: Annotated[
        str,
        typer.Option(help="peft: a SHiRA adapter for single weights of linear layers; other modules are stored whole."),
    ] = "peft",
    base: Base = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Write a delta as a PEFT adapter.

    PeftModel.from_pretrained loads the result.
    """
    if to != "peft":
        raise UsageError(f"--to {to!r}: expected peft.")
    from gradgate import deltas

    made = deltas.export(_file_of(file), base, out_folder)
    if as_json:
        print_json({"folder": str(made.folder), "shira": made.shira, "modules": made.modules, "rank": made.rank})
    else:
        print_line(f"SHiRA with r={made.rank} on {len(made.shira)} layers{_first(dict.fromkeys(made.shira))}")
        print_line(f"whole modules: {', '.join(made.modules) or 'none'}")
        print_line(f"The adapter is in {made.folder}")


def _file_of(place: Path) -> Path:
    """Return the delta file of a run's folder, or the file itself."""
    from gradgate.deltas.delta import DELTA_FILE

    inside = (place / "model" / DELTA_FILE, place / DELTA_FILE)
    found = next((file for file in inside if file.is_file()), place)
    if found.is_dir():
        from gradgate.runs.folder import RunFolder
        from gradgate.runs.model import check_trained_model
        from gradgate.runs.records import RunRecord, read_record

        folder = RunFolder(place)
        folder.require_scores()
        check_trained_model(folder, read_record(folder.run_file, RunRecord))
        raise UsageError(
            f"{place} holds no {DELTA_FILE}: a run keeps its model whole where that is not much larger. Write one with "
            f"'gradgate delta create {place} -o FILE', or pass a delta file."
        )
    return found


def _without_base(model: str) -> UsageError:
    """Return why a delta of something other than a run cannot be made; RunError for the folder of a study."""
    from gradgate.hub import is_here
    from gradgate.runs.folder import RunFolder

    path = typed_path(model)
    if any(path.glob("runs/*/*/run.json")):
        RunFolder(path).require_scores()  # names one of these
    if not path.exists() and not is_here(model):
        return UsageError(
            f"There is no folder {model}, and no model of this name on this machine. Expected a run, or a model with "
            f"--base, the model it was trained from. Check the name."
        )
    return UsageError(f"{model} is not a run, so its base is not known. Add --base with the model it was trained from.")


def _show(held: dict[str, Any], as_json: bool) -> None:
    """Print the content of a delta in a few lines."""
    if as_json:
        print_json(held)
        return
    print_line(f"{held['file']}: {held['bytes']:,} bytes")
    print_line(f"base         {held['base']} (fingerprint {held['base_fingerprint'][:16]}…)")
    for name in ("method", "task"):
        if held[name]:
            print_line(f"{name:<12} {held[name]}")
    whole, sparse = held["whole"], held["sparse"]
    print_line(f"whole        {len(whole)} tensors, {held['whole_bytes']:,} bytes{_first(whole)}")
    print_line(f"sparse       {len(sparse)} tensors, {held['sparse_bytes']:,} bytes{_first(sparse)}")
    if held["shapes"]:
        print_line(f"other shape  {', '.join(f'{name} {shape}' for name, shape in held['shapes'].items())}")
    if held["dtypes"]:
        print_line(f"other dtype  {len(held['dtypes'])} tensors{_first(held['dtypes'])}")
    if held["left_out"]:
        print_line(f"not of base  {', '.join(held['left_out'][:_MOST_LISTED])}")


def _first(names: dict[str, Any]) -> str:
    listed = ", ".join(list(names)[:_MOST_LISTED])
    return f": {listed}{', …' if len(names) > _MOST_LISTED else ''}" if names else ""
