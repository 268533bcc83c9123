"""Replace ``~`` in every path on a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from gradgate.places import typed_path


class PathCommand(TyperCommand):
    """A command that is called with home folders in place of ``~`` in its paths; a configuration file may have some."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words as the base class does; raise UsageError for a home folder that is not known."""
        rest: list[str] = super().parse_args(ctx, args)
        for name, value in ctx.params.items():
            if isinstance(value, Path):
                ctx.params[name] = typed_path(value)
            elif isinstance(value, list | tuple) and any(isinstance(each, Path) for each in value):
                ctx.params[name] = [typed_path(each) for each in value]
        return rest
