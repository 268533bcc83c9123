"""``gg.Run`` and ``gg.Study`` on folders that are finished, paused, failed, or made by an earlier version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import gradgate as gg
from gradgate.errors import RunError, UsageError
from support.contract import FOLDER
from support.study_folder import fail, pause, write_study


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the folders of an earlier version."""
    return Path(shutil.copytree(FOLDER / "folders", tmp_path / "old"))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Four finished runs, one that failed and one that is paused."""
    folder = write_study(tmp_path / "study", scores={"full": [0.70, 0.72], "gradual:every=40": [0.80, 0.82]})
    fail(folder, "full", 2, "The loss became [nan].")
    pause(folder, "gradual:every=40", 2)
    return folder


@pytest.mark.parametrize("name", ["run-method", "run-adapter"])
def test_run_holds_what_its_files_say(name: str, old: Path) -> None:
    run = gg.Run(old / name)
    scores = json.loads((old / name / "scores.json").read_text())
    assert run.path == old / name
    assert run.scores == scores
    assert run.best.step == scores["best_step"]
    assert run.best.dev == scores["dev"][run.best.metric]
    assert run.config.seed == 1
    table = run.table()
    assert list(table["split"]) == [*scores["tests"], "dev"]
    history = run.history
    lines = (old / name / "history.jsonl").read_text().splitlines()
    assert len(history) == len(lines)
    assert list(history["step"]) == [json.loads(line)["step"] for line in lines]


def test_run_of_a_study_can_be_opened(old: Path) -> None:
    folder = old / "study-crossed/runs/full/seed-0"
    run = gg.Run(folder)
    assert run.config.method.spec == "full"
    assert f"{run.best.dev:.4f}" in repr(run)


def test_run_accepts_a_path_as_text(old: Path) -> None:
    assert gg.Run(str(old / "run-method")).scores == gg.Run(old / "run-method").scores


@pytest.mark.parametrize("missing", ["scores.json", "run.json"])
def test_unfinished_run_is_refused_when_read(missing: str, old: Path) -> None:
    run = gg.Run(old / "run-method")
    (run.path / missing).unlink()
    with pytest.raises(RunError, match="run-method"):
        _ = run.scores if missing == "scores.json" else run.config
    if missing == "scores.json":
        for read in (lambda: run.best, lambda: repr(run), lambda: run.table(), lambda: run.report()):
            with pytest.raises(RunError):
                read()


@pytest.mark.parametrize("read", [lambda study: study.counts, repr, lambda study: study.runs()])
def test_missing_study_is_refused_when_read(read: Callable[[gg.Study], object], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"study\.json"):
        read(gg.Study(tmp_path / "nowhere"))


def test_broken_scores_name_their_file(old: Path) -> None:
    (old / "run-method/scores.json").write_text("{")
    with pytest.raises(RunError, match=r"run-method/scores\.json"):
        _ = gg.Run(old / "run-method").scores


def test_study_counts_finished_failed_and_paused(study: Path) -> None:
    counts = gg.Study(study).counts
    assert (counts.finished, counts.failed, counts.paused) == (4, 1, 1)
    assert "4 of 6 runs finished" in repr(gg.Study(study))


def test_best_arm_has_the_highest_mean(study: Path) -> None:
    assert gg.Study(study).best == "gradual:every=40"


def test_study_without_finished_runs_has_no_best(tmp_path: Path) -> None:
    study = gg.Study(write_study(tmp_path / "study"))
    assert study.best is None
    assert study.counts.finished == 0
    assert "0 of 6 runs finished" in repr(study)
    assert len(study.runs()) == 6


def test_runs_have_a_row_per_seed(study: Path) -> None:
    runs = gg.Study(study).runs()
    assert list(zip(runs["method"], runs["seed"], strict=True)) == [
        (method, seed) for method in ("full", "gradual:every=40") for seed in (0, 1, 2)
    ]
    assert list(runs["status"]) == ["finished", "finished", "failed", "finished", "finished", "paused"]
    assert list(runs["score"][:2]) == [0.70, 0.72]
    assert pd.isna(runs.loc[2, "score"])
    assert runs.loc[2, "error"] == "The loss became [nan]."


def test_tables_are_frames_by_name(study: Path) -> None:
    opened = gg.Study(study)
    main = opened.table()
    assert list(main["method"]) == ["full", "gradual:every=40"]
    assert opened.tables[0] == "main"
    for name in opened.tables:
        assert isinstance(opened.table(name), pd.DataFrame)
    with pytest.raises(UsageError, match=r"no table 'mainn'.*Did you mean 'main'"):
        opened.table("mainn")


@pytest.mark.parametrize(("name", "best"), [("study-budget", "freeze:layers=2"), ("study-crossed", "full")])
def test_old_study_shows_itself(name: str, best: str, old: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    study = gg.Study(old / name)
    assert study.counts.failed == 0
    assert study.best == best  # of a budget's tie, the cheapest
    assert "full" in study.answer
    html = study._repr_html_()
    assert html.startswith("<")
    assert "<script" not in html
    assert study.answer.split(":")[0] in html


def test_study_report_is_written_where_asked(study: Path, tmp_path: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    page = gg.Study(study).report(tmp_path / "pages/mine.html")
    assert page == tmp_path / "pages/mine.html"
    assert "gradual:every=40" in page.read_text()
    assert gg.Study(study).report() == study / "report.html"


def test_html_escapes_what_files_say(study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    record = json.loads((study / "study.json").read_text())
    record["task"]["name"] = "<img src=x>"
    (study / "study.json").write_text(json.dumps(record))
    assert "<img src=x>" not in gg.Study(study)._repr_html_()
