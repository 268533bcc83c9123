"""Where the commands print."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from gradgate.methods import MethodInfo
from gradgate.tasks.languages import average_label

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec
    from gradgate.training.config import RunConfig

# In a file or a pipe there is no edge to wrap at.
console = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """A result for scripts."""
    console.print_json(json.dumps(value))


def print_line(text: str) -> None:
    """A line as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


_OPEN, _PART, _CLOSED = "█", "▒", "·"


def methods_list(catalog: list[MethodInfo]) -> Group:
    """Each method with its options as they are typed, what it does, and its paper."""
    blocks: list[RenderableType] = []
    for info in catalog:
        options = ", ".join(f"{name}={'...' if value is ... else value}" for name, value in info.defaults.items())
        lines = [info.summary, f"options: {options or 'none'}", f"source: {info.paper}"]
        lines += [f"deviates: {info.deviates}"] if info.deviates else []
        blocks += [Text(info.name, style="bold"), *(Padding(Text(line), (0, 0, 0, 4)) for line in lines)]
    return Group(*blocks)


def tasks_table(specs: list[TaskSpec]) -> Table:
    """One row a named task."""
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
    """One row a language of a task that was read, one column a split, and its labels where it has names for them."""
    title = f"{spec.name}: {spec.kind}, selected by {spec.metric}"
    table = Table("language", *(Column(split, justify="right") for split in rows), box=SIMPLE_HEAD)
    for language in dict.fromkeys(language for counts in rows.values() for language in counts):
        counts = (split.get(language) for split in rows.values())
        table.add_row(Text(language), *("" if count is None else f"{count:,}" for count in counts))
    return Group(Text(title), table, *([Text(f"labels: {', '.join(labels)}")] if labels else []))


def scores_table(config: RunConfig, scores: dict[str, Any]) -> Table:
    """The scores of one run, one row a split; of several tasks, one row a task."""
    cost = scores["cost"]
    caption = (
        f"best on dev at step {scores['best_step']} of {cost['steps']}; {cost['trainable_share']:.1%} of the weights "
        f"learned on average; {cost['seconds_per_step'] * 1e3:.1f} ms a step; peak memory "
        f"{cost['peak_memory_bytes'] / 2**20:.0f} MiB"
    )
    title = Text(f"{config.title} on {config.task}, seed {config.seed}")
    if "tasks" in scores:
        return _scores_by_task(scores, title, Text(caption))
    rows = {"dev": scores["dev"], **_split_rows(scores)}
    return _scores_by_split(rows, scores["metric"], title, Text(caption))


def _scores_by_task(scores: dict[str, Any], title: Text, caption: Text) -> Table:
    """One row a task with its own metric, then their mean; one column a split."""
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
    """What the training of a language adapter has brought."""
    before, after = result["before"], result["after"]
    if before is None or after is None:
        return f"{result['steps']} steps; nothing was held out to score"
    return (
        f"held-out masked-word loss {before['loss']:.3f} before, {after['loss']:.3f} after {result['steps']} steps "
        f"(perplexity {before['perplexity']:.4g}, {after['perplexity']:.4g})"
    )


def evaluation_table(record: dict[str, Any]) -> Table:
    """The scores of a finished run on a task, one row a split and average."""
    rows = _split_rows(record)
    run = record["run"]
    title = Text(f"{run['method']} on {run['task']}, seed {run['seed']}; scored on {record['task']['name']}")
    return _scores_by_split(rows, record["metric"], title)


def draw_timeline(record: dict[str, Any], width: int = 100) -> Text:
    """What is open when, one line a group from the top down, one column a stretch of steps.

    Args:
        record: as in ``plan.yaml``.
        width: of the terminal, in columns.
    """
    groups, steps, sizes = record["groups"], record["steps"], record["sizes"]
    margin = max(map(len, groups)) + 2
    columns = max(10, min(steps, width - margin - 8))
    edges = [round(steps * column / columns) for column in range(columns + 1)]
    shares = {group: _shares(record["phases"], group, steps, edges) for group in groups}
    total = sum(sizes.values())
    mean = sum(sizes[group] * sum(shares[group]) / columns for group in groups) / total
    lines = [f"{record['method']}, {steps} steps: {mean:.1%} of the weights learn, on average"]
    for group in reversed(groups):
        marks = (_OPEN if share > 0.99 else _PART if share > 0 else _CLOSED for share in shares[group])
        lines.append(f"{group:<{margin}}{''.join(marks)} {sum(shares[group]) / columns:>6.1%}")
    lines.append(f"{'step':<{margin}}{_axis(steps, columns)}")
    lines.append(f"{_OPEN} open   {_PART} in part   {_CLOSED} closed")
    return Text("\n".join(lines), no_wrap=True)


def _shares(phases: list[dict[str, Any]], group: str, steps: int, edges: list[int]) -> list[float]:
    """Mean share of the group's elements that learn between each two edges."""
    learned = [0.0] * steps
    ends = [*(phase["step"] for phase in phases[1:]), steps]
    for phase, end in zip(phases, ends, strict=True):
        gate = phase.get("sparse", {}).get(group)
        share = 1.0 if group in phase["open"] else gate["hi"] - gate["lo"] if gate else 0.0
        learned[phase["step"] : end] = [share] * (end - phase["step"])
    spans = pairwise(edges)
    return [
        sum(learned[first:last]) / (last - first) if last > first else learned[min(first, steps - 1)]
        for first, last in spans
    ]


def _axis(steps: int, columns: int) -> str:
    """Step numbers under the columns where they begin."""
    line = ""
    for quarter in range(4):
        column = columns * quarter // 4
        line = f"{line:<{column}}{steps * column // columns}"
    return f"{line:<{max(0, columns - len(str(steps)))}}{steps}"
