"""What ``train`` and ``compare`` return, and what it shows of itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import RunError, UsageError
from gradgate.report.sections.scores import ScoresSection
from support.trained_here import trained_here

SCRIPT = """
import sys
import gradgate as gg

study = gg.compare(sys.argv[1], sys.argv[2], ["full", "head"], seeds=1, steps=2, max_length=8, quiet=True, out="study")
print(study.counts.finished)
"""


@pytest.fixture(scope="module")
def run(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> gg.Run:
    folder = tmp_path_factory.mktemp("api")
    given = {**settings, "steps": 4}
    return gg.train(method=gg.Freeze(layers=1), out=folder / "<b>run", quiet=True, **given)


def test_a_run_says_what_was_best(run: gg.Run) -> None:
    assert run.best.metric == "accuracy"
    assert run.best.dev == run.scores["dev"]["accuracy"]
    assert run.config.method.spec == "freeze:layers=1"
    assert len(repr(run).splitlines()) == 2
    assert f"accuracy {run.scores['tests']['test']['accuracy']:.4f} on test" in repr(run)


def test_a_run_is_data_frames(run: gg.Run) -> None:
    table = run.table()
    assert list(table["split"]) == ["test", "dev"]
    assert table.loc[1, "accuracy"] == run.best.dev
    assert list(run.history[run.history["split"] == "dev"]["step"]) == [4]
    assert {"main", "metrics"} <= set(run.tables)
    assert len(run.table("main")) == 1


def test_what_is_shown_is_escaped_and_has_no_script(run: gg.Run) -> None:
    shown = run._repr_html_()
    assert "&lt;b&gt;run" in shown
    assert "<b>run" not in shown
    assert "<script" not in shown
    # The default page leaves out the losses, which only papers need.
    assert shown.count("data:image/svg+xml;base64,") == len(run.figures) - 1


def test_a_run_is_opened_again_and_reports(run: gg.Run, tmp_path: Path, draw_only: Callable[..., None]) -> None:
    draw_only(ScoresSection)
    again = gg.Run(run.path)
    assert again.scores == run.scores
    page = again.report(tmp_path / "mine.html")
    assert page == tmp_path / "mine.html"
    assert (tmp_path / "tables/metrics.csv").is_file()
    assert again.report() == run.path / "report.html"


def test_what_is_no_run_is_said_when_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        _ = gg.Run(tmp_path).scores
    with pytest.raises(RunError, match=r"study\.json"):
        repr(gg.Study(tmp_path))


def test_without_pandas_it_says_what_to_install(run: gg.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas.*as CSV files without it"):
        run.table()


def test_a_study_is_data_frames_and_shows_itself(
    settings: dict[str, Any], tmp_path: Path, draw_only: Callable[..., None]
) -> None:
    draw_only(ScoresSection)
    with trained_here():
        study = gg.compare(method=["full", gg.Head()], seeds=[5], quiet=True, out=tmp_path / "study", **settings)
    assert (study.counts.finished, study.counts.failed) == (2, 0)
    assert study.best in ("full", "head")
    assert list(study.table()["method"]) == ["full", "head"]
    runs = study.runs()
    assert list(runs["seed"]) == [5, 5]
    assert runs.loc[0, "test.accuracy"] == runs.loc[0, "score"]
    assert "2 of 2 runs finished" in repr(study)
    assert study.best in study._repr_html_()
    assert (study.path / "report.html").is_file()
    with pytest.raises(UsageError, match=r"no table 'mian'. Did you mean 'main'"):
        study.table("mian")


def test_a_method_of_a_notebook_is_refused_before_anything_runs(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradgate.study.workers.process.registered_modules", lambda: ("__main__",))
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(UsageError, match=r"Put the class and gradgate\.register into a file"):
        gg.compare(method="full", out=tmp_path / "study", **settings)
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_real_script_without_a_guard(tiny_model: Path, tiny_task: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "script.py", str(tiny_model), str(tiny_task)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
