"""Wrong names and damaged folders given to `gradgate papers` and `gradgate reproduce`: each ends with a message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Command
from support.crossed import some_fast
from support.study_folder import write_study

RUN = {"labels": ["XLM-R-base", "NER de", "full", "baseline"], "method": "full", "adapter": None, "study": "ner"}
RECORD: dict[str, Any] = {"preset": "elsa-table4", "scale": "sample", "runs": [RUN], "left_out": {}, "notes": []}


def reproduction(folder: Path, **changes: Any) -> Path:
    """A reproduction of one finished run, with some entries of its record changed."""
    write_study(folder / "ner", ("full",), (0,), {"full": [0.9]})
    (folder / "reproduction.json").write_text(json.dumps(RECORD | changes))
    return folder


def run_with(**changes: Any) -> list[dict[str, Any]]:
    """The runs of a record, with some entries of the one run changed."""
    return [RUN | changes]


def text(content: str | bytes) -> Callable[[Path], Path]:
    """A reproduction with this content in its record."""

    def write(folder: Path) -> Path:
        data = content if isinstance(content, bytes) else content.encode()
        (reproduction(folder) / "reproduction.json").write_bytes(data)
        return folder

    return write


def changed(**changes: Any) -> Callable[[Path], Path]:
    """A reproduction with these entries in its record."""
    return lambda folder: reproduction(folder, **changes)


def without_study(folder: Path) -> Path:
    (reproduction(folder) / "ner" / "study.json").unlink()
    return folder


def a_file(folder: Path) -> Path:
    file = folder / "study.txt"
    file.write_text("no study")
    return file


DAMAGED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder that is not there": (lambda folder: folder / "none", "There is no folder"),
    "a file": (a_file, "holds no study"),
    "an empty folder": (lambda folder: folder, "holds no study"),
    "the name of a preset": (lambda folder: Path("elsa-table4"), "is a preset, not a study"),
    "the name of a paper": (lambda folder: Path("elsa"), "papers --paper elsa"),
    "an empty record": (text(""), "reproduction.json is damaged"),
    "a record that is no text": (text(b"\xff\xfe\x00"), "reproduction.json is damaged"),
    "a record that is a list": (text("[]"), "reproduction.json is damaged"),
    "a very deep record": (text("[" * 5000 + "]" * 5000), "reproduction.json is damaged"),
    "a record without entries": (text("{}"), "has no preset, scale, runs, left_out, notes"),
    "an unknown preset": (changed(preset="elsa-table99"), "no preset 'elsa-table99'"),
    "a preset that is a number": (changed(preset=4), "preset: expected text, got 4"),
    "an unknown scale": (changed(scale="huge"), "'full' or 'sample', got 'huge'"),
    "runs that are no list": (changed(runs={"a": 1}), "runs: expected a list"),
    "a run without a method": (changed(runs=[{"labels": RUN["labels"]}]), "runs.0.method is missing"),
    "labels of another number": (changed(runs=run_with(labels=["a"])), "runs.0.labels.1 is missing"),
    "a study outside of the folder": (changed(runs=run_with(study="../ner")), "runs.0.study"),
    "a study at the root": (changed(runs=run_with(study="/etc")), "runs.0.study"),
    "a study that is the folder itself": (changed(runs=run_with(study="..")), "runs.0.study"),
    "a method that the study lacks": (changed(runs=run_with(method="head")), "has no runs of head"),
    "an unknown method": (changed(runs=run_with(method="fulll")), "has no runs of fulll"),
    "a study that is gone": (without_study, "holds no study"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_papers_names_what_is_wrong_with_a_folder(case: str, command: Command, tmp_path: Path) -> None:
    make, message = DAMAGED[case]
    code, _, err = command("papers", str(make(tmp_path)))
    assert code in (1, 2)
    assert message in " ".join(err.split())
    assert "Traceback" not in err


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such preset": (("elsa-tabel4",), "Did you mean 'elsa-table4'"),
    "an empty preset": (("",), "is empty"),
    "a path as a preset": (("../elsa-table4",), "no preset '../elsa-table4'"),
    "a preset with control characters": (("elsa\x1b[31m",), "no preset 'elsa\\x1b[31m'"),
    "a scale in capitals": (("elsa-table4", "--scale", "Sample"), "expected full or sample"),
    "an empty scale": (("elsa-table4", "--scale", ""), "--scale is empty"),
    "a model for the sample": (("elsa-table4", "--scale", "sample", "--model", "x"), "leave --model and --data out"),
    "seeds that are no numbers": (("elsa-table4", "--scale", "sample", "--seeds", "a,b"), "--seeds"),
    "no such label of a model": (("elsa-table4", "--model", "XLM-R-bas=x"), "no model 'XLM-R-bas'"),
    "an empty model": (("elsa-table4", "--model", ""), "--model is empty"),
    "an empty model of a label": (("elsa-table4", "--model", "XLM-R-base="), "--model 'XLM-R-base='"),
    "a model given twice": (("elsa-table4", "--model", "a", "--model", "XLM-R-base=b"), "gives XLM-R-base twice"),
    "a folder of data that is not there": (("elsa-table4", "--model", "sample", "--data", "no"), "no is not a folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_reproduce_refuses_before_anything_starts(
    case: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, message = WRONG[case]
    code, _, err = command("reproduce", *words)
    assert code in (1, 2)
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())


@some_fast(
    "case", ["an empty record", "a study outside of the folder", "an unknown scale"], ["a study outside of the folder"]
)
def test_a_damaged_reproduction_is_not_overwritten(case: str, command: Command, tmp_path: Path) -> None:
    make, message = DAMAGED[case]
    folder = make(tmp_path)
    before = (folder / "reproduction.json").read_bytes()
    code, _, err = command("reproduce", "elsa-table4", "--scale", "sample", "--out", str(folder))
    assert (code, message in " ".join(err.split())) == (1, True)
    assert (folder / "reproduction.json").read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}", '{"metric": "f1"}', '{"tests": 3}', "[[[["])
def test_a_damaged_run_leaves_the_others(content: str, command: Command, tmp_path: Path) -> None:
    scores = {"full": [0.6, 0.61, 0.62], "graddrop": [0.7, 0.71, 0.73]}
    write_study(tmp_path, tuple(scores), scores=scores)
    next(tmp_path.glob("runs/method-1/seed-2/scores.json")).write_text(content)
    code, out, err = command("papers", str(tmp_path), "--paper", "graddrop")
    assert (code, "2 seeds" in out) == (0, True), err
