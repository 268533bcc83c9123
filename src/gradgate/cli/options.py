"""Command-line flags made from the settings of a run, so that each setting is described in one place."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gradgate.errors import UsageError, nearest
from gradgate.training.config import RunConfig, make_config

_SHORT = {"method": ["-m"]}


def takes_settings(
    *leave_out: str, of: type[BaseModel] = RunConfig
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag for each field of its settings; it receives what was given as ``settings``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
        names = [name for name in of.model_fields if name not in leave_out]
        flags = [_flag(name, of.model_fields[name]) for name in names]

        @functools.wraps(command)
        def with_settings(**values: Any) -> Any:
            flagged = {name: values.pop(name) for name in names}
            return command(**values, settings={k: v for k, v in flagged.items() if v is not None})

        signature = inspect.Signature([*own, *flags])
        wrapped: Any = with_settings
        wrapped.__signature__ = signature
        wrapped.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        del wrapped.__wrapped__
        return with_settings

    return decorate


def read_config(context: typer.Context, file: Path | None) -> None:
    """Make what a YAML file says the defaults of the command's flags, so that flags win.

    Raises:
        UsageError: for a file that cannot be read, that is no mapping, or that names what is no flag.
    """
    if file is None:
        return
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--config {file} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--config {file}: expected lines such as 'lr: 5e-5'.")
    flags = {
        name.removeprefix("--"): parameter
        for parameter in context.command.params
        for name in parameter.opts
        if name.startswith("--") and name not in ("--config", "--help")
    }
    given = {str(name).replace("_", "-"): value for name, value in values.items() if value is not None}
    unknown = [f"There is no setting {name!r}.{nearest(name, flags)}" for name in given if name not in flags]
    if unknown:
        raise UsageError(f"--config {file}: {' '.join(unknown)}")
    context.default_map = {flags[name].name: _as_typed(value, flags[name].multiple) for name, value in given.items()}


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for everything that is written.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        expose_value=False,
        callback=read_config,
        help="YAML file with the same names as the flags; flags win.",
    ),
]


def _as_typed(value: Any, several: bool) -> Any:
    """A YAML value in the words of the command line, so that both are read by the same rules."""
    if several:
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return str(value)


def run_config(settings: dict[str, Any]) -> RunConfig:
    """The checked settings of a run."""
    return make_config(**settings)


def read_seeds(text: str) -> list[int]:
    """``3`` as seeds 0, 1 and 2; ``0,7,42`` or ``7,`` as they are.

    Raises:
        UsageError: for anything else.
    """
    counted = not {"[", ","} & set(text)
    try:
        numbers = [int(word) for word in text.strip("[] ").removesuffix(",").split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or (counted and numbers == [0]):
        raise UsageError(f"--seeds {text!r}: expected how many (3) or a list of seeds (0,7,42; for one seed: 7,).")
    return list(range(numbers[0])) if counted else numbers


def setting_help(name: str, more: str) -> str:
    """What a flag says of a run's setting, and more."""
    field = RunConfig.model_fields[name]
    return f"{field.description}; {more} [default: {field.default}]"


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    long = f"--{name.replace('_', '-')}"
    is_switch = _plain(field.annotation) is bool
    names = [f"{long}/--no-{long[2:]}"] if is_switch else [long, *_SHORT.get(name, [])]
    option = typer.Option(*names, help=_help(field))
    return _parameter(name, _plain(field.annotation), option)


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(field: Any) -> str:
    choices = [arg for part in (field.annotation, *get_args(field.annotation)) for arg in _choices(part)]
    text = f"{field.description} ({', '.join(choices)})" if choices else str(field.description)
    return (
        text
        if field.is_required() or field.default in (None, False)
        else f"{text} [default: {'on' if field.default is True else field.default}]"
    )


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _plain(annotation: Any) -> Any:
    """The one type that the command line parses: the setting itself is checked by RunConfig."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return str if get_origin(annotation) is Literal else annotation
