"""The grid of a study: its runs, their folders, and what may be added later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import RunError, UsageError
from gradgate.files import portable_name
from gradgate.runs.records import ModelRecord, TaskRecord, to_json
from gradgate.settings.run import make_config
from gradgate.study.grid import Grid
from support.arms import arms, names

TASK = TaskRecord(
    name="moods",
    kind="classification",
    metric="accuracy",
    labels=("bad", "good"),
    fingerprint="abc",
    rows={"train": 80},
)


def written(path: Path, methods: list[str], seeds: list[int], **settings: Any) -> Grid:
    grid = Grid.of(path, make_config(**settings), arms(methods), seeds)
    grid.write(TASK, ModelRecord("tiny", 1), {})
    return grid


def test_runs_go_seed_by_seed(tmp_path: Path) -> None:
    runs = Grid.of(tmp_path, make_config(lr=0.5), arms(["full", "gradual:every=5"]), [3, 0]).runs()
    assert [run.label for run in runs] == [
        "full seed 3",
        "gradual:every=5 seed 3",
        "full seed 0",
        "gradual:every=5 seed 0",
    ]
    assert {run.config.lr for run in runs} == {0.5}
    assert runs[1].folder.path == tmp_path / "runs/gradual-every=5/seed-3"


def test_a_later_call_only_adds_and_keeps_the_reference(tmp_path: Path) -> None:
    written(tmp_path, ["full", "head"], [0, 1])
    grid = written(tmp_path, ["graddrop", "full"], [5, 1])
    assert names(grid.methods) == ["full", "head", "graddrop"]
    assert grid.seeds == (0, 1, 5)
    record = json.loads((tmp_path / "study.json").read_text())
    assert record["methods"] == ["full", "head", "graddrop"]
    assert record["task"] == to_json(TASK)


def test_one_method_in_two_spellings_runs_once_under_the_first(tmp_path: Path) -> None:
    methods = arms(["graddrop", "graddrop:p=0.2", "graddrop: p=0.20", "graddrop:p=0.3"])
    grid = Grid.of(tmp_path, make_config(), methods, [0, 0])
    assert names(grid.methods) == ["graddrop", "graddrop:p=0.3"]
    assert grid.seeds == (0,)


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    written(tmp_path, ["full"], [0], lr=0.1)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(
        RunError, match=r"other settings \(lr: 0\.1 there, 0\.2 here\)\. Methods, adapters and seeds can be added"
    ):
        Grid.of(tmp_path, make_config(lr=0.2), arms(["full"]), [0])
    assert (tmp_path / "study.json").read_bytes() == before


def test_proofs_and_extras_may_change(tmp_path: Path) -> None:
    written(tmp_path, ["full"], [0])
    assert written(tmp_path, ["full"], [0], audit=True, keep_model=False).base.audit


def test_other_data_is_refused(tmp_path: Path) -> None:
    grid = written(tmp_path, ["full"], [0])
    with pytest.raises(RunError, match=r"started on other data: the files of task 'moods' have changed"):
        grid.write(replace(TASK, fingerprint="def"), ModelRecord("tiny", 1), {})


@pytest.mark.parametrize(("methods", "seeds"), [([], [0]), (["full"], [])])
def test_a_grid_without_runs_is_refused(methods: list[str], seeds: list[int], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"at least one method .* and one seed"):
        Grid.of(tmp_path, make_config(), arms(methods), seeds)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(RunError, match="not empty and holds no study"):
        Grid.of(tmp_path, make_config(), arms(["full"]), [0])


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "damaged: Expecting"), ("{}", "it has no task, methods, seeds, settings")]
)
def test_a_damaged_study_file_is_named(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(RunError, match=rf"study\.json is damaged.*{reason}|{reason}"):
        Grid.of(tmp_path, make_config(), arms(["full"]), [0])


OPTION = "[a-z_]{1,9}=[a-z0-9./]{1,30}"
METHOD = st.from_regex(rf"[a-z]{{1,9}}(-[a-z]{{1,9}})?(:{OPTION}(,{OPTION})?)?", fullmatch=True)


@given(st.lists(METHOD, min_size=2, max_size=2, unique=True))
def test_folder_names_are_plain_short_and_unlike(methods: list[str]) -> None:
    names = [portable_name(method) for method in methods]
    assert names[0] != names[1]
    assert all(0 < len(name) <= 60 and not {"/", ":", ","} & set(name) for name in names)
