"""What ``gradgate reproduce`` does: plan, run, write the tables, show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gradgate.errors import UsageError, nearest
from gradgate.files import write_text
from gradgate.papers.comparison import derived_table, full_table, summary_table
from gradgate.papers.planning import SAMPLE_SEEDS, Plan, plan_full, plan_sample
from gradgate.papers.preset import find_preset
from gradgate.papers.reproduce import Reproduction, read_reproduction, run_plan, study_folders
from gradgate.papers.resources import given_models, supply
from gradgate.report import write_report
from gradgate.report.export import to_csv, to_markdown, to_terminal
from gradgate.report.table import Table
from gradgate.study.progress import SilentStudy, StudyBars, StudyProgress

_SCALES = ("full", "sample")


@dataclass(frozen=True)
class ReproduceRequest:
    """What was asked for. ``seeds``: None for as many as the paper has; ``settings``: in place of the preset's."""

    preset: str
    scale: str
    seeds: list[int] | None
    models: list[str]
    data: Path | None
    partial: bool
    settings: dict[str, Any]

    def plan(self) -> Plan:
        """The runs that this asks for.

        Raises:
            UsageError: for a preset, scale or model that is not known.
            RunError: if models or data cannot be had.
        """
        preset = find_preset(self.preset)
        if self.scale not in _SCALES:
            raise UsageError(f"--scale {self.scale!r}: expected full or sample.{nearest(self.scale, _SCALES)}")
        if self.scale == "sample":
            if self.models or self.data:
                raise UsageError("--scale sample has its own model and data; leave --model and --data out.")
            return plan_sample(preset, self.seeds or range(SAMPLE_SEEDS), self.settings)
        supplies = supply(preset, given_models(preset, self.models), self.data)
        return plan_full(preset, supplies, self.seeds or range(preset.seeds), self.settings, self.partial)


def reproduce_table(plan: Plan, out: Path, console: Console | None, errors: Console) -> int:
    """Run a plan, write its tables and show them.

    Args:
        console: None to show nothing.
        errors: where progress goes.

    Returns:
        How many runs failed.
    """

    @contextmanager
    def progress(title: str) -> Iterator[StudyProgress]:
        if console is None:
            yield SilentStudy()
        else:
            with StudyBars(errors) as bars:
                bars.note(title)
                yield bars

    tally = run_plan(plan, out, progress)
    for folder in study_folders(out):
        write_report(folder)
    reproduction = read_reproduction(out)
    tables = write_tables(reproduction, out)
    if console is not None:
        for table in tables:
            if table.name != "published-all":
                console.print(to_terminal(table, tuple(column.key for column in table.columns), console.width))
        console.print(Text(f"Tables: {out / 'tables'}; a report in each study beside it."), soft_wrap=True)
        console.print(Text(f"Claims: gradgate papers {out}"), soft_wrap=True)
    return tally.failed


def write_tables(reproduction: Reproduction, out: Path) -> list[Table]:
    """Write ``tables/published*.csv`` and ``.md``; returns them, the one in short first."""
    derived = derived_table(reproduction)
    tables = [summary_table(reproduction), *([derived] if derived else []), full_table(reproduction)]
    for table in tables:
        write_text(out / "tables" / f"{table.name}.csv", to_csv(table))
        notes = "".join(f"- {note}\n" for note in reproduction.notes)
        write_text(out / "tables" / f"{table.name}.md", f"# {table.title}\n\n{to_markdown(table)}\n{notes}")
    return tables
