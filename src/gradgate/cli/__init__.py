"""The commands: they parse, call and print; what they do is elsewhere."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import gradgate
from gradgate.cli.options import AsJson, Config, Out, Quiet, run_config, takes_settings
from gradgate.cli.papers import papers, reproduce
from gradgate.cli.render import console, errors
from gradgate.cli.render import print_json as _print_json
from gradgate.cli.studies import compare, quickstart, report, study_app, worker
from gradgate.clock import Clock
from gradgate.errors import GradgateError, UsageError
from gradgate.methods import method as read_method
from gradgate.methods.plan_file import foresee, to_yaml
from gradgate.training.config import PretrainConfig

app = typer.Typer(
    name="gradgate",
    help="Decide which weights of a pretrained transformer learn, and when, and measure which decision was best.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(study_app, name="study")
_INTERRUPTED = 130  # what typer makes of Ctrl-C


@app.command()
def layers(
    model: Annotated[str, typer.Argument(help="Hub name or folder of a pretrained model, or 'sample'.")],
    stack: Annotated[str | None, typer.Option("--layers", help="Path of the layer stack, as 'encoder.block'.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Print a model's groups in depth order, with their parameters."""
    from gradgate.training.pretrained import load_bare

    layer_map = gradgate.map_layers(load_bare(model, trust_remote_code), layers=stack)
    if as_json:
        _print_json(
            {"groups": [asdict(group) for group in layer_map], "ties": layer_map.ties, "notes": layer_map.notes}
        )
    else:
        console.print(str(layer_map), markup=False, highlight=False, soft_wrap=True)


@app.command()
def methods(as_json: AsJson = False, config_file: Config = None) -> None:
    """List the methods with their options, defaults and papers."""
    from gradgate.cli.render import methods_list

    catalog = gradgate.methods()
    if as_json:
        rows = [
            {
                "name": info.name,
                "summary": info.summary,
                "paper": info.paper,
                "deviates": info.deviates,
                "defaults": {k: None if v is ... else v for k, v in info.defaults.items()},
                "required": [k for k, v in info.defaults.items() if v is ...],
            }
            for info in catalog
        ]
        _print_json(rows)
    else:
        console.print(methods_list(catalog))


@app.command()
def tasks(
    task: Annotated[str | None, typer.Argument(help="One task: its splits, languages, rows and labels.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the task.")] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """List the named tasks, or show one task's splits, languages, rows and labels."""
    from gradgate.cli.render import task_table, tasks_table
    from gradgate.tasks import count_rows, find_task, label_names, task_names
    from gradgate.tasks.multitask import find_multitask, is_multitask

    if task is None:
        specs = [find_task(name) for name in task_names()]
        if as_json:
            _print_json([spec.model_dump(mode="json", exclude_none=True) for spec in specs])
        else:
            console.print(tasks_table(specs))
        return
    if is_multitask(task):
        names = ", ".join(spec.name for spec in find_multitask(task, data=data).tasks)
        raise UsageError(f"{task} is several tasks ({names}). Ask for one of them.")
    spec = find_task(task, data=data)
    rows = count_rows(spec)
    if as_json:
        _print_json(rows)
    else:
        console.print(task_table(spec, rows, label_names(spec)))


@app.command()
@takes_settings("adapter", "seed", "keep_model", "save_every", "eval_every", "fsdp")
def plan(
    settings: dict[str, Any],
    seed: Annotated[int, typer.Option(help="Of the method's draws.")] = 0,
    write: Annotated[Path | None, typer.Option(help="Write the plan to this YAML file, to edit and follow.")] = None,
    config_file: Config = None,
) -> None:
    """Draw what a method would open when, without training anything."""
    from gradgate.cli.render import draw_timeline
    from gradgate.files import write_text
    from gradgate.training.pretrained import load_bare

    epochs = settings.pop("epochs", None)
    steps = settings.pop("steps", None)
    config = run_config(settings)
    if steps is None:
        raise UsageError("A plan needs --steps, the length of the training, and --epochs for methods that count them.")
    method = read_method(config.method)
    layer_map = gradgate.map_layers(load_bare(config.model, config.trust_remote_code), layers=config.layers)
    clock = Clock(0, max(1, round(steps / (epochs or 1))), steps)
    record = foresee(method, layer_map, clock, seed).to_dict(method, layer_map, steps)
    console.print(draw_timeline(record, width=console.width))
    if write is not None:
        write_text(write, to_yaml(record))
        console.print(f"Written to {write}; edit it and train with --method plan:{write}", markup=False, soft_wrap=True)


@app.command()
@takes_settings()
def train(
    settings: dict[str, Any],
    out_folder: Out = Path("runs/latest"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Train once: one model, task, method and seed. Run again, it resumes where it stopped."""
    from gradgate.cli.render import scores_table
    from gradgate.distributed import launch
    from gradgate.training.progress import Bar
    from gradgate.training.run import train as train_run

    config = run_config(settings)
    if not launch.is_first():
        train_run(config, out_folder)
        return
    if quiet or as_json:
        scores = train_run(config, out_folder)
    else:
        with Bar(errors) as bar:
            scores = train_run(config, out_folder, bar)
    if as_json:
        _print_json(scores)
    elif not quiet:
        console.print(scores_table(config, scores))
        console.print(f"Everything is in {out_folder}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    task: Annotated[str | None, typer.Option(help="A task of the same kind; by default the run's own.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the task.")] = None,
    languages: Annotated[str | None, typer.Option(help="Score in these languages only, as 'de,fr'.")] = None,
    test_file: Annotated[Path | None, typer.Option(help="Test file, instead of the task's own.")] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for scores and predictions [default: in the run's].")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Score a finished run's model on test splits and languages."""
    from gradgate.cli.render import evaluation_table
    from gradgate.training.evaluation import evaluate as evaluate_run
    from gradgate.training.progress import Bar

    asked: dict[str, Any] = {"task": task, "data": data, "test_file": test_file, "out": out_folder}
    asked["languages"] = None if languages is None else [code.strip() for code in languages.split(",")]
    if quiet or as_json:
        record = evaluate_run(run, **asked)
    else:
        with Bar(errors, "scoring", "splits") as bar:
            record = evaluate_run(run, **asked, progress=bar)
    if as_json:
        _print_json(record)
    elif not quiet:
        console.print(evaluation_table(record))


@app.command("pretrain-adapter")
@takes_settings(of=PretrainConfig)
def pretrain_adapter(
    settings: dict[str, Any],
    out_folder: Out = Path("adapters/latest"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Train a language adapter on running text by filling in masked words. Run again, it resumes where it stopped."""
    from gradgate.cli.render import pretraining_line
    from gradgate.training.config import checked_settings
    from gradgate.training.pretraining import pretrain_adapter as pretrain
    from gradgate.training.progress import Bar

    if "language_data" not in settings:
        raise UsageError("A language adapter needs --language-data: a text file, a table, or a data set of the hub.")
    config = checked_settings(PretrainConfig, settings)
    if quiet or as_json:
        result = pretrain(config, out_folder)
    else:
        with Bar(errors) as bar:
            result = pretrain(config, out_folder, bar)
    if as_json:
        _print_json(result)
    elif not quiet:
        console.print(pretraining_line(result), markup=False, highlight=False, soft_wrap=True)
        console.print(f"The adapter is in {out_folder}", markup=False, highlight=False, soft_wrap=True)


for command in (compare, worker, report, quickstart, papers, reproduce):
    app.command()(command)


def main() -> None:
    """Entry point: a user's mistake ends with its message and its exit code, without a traceback."""
    try:
        app(standalone_mode=True)
    except GradgateError as error:
        if not error.reported_by_main:
            errors.print(f"gradgate: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            errors.print("gradgate: interrupted; what was saved before is still there.", markup=False)
        raise


def _version(show: bool) -> None:
    if show:
        console.print(f"gradgate {gradgate.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...
