"""Print the help of a command with its flags grouped by subject."""

from __future__ import annotations

from typing import Any

from gradgate.cli.options import drop_overruled
from gradgate.cli.typed_paths import PathCommand
from gradgate.settings.base import SECTIONS

OTHER = "options"


class GroupedCommand(PathCommand):
    """A command whose help has one section per subject of its flags, and an ``Options`` section without subjects."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words as the base class does; flags win over a configuration file."""
        rest = super().parse_args(ctx, args)
        drop_overruled(ctx)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the flags of each subject."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("arguments", *SECTIONS, OTHER)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            panel = "arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or OTHER
            if record is not None:
                sections[panel].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name.capitalize()):
                    formatter.write_dl(records)
