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

from gradgate.errors import UsageError
from gradgate.training.config import RunConfig, make_config

_SHORT = {"method": ["-m"]}


def takes_settings(*leave_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag for each field of RunConfig, and ``--config FILE``.

    The command receives what was given as the dictionary ``settings``; flags win over the file.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
        names = [name for name in RunConfig.model_fields if name not in leave_out]
        config_help = "YAML file with the same names as the flags; flags win."
        flags = [_flag(name) for name in names] + [_parameter("config", Path, typer.Option(help=config_help))]

        @functools.wraps(command)
        def with_settings(**values: Any) -> Any:
            flagged = {name: values.pop(name) for name in names}
            file = values.pop("config")
            settings = {**(read_settings(file) if file else {}), **{k: v for k, v in flagged.items() if v is not None}}
            return command(**values, settings=settings)

        signature = inspect.Signature([*own, *flags])
        wrapped: Any = with_settings
        wrapped.__signature__ = signature
        wrapped.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        del wrapped.__wrapped__
        return with_settings

    return decorate


def read_settings(file: Path) -> dict[str, Any]:
    """The settings in a YAML file, as plain values.

    Raises:
        UsageError: for a file that cannot be read or is no mapping.
    """
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--config {file} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--config {file}: expected lines such as 'lr: 5e-5'.")
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def run_config(settings: dict[str, Any]) -> RunConfig:
    """The checked settings of a run."""
    return make_config(**settings)


def _flag(name: str) -> inspect.Parameter:
    field = RunConfig.model_fields[name]
    long = f"--{name.replace('_', '-')}"
    default = False if field.default is None else str(field.default)
    if isinstance(field.default, bool):
        option = typer.Option(f"{long}/--no-{long[2:]}", help=field.description, show_default=default)
    else:
        option = typer.Option(long, *_SHORT.get(name, []), help=_help(field), show_default=default)
    return _parameter(name, _plain(field.annotation), option)


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(field: Any) -> str:
    choices = [arg for part in (field.annotation, *get_args(field.annotation)) for arg in _choices(part)]
    return f"{field.description} ({', '.join(choices)})" if choices else str(field.description)


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _plain(annotation: Any) -> Any:
    """The one type that the command line parses: the setting itself is checked by RunConfig."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return str if get_origin(annotation) is Literal else annotation
