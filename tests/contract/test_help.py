"""The help of each command is the recorded one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from gradgate import cli
from support.contract import check_names, check_text

WIDTH = 78  # what click takes for a terminal of 80 columns, or none


def test_help_of_commands_is_recorded() -> None:
    texts = dict(_helps(typer.main.get_command(cli.app), "gradgate", None))
    for name, text in texts.items():
        check_text(f"help/{name}.txt", text)
    check_names("help", {f"{name}.txt" for name in texts})


def _helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of a command and of all below it; it is not typed, as typer brings its click."""
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=WIDTH, color=False, **command.context_settings
    )
    yield context.command_path.replace(" ", "-"), command.get_help(context).rstrip() + "\n"
    for below, child in getattr(command, "commands", {}).items():
        yield from _helps(child, below, context)
