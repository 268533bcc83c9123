"""Start processes that find no module in the current folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import process, util
from pathlib import Path
from types import ModuleType
from typing import Any

from gradgate.import_path import (
    PACKAGE_ROOT,
    SAFE_PATH,
    VARIABLE,
    cleaned_path,
    cleaned_variable,
    current_folder,
)

MAIN = "__main__"
_util: Any = util  # the flags of processes, and the first folder, are in no stub
_process: Any = process
_HAS_SAFE_PATH = sys.version_info >= (3, 11)


@contextmanager
def safely_started(modules: Sequence[str] = ()) -> Iterator[None]:
    """Keep the current folder off the import path of the processes that are started while the block runs.

    They get the path, environment and flags of this process, which have it there in a notebook and for ``python -m``.

    Args:
        modules: with methods of the user's own, which the processes import. Their folder stays on the path, behind all
            others.
    """
    path, environment, flags = sys.path, dict(os.environ), _util._args_from_interpreter_flags
    sys.path = child_path(modules)
    _set(VARIABLE, cleaned_variable())
    _set(SAFE_PATH, "1")
    if not _HAS_SAFE_PATH:
        _util._args_from_interpreter_flags = lambda: [*flags(), "-I"]
    try:
        yield
    finally:
        sys.path, _util._args_from_interpreter_flags = path, flags
        for name in (VARIABLE, SAFE_PATH):
            _set(name, environment.get(name, ""))


@contextmanager
def main_left_alone(modules: Sequence[str]) -> Iterator[None]:
    """Keep a process that is started from importing the user's script again.

    multiprocessing has it do so for what the script defines, and a script without ``if __name__ == "__main__"`` would
    then begin its studies again in each run. A run needs nothing of the script but methods that it registers.
    """
    if MAIN in modules:
        yield
        return
    main = sys.modules[MAIN]
    sys.modules[MAIN] = ModuleType(MAIN)
    try:
        yield
    finally:
        sys.modules[MAIN] = main


def child_path(modules: Sequence[str] = ()) -> list[str]:
    """Return the import path of a process that is started here; ``modules`` as for :func:`safely_started`."""
    own = _folder_of_script()
    current = [each for each in (current_folder(), _process.ORIGINAL_DIR) if each and os.path.realpath(each) != own]
    return cleaned_path(sys.path, tuple(current), last=(PACKAGE_ROOT, *filter(None, map(_root_of, modules))))


def _folder_of_script() -> str | None:
    """Return the folder of the user's script, which Python puts on the path of the script; None without one."""
    main = sys.modules[MAIN]
    file = getattr(main, "__file__", None)
    return None if file is None or main.__spec__ is not None else os.path.realpath(Path(file).parent)


def _root_of(module: str) -> str | None:
    """Return the folder in which Python has found a module or its package."""
    found = sys.modules.get(module)
    spec = getattr(found, "__spec__", None)  # has the name of a program that python -m runs as __main__
    top = sys.modules.get((module if spec is None else spec.name).partition(".")[0], found)
    file = getattr(top, "__file__", None)
    if file is None:
        return None
    folder = Path(os.path.realpath(file)).parent
    return str(folder.parent if hasattr(top, "__path__") else folder)


def _set(name: str, value: str) -> None:
    """Set a variable of the environment; an empty text removes it."""
    if value:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)
