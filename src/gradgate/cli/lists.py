"""The commands that list what there is: methods and tasks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from gradgate.cli.completion import tasks_named
from gradgate.cli.options import AsJson, Config
from gradgate.cli.render import console, print_json
from gradgate.errors import UsageError, some_of
from gradgate.methods import MethodInfo
from gradgate.methods import methods as catalog_of_methods
from gradgate.methods.catalog import methods_of_files
from gradgate.places import typed_place

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec
    from gradgate.tasks.understood import Understood

_SHOWN = 30  # labels or columns in a list
_WIDEST = 100  # characters of a text of a row


def methods(as_json: AsJson = False, config_file: Config = None) -> None:
    """List the methods with options, defaults and papers."""
    catalog = [*catalog_of_methods(), *methods_of_files()]
    if as_json:
        print_json([info.record() for info in catalog])
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
        typer.Argument(
            autocompletion=tasks_named, help="A task, file or folder to show: its splits, columns, labels and rows."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the task.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the (first) text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label or score.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of task.")] = None,
    split: Annotated[str | None, typer.Option(help="Percentages of train, dev and test, such as 80/10/10.")] = None,
    source: Annotated[str | None, typer.Option(help="Language to train in.")] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """List the tasks, or show how one task's data are read.

    It shows the format, columns, labels, lengths, the first rows as the model sees them, and possible problems.
    """
    if task is None:
        given = {"data": data, "text": text, "text_pair": text_pair, "label": label, "kind": kind, "split": split}
        named = [name for name, value in {**given, "source": source}.items() if value is not None]
        if named:
            raise UsageError(f"{named[0]}= says how a task's data are read, but no task is named. Name one, or a file.")
        _list_tasks(as_json)
        return
    from gradgate.tasks.find import find_task
    from gradgate.tasks.multitask import find_multitask, is_multitask
    from gradgate.tasks.understood import understand  # with the kinds of tasks, which the list does without

    task = typed_place(task)
    if is_multitask(task):
        names = ", ".join(spec.name for spec in find_multitask(task, data=data).tasks)
        raise UsageError(f"{task} is several tasks; expected one. Name one of {names}.")
    spec = find_task(
        task, data=data, text=text, text_pair=text_pair, label=label, kind=kind, split=split, source=source
    )
    found = understand(spec)
    if as_json:
        known = asdict(found)
        rows = known.pop("rows")
        print_json({**rows, "understood": {"name": spec.name, "kind": spec.kind, "metric": spec.metric, **known}})
    else:
        console.print(task_shown(spec, found))


def _list_tasks(as_json: bool) -> None:
    """Print every named task."""
    from gradgate.tasks.find import find_task, task_names

    specs = [find_task(name) for name in task_names()]
    if as_json:
        print_json([spec.model_dump(mode="json", exclude_none=True) for spec in specs])
    else:
        console.print(tasks_table(specs))


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


def task_shown(spec: TaskSpec, found: Understood) -> Group:
    """Return what was understood of a task's data: rows by language and split, columns, labels, lengths and rows."""
    table = Table("language", *(Column(split, justify="right") for split in found.rows), box=SIMPLE_HEAD)
    for language in dict.fromkeys(language for counts in found.rows.values() for language in counts):
        counts = (split.get(language) for split in found.rows.values())
        table.add_row(Text(language), *("" if count is None else f"{count:,}" for count in counts))
    lines = [f"form: {found.form}"] if found.form else []
    lines += [f"columns: {_columns(found.columns)}"] if found.columns else []
    if not found.columns and spec.kind != "generation":
        lines.append(f"text: {' + '.join(spec.text_columns)}; label: {spec.label_column}")
    if found.labels:
        lines.append(f"labels: {_labels(found.labels)}")
    if found.lengths:
        lengths = (f"{name} {_number(least)} to {_number(most)}, median {_number(middle)}"
                   for name, (least, middle, most) in found.lengths.items())  # fmt: skip
        lines.append(f"lengths: {'; '.join(lengths)}")
    lines += map(console.worded, found.notes)
    rows = [Padding(Text(_row(row)), (0, 0, 0, 4)) for row in found.examples]
    title = Text(f"{spec.name}: {spec.kind}, selected by {spec.metric}")
    first: list[RenderableType] = [Text("the first rows of train, as a model gets them:"), *rows] if rows else []
    return Group(title, table, *(Text(line) for line in lines), *first)


def _columns(columns: dict[str, str]) -> str:
    """Format columns by their part: ``message (text), queue (label); not used: id``."""
    used = [name if part == name else f"{name} ({part})" for name, part in columns.items() if part != "not used"]
    unused = [name for name, part in columns.items() if part == "not used"]
    return ", ".join(used) + (f"; not used: {some_of(unused, _SHOWN)}" if unused else "")


def _labels(counts: dict[str, int]) -> str:
    return some_of([f"{label} {count:,}" if count else label for label, count in counts.items()], _SHOWN)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _row(row: dict[str, Any]) -> str:
    """Format a row in one line, texts cut."""
    if "turns" in row:
        return " | ".join(_turn(turn) for turn in row["turns"])
    return "; ".join(f"{name}: {_cut(value)}" for name, value in row.items())


def _turn(turn: dict[str, Any]) -> str:
    further = ", ".join(name for name in turn if name not in ("role", "content"))
    return f"{turn['role']}{f' ({further})' if further else ''}: {_cut(turn['content'])}"


def _cut(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
