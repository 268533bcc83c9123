"""Seeds that are added to a recorded study: the numbers are those of one study of all seeds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from evidence import more_seeds, running, studies
from evidence.more_seeds import add_seeds
from evidence.running import keep, run_study
from evidence.studies import Study

_TIMES = ("cost.seconds_per_step", "cost.seconds_total", "cost.peak_memory_bytes", "seconds")
COMPARE = {
    "model": "sample",
    "task": "sample",
    "method": ["full", "full:weight_decay=0.1", "houlsby:size=8"],
    "search": ["lr=1e-4,1e-2"],
    "search_seeds": 1,
    "seeds": 2,
    "steps": 8,
    "eval_every": 4,
    "train_size": 64,
    "languages": "de",
    "threads": 1,
    "keep_model": False,
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    committed = tmp_path / "committed"
    for module, name, folder in (
        (studies, "RUNS", "runs"),
        (studies, "RESULTS", "results"),
        (running, "FIGURES", "figures"),
        (more_seeds, "FIGURES", "figures"),
    ):
        monkeypatch.setattr(module, name, committed / folder)
    monkeypatch.setattr(more_seeds, "FOLDER", committed)
    (committed / "results" / "synthetic").mkdir(parents=True)
    (committed / "runs").mkdir()
    return Study(
        name="one",
        title="",
        paper="adaptereff",
        data="synthetic",
        differs="",
        after_test_scores="one of three seeds",
        without_times=True,
        compare=COMPARE,
    )


@pytest.mark.slow
def test_the_numbers_are_those_of_one_study_of_all_seeds(study: Study, tmp_path: Path) -> None:
    run_study(study, "full", tmp_path / "two")
    keep(study, tmp_path / "two")
    three = study.model_copy(update={"compare": {**COMPARE, "seeds": 3}})
    run_study(three, "full", tmp_path / "three")
    add_seeds(three, tmp_path / "added")
    for file in (three.runs, three.curves, three.search, three.results):
        name = file.relative_to(tmp_path / "committed")
        if file != three.search:
            assert len(_rows(tmp_path / "added" / name)) > len(_rows(file)) > 0
        assert _rows(tmp_path / "added" / name) == _rows(tmp_path / "three" / name)
    keep(three, tmp_path / "added")
    with pytest.raises(ValueError, match="No seed of one is lacking"):
        add_seeds(three, tmp_path / "added")


def test_a_study_without_a_committed_search_takes_no_more_seeds(study: Study, tmp_path: Path) -> None:
    study.runs.write_text("train_size,method,adapter,seed,status,score\n64,full,,0,finished,0.5\n")
    with pytest.raises(ValueError, match="one cannot take more seeds: run it anew"):
        add_seeds(study, tmp_path / "added")


def _rows(file: Path) -> list[dict[str, Any]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [{name: value for name, value in row.items() if name not in _TIMES} for row in csv.DictReader(stream)]
