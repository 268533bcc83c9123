"""Run commands of gradgate as a user would, and find the models and data of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SHARED, MODELS = "$GRADGATE_SHARED", "$GRADGATE_MODELS"
_FOLDERS = {SHARED: "../shared", MODELS: "../models"}
"""Environment variables that a study's paths begin with, and the folders where they are not set."""


def gradgate(*words: str, quiet: bool = False) -> str:
    """Run a command of gradgate.

    Args:
        quiet: return what it prints, without showing it.

    Raises:
        subprocess.CalledProcessError: if it fails; it has printed why.
    """
    command = [sys.executable, "-m", "gradgate", *words]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if quiet else None).stdout or ""


def flags(name: str, value: Any) -> list[str]:
    """Return a setting as the words of a command, with one flag per value of a list."""
    values = value if isinstance(value, list) else [value]
    return [word for each in values for word in (f"--{name.replace('_', '-')}", str(each))]


def here(value: Any) -> Any:
    """Resolve a path below ``$GRADGATE_SHARED`` or ``$GRADGATE_MODELS``, as it is on this machine."""
    for variable in _FOLDERS:
        if isinstance(value, str) and value.startswith(f"{variable}/"):
            return str(_folder(variable) / value.removeprefix(f"{variable}/"))
    return value


def anywhere(text: str) -> str:
    """Return what a command printed, with paths of this machine as the settings have them."""
    for variable in _FOLDERS:
        text = text.replace(str(_folder(variable)), variable)
    return text


def _folder(variable: str) -> Path:
    return Path(os.environ.get(variable.removeprefix("$"), _FOLDERS[variable])).resolve()


def first_rows(source: Path, counts: dict[str, int], target: Path) -> Path:
    """Copy a folder of data with the first rows of some files, and without those of which no row is used.

    Blank lines divide rows that take several lines.
    """
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        name = str(file.relative_to(source))
        if counts.get(name) == 0:
            (target / name).unlink(missing_ok=True)
            continue
        content = file.read_bytes()
        if name in counts:
            between = b"\n\n" if b"\n\n" in content else b"\n"
            content = between.join(content.split(between)[: counts[name]]) + between
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    return target
