"""The report of a study of several tasks or models, against folders whose every number is known."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy import stats

from gradgate.report import write_report
from gradgate.report.sections.from_papers.t_statistics import TStatisticsSection
from gradgate.report.split_tests import best_over_parts
from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import cautions, verdict
from gradgate.runs.state import RunState
from gradgate.study.budget.file import write_budget
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.pooled import read_pooled
from support.budgets import RECORD
from support.imported_tables import imported, write_csv
from support.study_folder import fail, finish, write_study
from support.written_report import printed

METHOD = "gradual:every=40"
SCORES = {
    "alpha": {"full": (0.50, 0.52, 0.54), METHOD: (0.55, 0.58, 0.58)},
    "beta": {"full": (0.70, 0.71, 0.75), METHOD: (0.72, 0.74, 0.73)},
    "gamma": {"full": (0.30, 0.31, 0.29), METHOD: (0.36, 0.35, 0.37)},
}


@pytest.fixture(autouse=True)
def drawn(request: pytest.FixtureRequest, draw_only: Callable[..., None]) -> None:
    """No figures but those of the sections that a test names."""
    draw_only(*getattr(request, "param", ()))


def write_parts(folder: Path, metrics: dict[str, str] | None = None, models: tuple[str, ...] = ("toy",)) -> list[Path]:
    """A study of three tasks with each model, all of it finished."""
    parts = Conditions(tuple(TaskChoice(name) for name in SCORES), models)
    folder.mkdir(exist_ok=True)
    tasks = [{"task": name, "data": None} for name in SCORES]
    (folder / "parts.json").write_text(json.dumps({"tasks": tasks, "models": list(models)}))
    paths = parts.paths(folder)
    for place, path in enumerate(paths):
        name, model = list(SCORES)[place % 3], models[place // 3]
        own = {"metric": metrics[name]} if metrics else {}
        write_study(path, methods=("full", METHOD), scores=SCORES[name], name=name, **own)
        record = json.loads((path / "study.json").read_text())
        record["model"]["name"] = model
        (path / "study.json").write_text(json.dumps(record))
    return paths


def means(method: str) -> list[float]:
    """Of each seed, over the tasks."""
    return [fmean(SCORES[task][method][seed] for task in SCORES) for seed in range(3)]


def test_methods_are_compared_on_the_mean_over_tasks_of_each_seed(tmp_path: Path) -> None:
    write_parts(tmp_path)
    findings = summarize_study(read_pooled(tmp_path))
    full, gradual = findings.arms
    assert gradual.score.mean == pytest.approx(fmean(means(METHOD)), abs=1e-12)
    assert gradual.score.sd == pytest.approx(stdev(means(METHOD)), abs=1e-12)
    assert full.score.values == pytest.approx(means("full"), abs=1e-12)
    assert gradual.p == pytest.approx(stats.ttest_rel(means(METHOD), means("full")).pvalue)
    assert "scored highest on the mean over tasks: 55.3" in verdict(findings)
    assert (full.cost.seconds_total, full.cost.seconds_per_step) == (6.0, 0.02)


def test_tasks_are_pairs_of_a_test_of_their_own(tmp_path: Path) -> None:
    write_parts(tmp_path)
    write_report(tmp_path)
    ours, theirs = ([fmean(SCORES[task][method]) for task in SCORES] for method in (METHOD, "full"))
    wanted = stats.ttest_rel(ours, theirs)
    rows = list(csv.DictReader((tmp_path / "tables" / "statistics-splits.csv").read_text().splitlines()))
    assert [(row["method"], row["paired_by"], row["pairs"]) for row in rows] == [(METHOD, "task", "3")]
    assert float(rows[0]["t"]) == pytest.approx(wanted.statistic)
    assert float(rows[0]["p"]) == pytest.approx(wanted.pvalue)
    said = best_over_parts(summarize_study(read_pooled(tmp_path)))
    assert said == f"{METHOD} is ahead of full on 3 of 3 tasks; with tasks as pairs, p = {wanted.pvalue:.3f}."


@pytest.mark.parametrize("drawn", [(TStatisticsSection,)], indirect=True, ids=["t-statistics"])
def test_each_task_has_its_line_and_its_own_page(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    page = write_report(tmp_path).html.read_text()
    rows = list(csv.DictReader((tmp_path / "tables" / "tasks.csv").read_text().splitlines()))
    assert {row["task"] for row in rows} == {"", *SCORES}  # the mean is of no single one
    gains = {row["task"]: float(row["difference"]) for row in rows if row["method"] == METHOD and row["task"]}
    assert gains["alpha"] == pytest.approx(fmean(SCORES["alpha"][METHOD]) - fmean(SCORES["alpha"]["full"]))
    for name, path in zip(SCORES, paths, strict=True):
        link = f"{path.relative_to(tmp_path)}/report.html"
        assert f'<a href="{link}">{name}</a>' in page
        assert (tmp_path / link).is_file()
    assert (tmp_path / "figures" / "t-statistics.svg").is_file()


def test_a_seed_that_failed_on_one_task_makes_no_mean_and_is_told(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    broken = fail(paths[1], METHOD, 2, "The loss became nan.")
    (broken / "scores.json").unlink()
    results = read_pooled(tmp_path)
    lost = next(cell for cell in results.of(METHOD) if cell.seed == 2)
    assert (lost.state, lost.scores) == ("failed", None)
    assert lost.failure is not None
    assert lost.failure.message == "beta: The loss became nan."
    findings = summarize_study(results)
    assert findings.arms[1].score.values == pytest.approx(means(METHOD)[:2], abs=1e-12)
    assert (results.count(RunState.FINISHED), results.count(RunState.FAILED)) == (17, 1)
    page = write_report(tmp_path).html.read_text()
    assert f"beta: {METHOD}, seed 2" in page
    assert "18 runs planned: 17 finished and 1 failed." in page


def test_what_has_not_begun_leaves_the_rest_to_be_read(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    for path in paths[2].glob("runs/*/seed-1/scores.json"):
        path.unlink()
    results = read_pooled(tmp_path)
    assert [cell.state for cell in results.of("full")] == ["finished", "missing", "finished"]
    assert results.count(RunState.MISSING) == 2


def test_scores_of_different_metrics_are_called_scores(tmp_path: Path) -> None:
    write_parts(tmp_path, {"alpha": "matthews", "beta": "f1", "gamma": "pearson"})
    findings = summarize_study(read_pooled(tmp_path))
    assert findings.format.label == "score × 100"
    assert findings.arms[0].score.values == pytest.approx(means("full"), abs=1e-12)


def test_tasks_without_a_test_split_are_said_to_be_compared_on_dev(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    for path in paths[1:]:
        record = json.loads((path / "study.json").read_text())
        record["task"]["rows"].pop("test")
        (path / "study.json").write_text(json.dumps(record))
        for scores in path.glob("runs/*/seed-*/scores.json"):
            scores.write_text(json.dumps({**json.loads(scores.read_text()), "tests": {}}))
    findings = summarize_study(read_pooled(tmp_path))
    assert any(note.startswith("beta and gamma have no test split") for note in cautions(findings))
    page = write_report(tmp_path).html.read_text()
    assert "the dev score of beta and gamma also ranks the methods" in page
    assert "nothing is chosen on test" not in page


def test_a_part_that_was_not_begun_is_told(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    (paths[2] / "study.json").unlink()
    assert any("1 of 3 tasks have not started" in note for note in cautions(summarize_study(read_pooled(tmp_path))))


def test_the_page_of_a_part_is_the_same_whoever_writes_it(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    (fail(paths[0], METHOD, 2) / "scores.json").unlink()
    write_report(tmp_path)
    page = (paths[0] / "report.html").read_bytes()
    assert write_report(paths[0]).html.read_bytes() == page


def test_only_the_page_of_the_whole_study_says_how_to_continue(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    (fail(paths[0], METHOD, 2) / "scores.json").unlink()
    assert "gradgate study retry ." in write_report(tmp_path).html.read_text()
    part = (paths[0] / "report.html").read_text()
    assert "gradgate report ." in part
    assert "gradgate study retry" not in part, "a part refuses it"
    assert "gradgate compare" not in part


def test_where_a_budget_decides_no_task_has_an_advice_of_its_own(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    (paths[0] / "runs/method-0/seed-2/scores.json").unlink()
    assert "</a>: Use " in write_report(tmp_path).html.read_text()
    write_budget(tmp_path, RECORD)
    page = write_report(tmp_path).html.read_text()
    assert '<p class="answer">full is better than every other arm.</p>' in page
    for text in (page, *((path / "report.html").read_text() for path in paths)):
        assert "Use gradual" not in text
        assert "Not finished yet" not in text


def test_falling_metrics_that_differ_are_called_errors(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, {"alpha": "mse", "beta": "mae", "gamma": "mse"})
    for path in paths:
        record = json.loads((path / "study.json").read_text())
        record["task"]["metric_higher_is_better"] = False
        (path / "study.json").write_text(json.dumps(record))
    findings = summarize_study(read_pooled(tmp_path))
    assert findings.format.label == "error"
    assert findings.best[0].name == "full"
    said = best_over_parts(findings)
    assert said is not None
    assert said.startswith(f"{METHOD} is ahead of full on 0 of 3 tasks")


def test_models_stand_in_the_same_place_as_tasks(tmp_path: Path) -> None:
    parts = Conditions((TaskChoice("alpha"),), ("org/small", "org/large"))
    record = {"tasks": [{"task": "alpha", "data": None}], "models": ["org/small", "org/large"]}
    (tmp_path / "parts.json").write_text(json.dumps(record))
    for path, name, shift in zip(parts.paths(tmp_path), parts.models, (0.0, 0.2), strict=True):
        write_study(path, methods=("full", METHOD))
        study = json.loads((path / "study.json").read_text())
        study["model"]["name"] = name
        (path / "study.json").write_text(json.dumps(study))
        for method, values in SCORES["alpha"].items():
            for seed, value in enumerate(values):
                finish(path, method, seed, value + shift)
    results = read_pooled(tmp_path)
    assert (results.test_splits, results.split_unit, results.averages) == (
        ("small", "large"),
        "model",
        ("mean over models",),
    )
    assert summarize_study(results).reference.score.mean == pytest.approx(0.62)
    write_report(tmp_path)
    assert (tmp_path / "tables" / "models.csv").is_file()


def test_tasks_with_models_are_told_apart_by_both(tmp_path: Path) -> None:
    write_parts(tmp_path, models=("toy", "other"))
    results = read_pooled(tmp_path)
    assert results.split_unit == "combination"
    assert results.test_splits[:4] == ("alpha, toy", "beta, toy", "gamma, toy", "alpha, other")
    assert results.count(RunState.FINISHED) == 36


def test_the_terminal_has_a_line_for_each_task(tmp_path: Path) -> None:
    write_parts(tmp_path)
    text = printed(tmp_path)
    for name in SCORES:
        assert f"│ {name} " in text
    assert "ahead of full on 3 of 3 tasks" in text


def test_a_study_without_a_score_to_compare_shows_its_runs(tmp_path: Path) -> None:
    rows = [
        {"method": arm, "task": task, "seed": seed, "accuracy": 0.5 + 0.01 * seed}
        for arm, task in (("full", "a"), ("lora", "b"))
        for seed in range(6)
    ]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    page = write_report(tmp_path / "study").html.read_text(encoding="utf-8")
    assert '<table class="data"' in page
