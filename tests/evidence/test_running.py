"""Making new numbers the committed ones: all of them, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence import running, studies
from evidence.studies import Study


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study that was recorded with a search, and ran again without one."""
    monkeypatch.setattr(studies, "RUNS", tmp_path / "committed")
    monkeypatch.setattr(running, "FIGURES", tmp_path / "figures")
    found = Study(name="one", title="", data="real", differs="", compare={}, after_test_scores="more steps")
    for file, text in ((found.runs, "old"), (found.search, "old"), (tmp_path / "out" / "runs" / "one.csv", "new")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return found


def test_files_that_a_study_no_longer_has_go(study: Study, tmp_path: Path) -> None:
    drawn = tmp_path / "out" / "one" / "figures" / "scores.svg"
    drawn.parent.mkdir(parents=True)
    drawn.write_text("<svg/>")
    running.keep(study, tmp_path / "out")
    assert (study.runs.read_text(), study.search.exists()) == ("new", False)
    assert [file.name for file in (tmp_path / "figures" / "one").iterdir()] == ["scores.svg"]


def test_without_one_of_its_figures_nothing_is_replaced(study: Study, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"scores\.svg"):
        running.keep(study, tmp_path / "out")
    assert (study.runs.read_text(), study.search.read_text()) == ("old", "old")


@pytest.mark.parametrize(("steps", "seed"), [("400", "0"), ("200", "1")])
def test_other_runs_than_those_committed_are_kept_only_if_the_study_says_so(
    steps: str, seed: str, study: Study, tmp_path: Path
) -> None:
    line = "{},full,,{},{},0.7,finished\n"
    head = "train_size,method,adapter,seed,cost.steps,score,status\n"
    study.runs.write_text(head + line.format("", "0", "200"))
    (tmp_path / "out" / "runs" / "one.csv").write_text(head + line.format("", seed, steps))
    with pytest.raises(ValueError, match="Say what changed in after_test_scores"):
        running.keep(study.model_copy(update={"after_test_scores": ""}), tmp_path / "out")
    assert study.runs.read_text() == head + line.format("", "0", "200")
