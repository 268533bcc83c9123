"""Command-line flags made from the settings of a run, so that each setting is described in one place."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from gradgate.cli.completion import OF_SETTINGS
from gradgate.cli.wording import flag, help_in_flags
from gradgate.errors import UsageError
from gradgate.places import typed_path
from gradgate.settings.base import CheckedSettings, checked_settings, unknown_setting
from gradgate.settings.signature import in_sections, shown_default

_SHORT = {"method": ["-m"]}
_METAVARS: dict[Any, str] = {int: "<int>", float: "<float>", list[str]: "<str>"}
_NOTHING_WRONG = object()
_NUMBERS = {int: "a whole number, such as 10", float: "a number, such as 0.1 or 5e-5"}


def takes_settings(*leave_out: str, of: type[CheckedSettings]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag for each field of its settings; it receives these, checked, as ``settings``.

    Args:
        leave_out: fields without a flag.
        of: the settings.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
        names = [name for name in in_sections(of) if name not in leave_out]

        @functools.wraps(command)
        def with_settings(**values: Any) -> Any:
            flagged = {name: _number(name, of.model_fields[name], values.pop(name)) for name in names}
            return command(**values, settings=checked_settings(of, {n: v for n, v in flagged.items() if v != []}))

        sections = of.sections()
        signature = inspect.Signature([*own, *(_flag(of, name, sections.get(name)) for name in names)])
        wrapped: Any = with_settings
        wrapped.__signature__ = signature
        wrapped.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        del wrapped.__wrapped__
        return with_settings

    return decorate


def read_config(context: typer.Context, file: Path | None) -> None:
    """Make what a YAML file says the defaults of the command's flags, so that flags win.

    Raises:
        UsageError: for a file that cannot be read, that is not a mapping, or that names what is not a flag.
    """
    if file is None:
        return
    from gradgate.files import read_bytes
    from gradgate.plain_yaml import parse_settings

    file = typed_path(file)  # before the paths of the command, as it may set them
    try:
        values = parse_settings(read_bytes(file))
    except OSError as error:
        raise UsageError(f"--config {file} cannot be read: {error.strerror or error}. Pass a YAML file.") from None
    except ValueError as error:
        raise UsageError(f"--config {file} cannot be read: {error}. Expected YAML such as 'lr: 5e-5'.") from None
    if isinstance(values, dict) and isinstance(values.get("config"), dict) and "fingerprint" in values:
        values = _settings_of_run(values, context)
    if not isinstance(values, dict):
        raise UsageError(f"--config {file}: expected lines such as 'lr: 5e-5', got {type(values).__name__}.")
    flags = {
        name.removeprefix("--"): parameter
        for parameter in context.command.params
        for name in parameter.opts
        if name.startswith("--") and name not in ("--config", "--help")
    }
    names = [str(name).replace("_", "-") for name in values]
    unknown = [unknown_setting(name, flags) for name in names if name not in flags]
    if unknown:
        raise UsageError(
            f"--config {file}: {' '.join(unknown)} Expected flags of the command without '--'; see --help."
        )
    given: dict[str, Any] = {}
    for name, value in zip(names, values.values(), strict=True):
        if name in given:
            raise UsageError(
                f"--config {file}: {name!r} is given twice, as {name} and as {name.replace('-', '_')}. "
                f"Expected one of them: remove the other."
            )
        if value is not None:
            given[name] = _as_typed(value, flags[name].multiple, f"--config {file}: {name}")
    context.default_map = {flags[name].name: value for name, value in given.items()}


def _settings_of_run(record: dict[str, Any], context: typer.Context) -> dict[str, Any]:
    """Return what the run of a ``run.json`` was trained with, for a command that trains or describes a training.

    What the command has no flag for is left out: a comparison has its own seeds, a plan no files of tests. Adapter and
    method are one arm, so that another arm takes the place of both.
    """
    flags = {name.removeprefix("--") for parameter in context.command.params for name in parameter.opts}
    if not {"method", "model"} <= flags:
        return record
    config = dict(record["config"])
    if isinstance(config.get("adapter"), str) and isinstance(config.get("method"), str):
        config["method"] = f"{config.pop('adapter')} + {config['method']}"
    known = {name: value for name, value in config.items() if name.replace("_", "-") in flags}
    return {name: _as_words(value) for name, value in known.items()}


def _as_words(value: Any) -> Any:
    """Return a recorded setting as YAML would have it; a mapping is a list of NAME=VALUE."""
    return [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else value


Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel="output", help="Print no progress and no table.")]
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel="output", help="Print the result as JSON.")]
Out = Annotated[Path, typer.Option("--out", "-o", rich_help_panel="output", help="Folder for all output.")]
PushToHub = Annotated[
    str | None,
    typer.Option(
        "--push-to-hub",
        metavar="<name>",
        rich_help_panel="output",
        help="Push the exported model and its card to this Hugging Face hub repository (name or user/name).",
    ),
]
Public = Annotated[
    bool,
    typer.Option("--public", rich_help_panel="output", help="Create a public repository; by default it is private."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        expose_value=False,
        callback=read_config,
        help="YAML file with settings, named like the flags; flags override it.",
    ),
]


def _as_typed(value: Any, several: bool, where: str) -> Any:
    """Return a YAML value in the words of the command line, so that both are read by the same rules."""
    items = value if isinstance(value, list) else [value]
    wrong = next((item for item in items if isinstance(item, (dict, list)) or item in (None, "")), _NOTHING_WRONG)
    if wrong is not _NOTHING_WRONG:
        raise UsageError(
            f"{where} has the value {wrong!r}; expected text, a number, true or false, or a list of these."
        )
    words = [str(item) for item in items]
    if several:
        return words
    return f"[{','.join(words)}]" if isinstance(value, list) and where.endswith(": seeds") else ",".join(words)


def _flag(of: type[CheckedSettings], name: str, section: str | None) -> inspect.Parameter:
    """Return the parameter of a command that stands for a field."""
    field = of.model_fields[name]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    kind = str if "text" in extra else _plain(field.annotation)
    long = str(extra.get("flag", flag(name)))
    names = [f"{long}/--no-{long[2:]}"] if kind is bool else [long, *_SHORT.get(name, [])]
    # Numbers come as text, so that a message can name what was typed; typer's does not.
    typed: Any = str if kind in _NUMBERS else kind
    option = typer.Option(
        *names,
        help=help_in_flags(_help(field), of.model_fields),
        metavar=str(extra["metavar"]) if "metavar" in extra else _METAVARS.get(kind),
        autocompletion=OF_SETTINGS.get(name),
        rich_help_panel=section,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[typed | None, option]
    )


def _number(name: str, field: FieldInfo, text: Any) -> Any:
    """Return the number that was passed to a flag that takes one; return other values as they are."""
    kind = _plain(field.annotation)
    if text is None or kind not in _NUMBERS:
        return text
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"Invalid value for '{flag(name)}': {text!r}; expected {_NUMBERS[kind]}.") from None


def _help(field: FieldInfo) -> str:
    choices = [arg for part in (field.annotation, *get_args(field.annotation)) for arg in _choices(part)]
    text = _sentence(str(field.description))
    if choices:
        text += f" ({', '.join(choices)})"
    if field.is_required():
        return f"{text} [required]"
    default = shown_default(field)
    return text if default is None else f"{text} [default: {default}]"


def _sentence(description: str) -> str:
    """Return a description as a sentence; those of settings begin as the lines of a docstring do."""
    text, default, rest = description.partition(" [default")
    return f"{text[:1].upper()}{text[1:].rstrip('.')}.{default}{rest.rstrip('.')}"


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _plain(annotation: Any) -> Any:
    """Return the one type that the command line parses; the settings check the value."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) in (dict, tuple):
        return list[str]
    return annotation if annotation in (str, int, float, bool, Path) else str
