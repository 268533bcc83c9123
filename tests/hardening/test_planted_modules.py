"""Files in the current, study and run folder that are named like modules: no process of gradgate imports them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gradgate
from gradgate import import_path
from gradgate.import_path import cleaned_path, cleaned_variable
from gradgate.methods import Full
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.settings.arms.arm import Arm
from gradgate.settings.run import make_config
from gradgate.study.grid import Grid
from support.crossed import each_once

SOURCE = str(Path(gradgate.__file__).parents[1])
STANDARD = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120
SCRIPT = str(Path(sys.executable).with_name("gradgate"))
OTHERS = (
    "torch", "numpy", "yaml", "sitecustomize", "usercustomize", "typing_extensions", "transformers", "datasets",
    "sklearn", "pandas", "pyarrow", "optuna", "sqlalchemy", "alembic", "filelock", "pydantic", "typer", "click", "rich",
    "safetensors", "tokenizers", "accelerate", "peft", "matplotlib", "jinja2", "xxhash", "scipy", "numba", "tensorflow",
    "jax", "tqdm", "psutil", "wandb", "evil", "__future__",
)  # fmt: skip


def plant(folder: Path, marker: Path, without: Sequence[str] = ()) -> None:
    """Puts a file for each module of Python and of the packages in use there, and a package that declares a method."""
    for name in {*sys.stdlib_module_names, *OTHERS} - set(without):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r} + ' ')\nraise SystemExit(9)\n")
    info = folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gradgate.methods]\nevil = evil:Evil\n")


def run(words: Sequence[str], folder: Path, path: str = SOURCE) -> str:
    """Runs a program in a folder, and returns what went wrong."""
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or done.stdout


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The modules that the interpreter and the script that pip writes import before the first line of the package."""
    folder = tmp_path_factory.mktemp("early")
    (folder / "first.py").write_text("import re, sys; print(*sys.modules)")
    found = subprocess.run([sys.executable, "-m", "first"], cwd=folder, capture_output=True, text=True)
    return ("site", "sitecustomize", "usercustomize", *found.stdout.split())


@pytest.mark.parametrize(
    ("starter", "path"),
    [
        ((SCRIPT,), SOURCE),
        ((sys.executable, "-m", "gradgate"), SOURCE),
        pytest.param((sys.executable, "-Bmgradgate"), SOURCE, marks=pytest.mark.slow),
        pytest.param((SCRIPT,), f"{SOURCE}{os.pathsep}", marks=pytest.mark.slow),
        ((SCRIPT,), f".{os.pathsep}{SOURCE}"),
    ],
    ids=["the script", "a module", "flags in one word", "an empty entry", "a dot"],
)
def test_commands_import_nothing_here(
    tmp_path: Path, early: tuple[str, ...], starter: tuple[str, ...], path: str
) -> None:
    marker, here = tmp_path / "ran", tmp_path / "here"
    here.mkdir()
    plant(here, marker, without=() if starter == (SCRIPT,) and path == SOURCE else early)
    assert not run([*starter, "methods", "--json"], here, path)
    assert not marker.exists(), marker.read_text()


@pytest.mark.slow
def test_processes_of_runs_import_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    marker, study = tmp_path / "ran", tmp_path / "study"
    base = make_config(**settings | {"steps": 1, "keep_model": False})
    grid = Grid.of(study, base, [Arm(Full())], [0])
    task = TaskRecord(name="toy", kind="classification", metric="macro_f1", fingerprint="f00d", rows={})
    grid.write(task, ModelRecord(name="toy", parameters=1), {})
    own = grid.folder_of(grid.arms[0], 0).path
    own.parent.mkdir(parents=True)
    plant(study, marker)
    plant(own.parent, marker)
    said = run([SCRIPT, "worker", ".", "-q"], study)
    assert not marker.exists(), marker.read_text()
    assert not said
    assert (own / "scores.json").is_file()


PROGRAM = """
import multiprocessing
import sys
from pathlib import Path

from gradgate.study.workers import starting

import my_methods

if __name__ == "__main__":
    starting._HAS_SAFE_PATH = SAFE
    for name in ("colorsys", "selectors"):
        Path(f"{name}.py").write_text("open('ran', 'a').write(__name__)")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["colorsys"])
    with starting.safely_started(MODULES), starting.main_left_alone(MODULES):
        child = context.Process(target=exec, args=("import sys, colorsys, IMPORTS; sys.exit(WRONG)",))
        child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def run_program(starter: str, folder: Path, **words: object) -> str:
    """Runs a program that starts a process as a study does; the words are what the program has in their places."""
    (folder / "my_methods.py").touch()
    code = PROGRAM
    for name, value in words.items():
        code = code.replace(name.upper(), str(value))
    (folder / "program.py").write_text(code)
    given = {"-c": ["-c", code], "-m": ["-m", "program"], "script": ["program.py"]}[starter]
    return run([sys.executable, *given], folder)


PROGRAMS: list[tuple[str, tuple[str, ...]]] = [
    ("-c", ()),
    ("-c", ("my_methods",)),
    ("-m", ()),
    ("-m", ("my_methods",)),
    ("-m", ("__main__",)),
]


@each_once("safe", [True, False], "program", PROGRAMS)
def test_children_of_programs_import_nothing(tmp_path: Path, safe: bool, program: tuple[str, tuple[str, ...]]) -> None:
    starter, modules = program
    imports = "my_methods" if modules else "os"
    wrong = f"'' in sys.path or {str(tmp_path)!r} in sys.path[:{-1 if modules else None}]"
    assert not run_program(starter, tmp_path, safe=safe, modules=modules, imports=imports, wrong=wrong)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_the_folder_of_a_script_stays(tmp_path: Path) -> None:
    wrong = f"{str(tmp_path)!r} not in sys.path"
    assert not run_program("script", tmp_path, safe=True, modules=(), imports="my_methods", wrong=wrong)


@pytest.mark.parametrize(
    ("path", "variable", "expected"),
    [
        (["", STANDARD], "", [STANDARD]),
        (["/here", STANDARD, "/site"], "", [STANDARD, "/site"]),
        (["/here/", STANDARD], "", [STANDARD]),
        (["/here", "/other", STANDARD], ".:/other", ["/other", STANDARD]),
        (["/here", STANDARD], "/here", ["/here", STANDARD]),
        (["/here/src", STANDARD], "src", ["/here/src", STANDARD]),
        ([STANDARD, "/here"], "", [STANDARD, "/here"]),
        (["/script", STANDARD], "", ["/script", STANDARD]),
    ],
)
def test_which_folders_are_left_out(
    monkeypatch: pytest.MonkeyPatch, path: list[str], variable: str, expected: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", variable)
    assert cleaned_path(path, ("/here",)) == expected
    left_out = "/here" in [each.rstrip("/") for each in path] and "/here" not in expected
    assert cleaned_path(path, ("/here",), last=("/here",)) == expected + ["/here"] * left_out


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("", ""), (":", ""), (":/a", "/a"), (".:/a", "/a"), ("./:/a:/b:", "/a:/b"), ("src:/a", "{here}/src:/a")],
)
def test_the_variable_of_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", variable)
    assert cleaned_variable() == expected.format(here=tmp_path)


@pytest.mark.parametrize(
    ("first", "words", "is_command"),
    [
        ("/usr/bin/gradgate", ["python", "/usr/bin/gradgate", "train"], True),
        ("-m", ["python", "-m", "gradgate", "train"], True),
        ("-m", ["python", "-X", "dev", "-um", "gradgate.__main__", "train"], True),
        ("-m", ["python", "-Bmgradgate", "train"], True),
        ("-m", ["python", "-m", "pytest", "gradgate"], False),
        ("train.py", ["python", "train.py", "gradgate"], False),
        ("-c", ["python", "-c", "import gradgate", "train"], False),
        ("", ["python"], False),
    ],
)
def test_what_is_the_command(monkeypatch: pytest.MonkeyPatch, first: str, words: list[str], is_command: bool) -> None:
    monkeypatch.setattr(sys, "argv", [first, *words[-1:]] if len(words) > 1 else [first])
    monkeypatch.setattr(sys, "orig_argv", words)
    assert import_path._is_command() is is_command


def test_a_ray_task_drops_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradgate.study.workers import ray

    monkeypatch.setattr(sys, "path", ["/here", STANDARD])
    seen: list[list[str]] = []
    monkeypatch.setattr(ray, "train_one", lambda *_: seen.append(list(sys.path)))
    task = ray._task("/here", [STANDARD])
    with pytest.raises((pickle.PicklingError, AttributeError)):  # so Ray sends its code, and imports nothing for it
        pickle.dumps(task)
    task("study", None, "cache", False)
    assert seen == [[STANDARD]]
