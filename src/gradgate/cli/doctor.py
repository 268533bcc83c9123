"""The command that looks at the machine and the installation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from gradgate.cli.options import AsJson, Config
from gradgate.cli.render import console, print_json, print_line

if TYPE_CHECKING:
    from gradgate.cli.diagnosis import Check

_STYLES = {"note": "yellow", "problem": "red"}


def doctor(
    network: Annotated[bool, typer.Option("--network", help="Also check that the Hugging Face hub answers.")] = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Check this machine and installation for problems.

    It checks packages, device, threads, memory, disk and hub, and says what to do.
    """
    from gradgate.cli.diagnosis import examine  # torch loads only for this

    checks = examine(Path(), network=network)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        console.print(checks_table(checks))
        counts = {state: sum(check.state == state for check in checks) for state in ("problem", "note")}
        print_line(f"{counts['problem']} problems, {counts['note']} notes")
    if any(check.state == "problem" for check in checks):
        raise typer.Exit(1)


def checks_table(checks: list[Check]) -> Table:
    """Return one row per check, with the remedy below the result."""
    table = Table(Column("", no_wrap=True), Column("about", no_wrap=True), "found", box=None, padding=(0, 2, 0, 0))
    for check in checks:
        table.add_row(check.state, check.about, check.found, style=_STYLES.get(check.state))
        if check.advice:
            table.add_row("", "", f"→ {check.advice}")
    return table
