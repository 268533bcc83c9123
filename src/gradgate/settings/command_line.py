"""Write the command and the Python that train with some settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradgate.errors import listed
from gradgate.methods.fixed import Probe
from gradgate.places import short_name
from gradgate.settings.run import RunConfig
from gradgate.settings.unused import UNUSED_BY_A_PROBE

RECOMMENDED = "runs/recommended"
"""The folder that a recommended command trains into."""


def train_command(config: RunConfig, out: str, method: str | None = None) -> str:
    """Return the ``gradgate train`` command with every setting that is not the default.

    Args:
        config: of the training.
        out: the folder that the command names.
        method: in place of that of the settings, if this process does not know it.
    """
    given = given_settings(config) | ({} if method is None else {"method": method})
    return shlex.join(["gradgate", "train", *flags_of(given), "--out", out])


def flags_of(settings: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that stand for settings.

    Args:
        settings: plain values by name; a list is a repeated flag, a mapping a flag for each ``NAME=VALUE``, whose
            value may be a list too.
    """
    words = []
    for name, value in settings.items():
        flag = "-m" if name == "method" else f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, dict):
            words += [word for key, each in value.items() for word in (flag, f"{key}={_together(each)}")]
        elif isinstance(value, list):
            words += [word for each in value for word in (flag, str(each))]
        else:
            words += [flag, str(value)]
    return words


def _together(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def predict_command(run: Path) -> str:
    """Return the ``gradgate predict`` command for the rows of a file."""
    return shlex.join(["gradgate", "predict", str(run), "--file", "FILE"])


def export_command(run: Path, out: str) -> str:
    """Return the ``gradgate export`` command, which writes the model of a run for other libraries."""
    return shlex.join(["gradgate", "export", str(run), "--out", out])


def load_lines(run: Path) -> tuple[str, str]:
    """Return two lines of Python that load the model and the tokenizer of a finished run."""
    return "import gradgate as gg", f"model, tokenizer = gg.Run({run.as_posix()!r}).load()"


def train_lines(config: RunConfig, out: str) -> tuple[str, str, str]:
    """Return three lines of Python that train with some settings into a folder."""
    values = ", ".join(f"{name}={value!r}" for name, value in given_settings(config).items())
    return "import gradgate as gg", f"run = gg.train({values}, out={out!r})", "print(run)"


def without_places(config: RunConfig) -> RunConfig:
    """Return settings without what belongs to one machine: its threads, and the folders of absolute paths."""
    values = {name: getattr(config, name) for name in RunConfig.model_fields}
    near = {name: short_name(value) for name, value in values.items() if isinstance(value, str)}
    files = {name: Path(short_name(str(value))) for name, value in values.items() if isinstance(value, Path)}
    forgetting = None if config.forgetting is None else config.forgetting.portable
    return config.model_copy(update={"threads": None, "forgetting": forgetting, **near, **files})


def places_note(*configs: RunConfig) -> str:
    """Return what to do about the names that :func:`without_places` leaves of absolute paths; empty without one."""
    places = [str(value) for config in configs for value in _texts(config)]
    names = list(dict.fromkeys(short_name(place) for place in places if short_name(place) != place))
    if not names:
        return ""
    return f"Replace {listed(names)} with {'its path' if len(names) == 1 else 'their paths'} on your machine."


def _texts(config: RunConfig) -> list[str | Path]:
    """Return the settings that may be places."""
    found = [getattr(config, name) for name in RunConfig.model_fields]
    return [
        *(value for value in found if isinstance(value, (str, Path))),
        *([] if config.forgetting is None else [config.forgetting.place]),
    ]


def given_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that are not the defaults as plain values, and always model, task, method and rate.

    A probe takes no steps, and is refused settings of them.
    """
    unused = UNUSED_BY_A_PROBE if isinstance(config.method, Probe) else ()
    record = {name: value for name, value in config.record().items() if name not in unused}
    defaults = {name: field.default for name, field in RunConfig.model_fields.items()}
    first = ("model", "task", "method", "adapter", "lr")
    always = {name: record[name] for name in first if record.get(name) is not None}
    rest = {name: value for name, value in record.items() if name not in always and value is not None}
    return always | {name: value for name, value in rest.items() if value != defaults[name]}
