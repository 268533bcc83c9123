"""Commands that train nothing answer at once: they import none of the heavy libraries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.study_folder import write_study

HEAVY = {
    "torch", "transformers", "numba", "pandas", "scipy", "matplotlib", "sklearn", "datasets", "accelerate", "pyarrow",
}  # fmt: skip
# Each command with --help, in one process.
EVERY_HELP = """
import typer
from gradgate.cli import app

def show(command, path):
    for name, inner in getattr(command, "commands", {}).items():
        show(inner, (*path, name))
    try:
        root.main([*path, "--help"], standalone_mode=False)
    except SystemExit:
        pass

root = typer.main.get_command(app)
show(root, ())
"""


def imported_by(*arguments: str | Path) -> tuple[int, set[str], str]:
    """Exit code, the packages that python imported, and what it printed."""
    done = subprocess.run([sys.executable, "-X", "importtime", *map(str, arguments)], capture_output=True, text=True)
    modules = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("import time:"))
    return done.returncode, {name.partition(".")[0] for name in modules}, done.stdout + said


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", EVERY_HELP),
        ("-m", "gradgate", "--version"),
        ("-m", "gradgate", "methods"),
        ("-m", "gradgate", "tasks"),
        ("-m", "gradgate", "papers"),
        ("-c", "import gradgate; gradgate.method('fun:every=50'); dir(gradgate)"),
    ],
    ids=["every --help", "--version", "methods", "tasks", "papers", "import gradgate"],
)
def test_a_light_command_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code, packages, output = imported_by(*arguments)
    assert code == 0, output
    assert not packages & HEAVY


def test_the_status_of_a_study_imports_nothing_heavy(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", scores={"full": [0.7, 0.8]})
    (study / "runs/method-0").rename(study / "runs/full")
    code, packages, output = imported_by("-m", "gradgate", "study", "status", study)
    assert code == 0, output
    assert "2 finished" in output
    assert not packages & HEAVY


def test_the_package_has_what_it_lists() -> None:
    import gradgate

    assert set(gradgate.__all__) <= set(dir(gradgate))
    assert all(getattr(gradgate, name) is not None for name in gradgate.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Tunner'"):
        _ = gradgate.Tunner  # type: ignore[attr-defined]
