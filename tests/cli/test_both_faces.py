"""Errors name parameters in Python, and flags on the command line."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import gradgate
from gradgate.cli.wording import flag
from gradgate.console import errors
from gradgate.errors import GradgateError, GradgateWarning
from gradgate.papers.planning import ReproduceRequest
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import check_ending
from gradgate.runs.progress import Bar
from support.command_line import Command

FOLDERS = Path(__file__).parents[1] / "contract/folders"
TABLE = "text,label\n" + "".join(f"row {number},{number % 2}\n" for number in range(40))

OF_TRAINING: dict[str, tuple[dict[str, Any], str, str]] = {
    "tasks: language": ({"task": "xnli", "source": "xx"}, "source=xx: the task", "--source xx: the task"),
    "tasks: names": ({"task": "cola+"}, "task=cola+: expected names", "--task cola+: expected names"),
    "tasks: folder": ({"task": "cola", "data": "./no"}, "data=no is not", "--data no is not"),
    "tasks: columns": ({"task": "t.csv", "label": "y"}, "Name one with label=", "Name one with --label"),
    "tasks: size": ({"task": "t.csv", "train_size": 99}, "train_size=99 is not", "--train-size 99 is not"),
    "settings: number": ({"batch_size": 0}, "batch_size=0: expected", "--batch-size 0: expected"),
    "settings: stack": ({"language_adapters": "x"}, "there is no adapter=.", "there is no --adapter."),
    "settings: parallel": (
        {"language_adapters": "x", "adapter": "par_bn"},
        "language_adapters=x cannot be combined with adapter=par_bn",
        "--language-adapters x cannot be combined with --adapter par_bn",
    ),
    "adapters: place": (
        {"language_adapters": "./no/{language}", "adapter": "pfeiffer"},
        "language_adapters=./no/{language}: there is",
        "--language-adapters ./no/{language}: there is",
    ),
    "training: processes": ({"fsdp": True}, "fsdp=True shards", "--fsdp shards"),
    "training: precision": (
        {"task": "t.csv", "precision": "fp16", "device": "cpu"},
        "precision='fp16'",
        "--precision 'fp16'",
    ),
    "training: positions": ({"task": "t.csv", "max_length": 100_000}, "Lower max_length=.", "Lower --max-length."),
    "training: generation": ({"packing": True}, "packing=: these", "--packing: these"),
    "runs: folder": ({"out": "filled"}, "Pass another out=.", "Pass another --out."),
}

OF_COMPARISON: dict[str, tuple[dict[str, Any], str, str]] = {
    "study: seeds": ({"seeds": "99999999"}, "seeds=", "--seeds"),
    "study: folder": ({"out": "filled"}, "Pass another out=.", "Pass another --out."),
    "study: search": (
        {"budget": 0.5, "search": "lr=1e-3,1e-4", "search_seeds": 2},
        "Leave search_seeds=2 out",
        "Leave --search-seeds 2 out",
    ),
    "study: sweep": ({"sweep": "nosuch"}, "given with method=.", "given with --method."),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE)
    Path("filled").mkdir()
    Path("filled/letter.txt").write_text("not a run")


@pytest.mark.parametrize("case", OF_TRAINING)
def test_training_names_parameters_or_flags(case: str, command: Command) -> None:
    settings, named, flagged = OF_TRAINING[case]
    settings = {"model": "sample", "task": "sample", "out": "run", "steps": 1} | settings
    with pytest.raises(GradgateError) as raised:
        gradgate.train(**settings, quiet=True)
    assert named in str(raised.value)
    said = command("train", *words(settings))
    assert (said.code, flagged in said.err) == (raised.value.exit_code, True)


@pytest.mark.parametrize("case", OF_COMPARISON)
def test_comparisons_name_parameters_or_flags(case: str, command: Command) -> None:
    settings, named, flagged = OF_COMPARISON[case]
    settings = {"method": "full", "model": "sample", "task": "sample", "out": "study", "steps": 1} | settings
    with pytest.raises(GradgateError) as raised:
        gradgate.compare(**settings, quiet=True)
    assert named in str(raised.value)
    assert flagged in command("compare", *words(settings)).err


def reproduced(scale: str, models: list[str], data: Path | None) -> Any:
    return ReproduceRequest("elsa-table4", scale, None, models, data, False, {}).plan()


@pytest.mark.parametrize(
    ("scale", "models", "data", "named", "flagged"),
    [
        ("half", [], None, "scale='half'", "--scale 'half'"),
        ("sample", ["x"], None, "leave model= and data= out", "leave --model and --data out"),
        ("full", ["nosuch=x"], None, "model=nosuch=x: ", "--model nosuch=x: "),
        ("full", ["sample"], Path("no"), "data=no is not", "--data no is not"),
    ],
)
def test_reproductions_name_parameters_or_flags(
    scale: str, models: list[str], data: Path | None, named: str, flagged: str, command: Command
) -> None:
    with pytest.raises(GradgateError) as raised:
        reproduced(scale, models, data)
    assert named in str(raised.value)
    given = [word for model in models for word in ("--model", model)]
    given += [] if data is None else ["--data", str(data)]
    assert flagged in command("reproduce", "elsa-table4", "--scale", scale, *given).err


RUN = FOLDERS / "run-method"


def test_finished_runs_name_parameters_or_flags(command: Command) -> None:
    with pytest.raises(GradgateError, match=r"model has been removed\. .* another out=\.$"):
        RunFolder(RUN).require_finished()
    assert "train again with another --out." in command("evaluate", str(RUN)).err
    with pytest.raises(GradgateError, match=r"^out=p\.txt: expected a file"):
        check_ending(Path("p.txt"))
    Path("rows.txt").write_text("x\n")
    shutil.copytree(RUN, "run")
    Path("run/model").mkdir()
    assert "--out p.txt: expected a file" in command("predict", "run", "-f", "rows.txt", "-o", "p.txt").err


def test_analyses_name_parameters_or_flags(command: Command) -> None:
    said = command("analyze", "fisher", str(RUN))
    assert "train with --track 'fisher:every=50,batches=8'" in said.err
    said = command("layers", "sample", "--select", "embeddings[3:]", "--as", "regex")
    assert "use --as 'axolotl'" in said.err


def test_notes_of_a_command_name_flags(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*settings: object, **options: object) -> None:
        with Bar(errors) as bar:
            bar.note("Raise max_length= to keep them")
        raise GradgateError("ends here")

    monkeypatch.setattr("gradgate.cli.runs.train_in", train)
    assert "Raise --max-length to keep them" in command("train").err
    assert errors.worded("max_length=") == "max_length="


def words(settings: dict[str, Any]) -> list[str]:
    """Return settings as the flags of a command."""
    given = []
    for name, value in settings.items():
        given += [flag(name)] if value is True else [flag(name), str(value)]
    return given


def test_warnings_are_words_without_a_place_in_the_code(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*settings: object, **options: object) -> None:
        warnings.warn("Raise max_length= to keep them", GradgateWarning, stacklevel=1)
        warnings.warn("that of another package", RuntimeWarning, stacklevel=1)
        raise GradgateError("ends here")

    monkeypatch.setattr("gradgate.cli.runs.train_in", train)
    with pytest.warns(RuntimeWarning, match="that of another package"):
        said = command("train").err
    assert said == "Warning: Raise --max-length to keep them\ngradgate: ends here\n"
