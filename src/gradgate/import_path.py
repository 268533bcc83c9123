"""Keep the current folder off the import path of the command and of the processes that gradgate starts.

A ``torch.py`` in a downloaded folder must not run because somebody looks at that folder. Python puts the current folder
in front of all others for ``python -m`` and ``python -c``, and for an empty entry of ``PYTHONPATH``.

The package imports this module before all others, which cleans the path of the command at once. Until then each import
might find a file in the current folder, so this module uses only what the interpreter itself has loaded.
"""

# pathlib is not loaded yet
# ruff: noqa: PTH109, PTH117, PTH119, PTH120
import os
import sys

VARIABLE = "PYTHONPATH"
SAFE_PATH = "PYTHONSAFEPATH"  # from Python 3.11 on: no current folder for python -m and python -c
PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
GIVEN = {name: os.environ.get(name) for name in (VARIABLE, SAFE_PATH)}
"""What the user has set, for a program of the user's that the command runs; None for what is not set."""
_STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))
_SCRIPTS = ("gradgate", "gradgate.exe", "gradgate-script.py", "gradgate-script.pyw")
_MODULES = ("gradgate", "gradgate.__main__")


def cleaned_path(path: list[str], current: tuple[str, ...], last: tuple[str, ...] = ()) -> list[str]:
    """Return an import path without the current folder.

    Of what Python puts in front of the standard library, the current folder is left out: an empty entry, the folder of
    ``python -m``, a relative entry of ``PYTHONPATH`` such as ``.``. An absolute entry of ``PYTHONPATH`` is the user's
    choice and stays, as does what an installation adds behind the standard library.

    Args:
        path: as ``sys.path``.
        current: the current folder, and others that were it.
        last: folders that are needed; one that was left out stands behind all others, where it hides no module.
    """
    front = next(
        (i for i, each in enumerate(path) if os.path.isabs(each) and os.path.realpath(each) == _STANDARD_LIBRARY),
        len(path),
    )
    chosen = {os.path.realpath(each) for each in _variable().split(os.pathsep) if os.path.isabs(each)}
    unwanted = {os.path.realpath(each) for each in current if each} - chosen
    kept = [each for i, each in enumerate(path) if each and (i >= front or os.path.realpath(each) not in unwanted)]
    gone = {os.path.realpath(each) for each in path} - {os.path.realpath(each) for each in kept}
    return kept + [each for each in dict.fromkeys(last) if os.path.realpath(each) in gone]


def cleaned_variable() -> str:
    """Return ``PYTHONPATH`` for other processes: absolute entries, without relative ones of the current folder."""
    current, entries = current_folder(), filter(None, _variable().split(os.pathsep))
    kept = [each for each in entries if os.path.isabs(each) or (current and os.path.realpath(each) != current)]
    return os.pathsep.join(map(os.path.abspath, kept))


def current_folder() -> str:
    """Return the current folder; an empty text if it was deleted."""
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return ""


def clean_command() -> None:
    """Take the current folder from the import path of this process, and of all that it starts."""
    sys.path[:] = cleaned_path(sys.path, (current_folder(),), last=(PACKAGE_ROOT,))
    variable = cleaned_variable()
    if variable:
        os.environ[VARIABLE] = variable
    else:
        os.environ.pop(VARIABLE, None)
    os.environ[SAFE_PATH] = "1"


def _variable() -> str:
    return "" if sys.flags.ignore_environment else os.environ.get(VARIABLE, "")


def _is_command() -> bool:
    """Return whether this process is the command, as a script or as ``python -m gradgate``."""
    words, name = sys.orig_argv, sys.argv[0] if getattr(sys, "argv", None) else ""
    if name != "-m":
        return os.path.basename(name) in _SCRIPTS
    module = words[len(words) - len(sys.argv)]  # gradgate, -mgradgate or -Bmgradgate
    return (module.partition("m")[2] if module.startswith("-") else module) in _MODULES


if _is_command():
    clean_command()
