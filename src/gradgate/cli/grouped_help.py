"""Print the help of a command with its flags grouped by subject, and refuse a second value where one is used."""

from __future__ import annotations

from typing import Any

from gradgate.cli.overruled import drop_overruled
from gradgate.cli.typed_paths import PathCommand
from gradgate.errors import UsageError
from gradgate.settings.base import SECTIONS

OTHER = "options"
_DATA = "data"
_COLUMNS = ("--text", "--text-pair", "--label", "--kind", "--data", "--split", "--source")
_METHOD = "--method"
_ALSO = {
    "--text": ", or name the second text of a pair with --text-pair",
    _METHOD: ", or compare them with 'gradgate compare'",
    "--model": ", or compare them with 'gradgate compare'",
}


class GroupedCommand(PathCommand):
    """A command whose help has one section per subject of its flags, and an ``Options`` section without subjects."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line; flags win over a configuration file.

        Raises:
            UsageError: a flag of data, of the method or the model that takes one value, with several different ones.
        """
        if not ctx.resilient_parsing:
            _refuse_second_values(self.get_params(ctx), args)
        rest: list[str] = super().parse_args(ctx, args)
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


def _refuse_second_values(parameters: list[Any], words: list[str]) -> None:
    """Refuse a second value of a flag that names one thing: both may be meant. Scripts override settings that way."""
    for parameter in parameters:
        if not _names_one_thing(parameter):
            continue
        single = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag)
        values = list(dict.fromkeys(_values(parameter.opts, words))) if single else []
        if len(values) > 1:
            name = max(parameter.opts, key=len)
            raise UsageError(
                f"{name} is given {len(values)} times, as {' and '.join(values)}; it takes one value. Leave the others "
                f"out{_ALSO.get(name, '')}."
            )


def _names_one_thing(parameter: Any) -> bool:
    """Return True for flags of data, and for the method that is trained; elsewhere ``--method`` filters runs."""
    panel = getattr(parameter, "rich_help_panel", None)
    return panel == _DATA or parameter.opts[0] in _COLUMNS or (panel == "method" and _METHOD in parameter.opts)


def _values(names: list[str], words: list[str]) -> list[str]:
    """Return the values that follow a flag, as ``--flag VALUE`` or ``--flag=VALUE``."""
    found = []
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if word == "--":
            break
        if flag in names and equals:
            found.append(value)
        elif word in names and place + 1 < len(words):
            found.append(words[place + 1])
    return found
