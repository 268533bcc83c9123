"""The report of a study folder: its files, the same for equal studies, whatever is odd or damaged in the folder."""

from __future__ import annotations

import json

import matplotlib as mpl
import numpy as np
import pytest

from gradgate.errors import RunError
from gradgate.report import write_report
from support.study_folder import fail, write_study
from support.written_report import printed, report, rows

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL}


def test_every_file_is_written_and_named(plain):
    folder, written, _ = plain
    assert written.html == folder / "report.html"
    expected = {
        f"{table}.{kind}"
        for table in (
            "main",
            "verdicts",
            "statistics",
            "seeds",
            "metrics",
            "evaluations",
            "curves",
            "losses",
            "timeline",
        )
        for kind in ("csv", "md", "tex")
    }
    assert {path.name for path in written.tables} == expected
    figures = {
        f"{name}.{kind}"
        for name in ("scores", "cost", "curves", "losses", "evaluations", "timeline")
        for kind in ("svg", "pdf")
    }
    assert {path.name for path in written.figures} == figures
    assert all(path.read_bytes().startswith(b"%PDF") for path in written.figures if path.suffix == ".pdf")
    assert all(path.is_file() for path in (written.html, *written.tables, *written.figures))


def test_equal_studies_give_equal_bytes_and_matplotlib_is_left_alone(plain, tmp_path):
    before = dict(mpl.rcParams)
    _, first, _ = plain
    second, _ = report(tmp_path, scores=SCORES)
    for here, there in zip((first.html, *first.figures), (second.html, *second.figures), strict=True):
        assert here.read_bytes() == there.read_bytes()
    assert dict(mpl.rcParams) == before


@pytest.mark.usefixtures("no_figures")
def test_every_run_is_in_the_table_of_seeds(tmp_path):
    write_study(tmp_path, scores={"full": FULL[:1]})
    fail(tmp_path, "full", 1, "too hot")
    write_report(tmp_path)
    found = {(row["method"], row["seed"]): row for row in rows(tmp_path, "seeds")}
    assert len(found) == 6
    assert (found["full", "0"]["status"], float(found["full", "0"]["test_score"])) == ("finished", 0.68)
    assert (found["full", "1"]["status"], found["full", "1"]["error"]) == ("failed", "NonFiniteError: too hot")
    assert found["gradual:every=40", "2"]["status"] == "missing"


@pytest.mark.usefixtures("no_figures")
def test_several_test_splits_get_a_table_with_their_average(tmp_path):
    report(tmp_path, scores=SCORES, tests=("en", "de", "zh"))
    found = {(row["method"], row["split"]): float(row["mean"]) for row in rows(tmp_path, "splits")}
    assert found["full", "de"] == pytest.approx(0.6)
    assert found["full", "average"] == pytest.approx(0.6)
    assert found["gradual:every=40", "zh"] == pytest.approx(np.mean(GRADUAL) - 0.2)


@pytest.mark.parametrize(
    "study",
    [
        {"methods": ("full",), "seeds": (0,), "scores": {"full": [0.7]}, "tests": ()},
        {"scores": {"gradual:every=40": [0.0, 0.6]}, "metric": "mse", "labels": None},
        pytest.param({"methods": ("full",), "scores": {"full": [0.7, 0.7, 0.7]}}, marks=pytest.mark.slow),
        pytest.param({"scores": {"gradual:every=40": [0.0]}}, marks=pytest.mark.slow),
        pytest.param({"scores": {**SCORES, "full": [0.5, 0.9]}, "metric": "mse"}, marks=pytest.mark.slow),
        pytest.param(
            {"methods": [f"gradual:every={n}" for n in range(1, 20)], "scores": {"gradual:every=1": FULL}},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one run, no test split", "errors, no reference", "no spread", "one score of 0", "errors", "many methods"],
)
def test_odd_studies_still_give_a_report(tmp_path, study, recwarn):
    written, html = report(tmp_path, **study)
    assert len(written.figures) == 2 * 6
    assert "How the numbers are made" in html
    assert not recwarn.list


def test_a_study_with_nothing_finished_says_so(tmp_path):
    written, html = report(tmp_path)
    assert written.figures == ()
    assert "Nothing has finished yet." in html
    assert len(rows(tmp_path, "main")) == 2


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(("metric", "left"), [("macro_f1", "2"), ("loss", "3")])
def test_a_number_that_is_not_finite_costs_no_more_than_what_it_belongs_to(tmp_path, metric, left):
    write_study(tmp_path, scores=SCORES, tests=("test", "hard"))
    file = tmp_path / "runs" / "method-1" / "seed-0" / "scores.json"
    record = json.loads(file.read_text())
    record["tests"]["hard"][metric] = float("nan")
    file.write_text(json.dumps(record))
    write_report(tmp_path)
    assert [row["finished"] for row in rows(tmp_path, "main")] == ["3", left]
    found = {(row["method"], row["split"], row["metric"]): row["n"] for row in rows(tmp_path, "metrics")}
    assert found["gradual:every=40", "hard", metric] == "2"


def test_no_study_no_report(tmp_path):
    with pytest.raises(RunError, match="holds no study"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_terminal_shows_the_same_numbers_in_whatever_width(tmp_path, width):
    write_study(tmp_path, methods=("full", "[red]x[/red]"), scores={"full": FULL, "[red]x[/red]": GRADUAL})
    text = printed(tmp_path, width)
    assert "72.3 ± 2.1" in text
    assert "[red]x[/red] scored highest on test" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width
    assert ("10.0 ms (0.50×)" in text) == (width == 140)
