"""The commands for one run: train it, score it again, and train a language adapter."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gradgate.api.train import forecast_of, train_in
from gradgate.cli.forecast import DryRun, show_forecast
from gradgate.cli.options import AsJson, Config, Out, Public, PushToHub, Quiet, takes_settings
from gradgate.cli.render import console, errors, print_json, print_json_line, print_line
from gradgate.distributed import launch
from gradgate.errors import DataError, UsageError
from gradgate.places import typed_place
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.settings.finished import EvaluateSettings, PredictSettings
from gradgate.settings.forgetting import shown_value
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import RunConfig

_CLASS_TABLES = 3  # splits whose classes are printed; scores.json has all
_CLASS_ROWS = 30
_CONFUSED = 8  # labels up to which confusions are printed

RowsFile = Annotated[
    str,
    typer.Option(
        "--file",
        "-f",
        help="Rows without labels: a file like the task's own (CSV, TSV, JSON Lines, Parquet), or plain text with one "
        "example per line and a tab between the texts of a pair; - for standard input.",
    ),
]


ScoresFolder = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", rich_help_panel="output", help="Folder for scores and predictions [default: in the run folder]."
    ),
]
PredictionsFile = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", rich_help_panel="output", help="File to write, .jsonl or .csv [default: print JSON Lines]."
    ),
]


@takes_settings(of=RunConfig)
def train(
    settings: RunConfig,
    out_folder: Out = Path("runs/latest"),
    push_to_hub: PushToHub = None,
    public: Public = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Train one model on one task with one method and seed.

    Run the command again to resume.
    """
    if dry_run:
        show_forecast(forecast_of(settings, out_folder, quiet=quiet or as_json), as_json)
        return
    run = train_in(settings, out_folder, quiet=quiet or as_json, push_to_hub=push_to_hub, public=public)
    if not launch.is_first():
        return
    if as_json:
        print_json(run.scores)
    elif not quiet:
        console.print(scores_table(run.config, run.scores))
        print_line(f"Everything is in {out_folder}")
        from gradgate.deltas.delta import DELTA_FILE  # torch has been loaded by now
        from gradgate.runs.folder import RunFolder

        if (RunFolder(out_folder).model / DELTA_FILE).is_file():
            whole = f"gradgate delta apply {out_folder} -o FOLDER"
            print_line(f"The model is kept as a delta; write it whole with: {whole}")


@takes_settings(of=EvaluateSettings)
def evaluate(
    settings: EvaluateSettings,
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out_folder: ScoresFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Score a finished run on test splits and languages."""
    from gradgate.runs.folder import RunFolder

    RunFolder(run).require_finished()

    from gradgate.evaluation.evaluate import evaluate as evaluate_run  # torch loads after the folder is checked
    from gradgate.runs.progress import Bar, Silent

    with nullcontext(Silent()) if quiet or as_json else Bar(errors, "scoring", "splits") as bar:
        record = evaluate_run(run, **dict(settings), out=out_folder, progress=bar)
    if as_json:
        print_json(record)
    elif not quiet:
        console.print(evaluation_table(record))
        for split, classes in list(record.get("classes", {}).items())[:_CLASS_TABLES]:
            console.print(class_table(split, classes))


@takes_settings(of=PredictSettings)
def predict(
    settings: PredictSettings,
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    file: RowsFile,
    out_file: PredictionsFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Predict unlabelled rows with one or more runs."""
    from gradgate.runs.folder import RunFolder
    from gradgate.runs.predictions import check_ending

    file = typed_place(file)
    for run in runs:
        RunFolder(run).require_finished()
    if file != "-" and not Path(file).is_file():
        there = "it is a folder, a pipe or a device" if Path(file).exists() else "there is no such file"
        raise UsageError(f"file={file!r}: {there}. Pass a file, or - for standard input.")
    if out_file is not None:
        check_ending(out_file)

    from gradgate.evaluation.predict import predict as predict_rows  # torch loads after these checks
    from gradgate.runs.progress import Bar, Silent

    rows = _standard_input() if file == "-" else Path(file)
    with nullcontext(Silent()) if quiet or as_json else Bar(errors, "predicting", "runs") as bar:
        found = predict_rows(runs, rows, **dict(settings), progress=bar)
    if out_file is not None:
        found.write(out_file)
    if as_json:
        print_json(found.records())
    elif out_file is None:
        for record in found.records():
            print_json_line(record)
    elif not quiet:
        print_line(f"Predictions: {out_file}")


def _standard_input() -> str:
    try:
        return typer.get_text_stream("stdin", encoding="utf-8").read()
    except UnicodeDecodeError as error:
        raise DataError(
            f"Standard input is not UTF-8 (byte 0x{error.object[error.start]:02x}). Convert it, for example with "
            f"'iconv -f cp1252 -t utf-8'."
        ) from None


@takes_settings(of=PretrainConfig)
def pretrain_adapter(
    settings: PretrainConfig,
    out_folder: Out = Path("adapters/latest"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Pretrain a language adapter on plain text.

    The adapter learns by masked language modelling. Run the command again to resume.
    """
    from gradgate.runs.progress import Bar
    from gradgate.training.masked.pretraining import (
        pretrain_adapter as pretrain,  # torch loads after the settings are checked
    )

    if quiet or as_json:
        result = pretrain(settings, out_folder)
    else:
        with Bar(errors) as bar:
            result = pretrain(settings, out_folder, bar)
    if not launch.is_first():
        return
    if as_json:
        print_json(result)
    elif not quiet:
        print_line(pretraining_line(result))
        print_line(f"The adapter is in {out_folder}")


def scores_table(config: RunConfig, scores: dict[str, Any]) -> Table:
    """Return the scores of a run, one row per split, or one row per task if it has several."""
    cost = scores["cost"]
    caption = (
        f"best on dev at step {scores['best_step']} of {cost['steps']}; {cost['trainable_share']:.1%} of the weights "
        f"learned on average; {cost['seconds_per_step'] * 1e3:.1f} ms per step; peak memory "
        f"{cost['peak_memory_bytes'] / 2**20:.0f} MiB"
    )
    if "forgetting" in scores:
        caption += f"; {forgetting_line(scores['forgetting'])}"
    title = Text(f"{config.arm.name} on {config.task}, seed {config.seed}")
    if "tasks" in scores:
        return _scores_by_task(scores, title, Text(caption))
    rows = {"dev": scores["dev"], **_split_rows(scores)}
    return _scores_by_split(rows, scores["metric"], title, Text(caption))


def forgetting_line(record: dict[str, Any]) -> str:
    """Return a line on what a run has forgotten."""
    unit = " a token" if record["metric"] in ("loss", "kl") else ""
    before, after = (shown_value(record["metric"], record[when]) for when in ("before", "after"))
    change = "" if record["metric"] == "kl" else f" ({record['difference']:+.4f})"
    return f"{record['metric']}{unit} on {record['file']}: {before} before, {after} after{change}"


def _scores_by_task(scores: dict[str, Any], title: Text, caption: Text) -> Table:
    """Return one row per task with its own metric, then their mean; one column per split."""
    rows = [(name, own["metric"], {"dev": own["dev"], **own["tests"]}) for name, own in scores["tasks"].items()]
    rows.append(("mean", scores["metric"], {"dev": scores["dev"], **scores["tests"]}))
    splits = list(dict.fromkeys(split for _, _, found in rows for split in found))
    table = Table("task", "metric", *splits, box=SIMPLE_HEAD, title=title, caption=caption)
    for name, metric, found in rows:
        cells = (f"{found[split][metric]:.4f}" if split in found else "" for split in splits)
        table.add_row(Text(name), "" if name == metric else metric, *cells)
    return table


def _split_rows(scores: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Test splits, then averages under their names for people."""
    from gradgate.tasks.languages import average_label

    averages = {average_label(name): values for name, values in scores.get("averages", {}).items()}
    return {**scores["tests"], **averages}


def _scores_by_split(rows: dict[str, dict[str, float]], metric: str, title: Text, caption: Text | None = None) -> Table:
    names = sorted({name for values in rows.values() for name in values} - {"loss"})
    names.sort(key=lambda name: name != metric)
    table = Table("split", *names, box=SIMPLE_HEAD, title=title, caption=caption)
    for split, values in rows.items():
        table.add_row(Text(split), *(f"{values[name]:.4f}" if name in values else "" for name in names))
    return table


def pretraining_line(result: dict[str, Any]) -> str:
    """Return a line on what the training of a language adapter has gained."""
    before, after = result["before"], result["after"]
    if before is None or after is None:
        return f"{result['steps']} steps; nothing was held out to score"
    return (
        f"held-out masked-word loss {before['loss']:.3f} before, {after['loss']:.3f} after {result['steps']} steps "
        f"(perplexity {before['perplexity']:.4g}, {after['perplexity']:.4g})"
    )


def class_table(split: str, classes: dict[str, Any]) -> Table:
    """Return the scores of each class on a split, the rarest class last, with its confusions if classes are few."""
    scores, confusion = classes["scores"], classes.get("confusion")
    few = confusion is not None and len(scores) <= _CONFUSED
    order = sorted(range(len(scores)), key=lambda place: -scores[place]["support"])
    heads: list[str | Text] = [Text(f"as {scores[place]['label']}") for place in order] if few else []
    table = Table("label", box=SIMPLE_HEAD, title=Text(f"each label on {split}"))
    for head in [*("rows", "precision", "recall", "f1"), *heads]:
        table.add_column(head, justify="right")
    for place in order[:_CLASS_ROWS]:
        score = scores[place]
        numbers = [f"{score[name]:.4f}" for name in ("precision", "recall", "f1")]
        counts = [f"{confusion[place][to]:,}" for to in order] if few and confusion is not None else []
        table.add_row(Text(score["label"]), f"{score['support']:,}", *numbers, *counts)
    if len(order) > _CLASS_ROWS:
        table.caption = Text(f"and {len(order) - _CLASS_ROWS} more labels in scores.json")
    return table


def evaluation_table(record: dict[str, Any]) -> Table:
    """Return the scores of a finished run on a task, one row per split and average."""
    rows = _split_rows(record)
    run = record["run"]
    arm = arm_of_texts(run["method"], run.get("adapter")).name
    title = Text(f"{arm} on {run['task']}, seed {run['seed']}; scored on {record['task']['name']}")
    return _scores_by_split(rows, record["metric"], title)
