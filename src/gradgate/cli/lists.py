"""The commands that list what there is: methods and tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from gradgate.cli.completion import tasks_named
from gradgate.cli.options import AsJson, Config
from gradgate.cli.render import console, print_json
from gradgate.errors import UsageError
from gradgate.methods import MethodInfo
from gradgate.methods import methods as catalog_of_methods
from gradgate.places import typed_place

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec


def methods(as_json: AsJson = False, config_file: Config = None) -> None:
    """List the methods, with options, defaults and papers."""
    catalog = catalog_of_methods()
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
        print_json(rows)
    else:
        console.print(methods_list(catalog))


def methods_list(catalog: list[MethodInfo]) -> Group:
    """Return each method with its options as they are typed, its effect and its paper."""
    blocks: list[RenderableType] = []
    for info in catalog:
        options = ", ".join(f"{name}={'...' if value is ... else value}" for name, value in info.defaults.items())
        lines = [info.summary, f"options: {options or 'none'}", f"source: {info.paper}"]
        lines += [f"deviates: {info.deviates}"] if info.deviates else []
        blocks += [Text(info.name, style="bold"), *(Padding(Text(line), (0, 0, 0, 4)) for line in lines)]
    return Group(*blocks)


def tasks(
    task: Annotated[
        str | None,
        typer.Argument(autocompletion=tasks_named, help="One task: its splits, languages, rows and labels."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the task.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the (first) text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label or score.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of task.")] = None,
    split: Annotated[str | None, typer.Option(help="Percentages of train, dev and test, as 80/10/10.")] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """List the tasks, or show the splits and labels of one."""
    from gradgate.tasks.find import find_task, task_names

    if task is None:
        specs = [find_task(name) for name in task_names()]
        if as_json:
            print_json([spec.model_dump(mode="json", exclude_none=True) for spec in specs])
        else:
            console.print(tasks_table(specs))
        return
    from gradgate.tasks.data import count_rows, label_names  # with the kinds of tasks, which the list does without
    from gradgate.tasks.multitask import find_multitask, is_multitask

    task = typed_place(task)
    if is_multitask(task):
        names = ", ".join(spec.name for spec in find_multitask(task, data=data).tasks)
        raise UsageError(f"{task} is several tasks; expected one. Name one of {names}.")
    spec = find_task(task, data=data, text=text, text_pair=text_pair, label=label, kind=kind, split=split)
    rows = count_rows(spec)
    if as_json:
        print_json(rows)
    else:
        console.print(task_table(spec, rows, label_names(spec)))


def tasks_table(specs: list[TaskSpec]) -> Table:
    """Return one row per named task."""
    table = Table(Column("task", no_wrap=True), "kind", "languages", "text", "metric", "hub", box=SIMPLE_HEAD)
    for spec in specs:
        named = f" ({spec.hub.name})" if spec.hub and isinstance(spec.hub.name, str) else ""
        hub = f"{spec.hub.path}{named}" if spec.hub else "built in" if spec.folder else "files only"
        several = len({*spec.languages, spec.source})
        languages = f"{several}, {spec.source} first" if spec.languages else spec.source
        row = (spec.name, spec.kind, languages, " + ".join(spec.text_columns), spec.metric, hub)
        table.add_row(*(Text(word) for word in row))
    return table


def task_table(spec: TaskSpec, rows: dict[str, dict[str, int]], labels: tuple[str, ...]) -> Group:
    """Return one row per language of a task and one column per split, with its columns, labels and division."""
    from gradgate.tasks.data import absent_files, absent_notes
    from gradgate.tasks.readers.files import missing
    from gradgate.tasks.splits import division_note

    title = f"{spec.name}: {spec.kind}, selected by {spec.metric}"
    table = Table("language", *(Column(split, justify="right") for split in rows), box=SIMPLE_HEAD)
    for language in dict.fromkeys(language for counts in rows.values() for language in counts):
        counts = (split.get(language) for split in rows.values())
        table.add_row(Text(language), *("" if count is None else f"{count:,}" for count in counts))
    division = division_note(spec, {split: sum(counts.values()) for split, counts in rows.items()})
    lines = []
    if spec.kind != "generation":  # of which some read messages instead
        lines.append(f"text: {' + '.join(spec.text_columns)}; label: {spec.label_column}")
    if labels:
        lines.append(f"labels: {', '.join(labels)}")
    if division:
        lines.append(division)
    lines += absent_notes(spec)
    lines += [
        f"{split}: {missing(path)}. 'gradgate train' needs it: add the file, or correct its name in the task"
        for split, path in absent_files(spec).items()
    ]
    return Group(Text(title), table, *(Text(line) for line in lines))
