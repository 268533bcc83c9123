"""What the pages say of how the arms of a study were trained: searched rates, and whether dev still rose."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from evidence import studies
from evidence.convergence import late_changes
from evidence.limits import limits_of
from evidence.page import page
from evidence.searches import ROWS, SearchedRun, at_an_end, search_hours, searched
from evidence.studies import Study, read_studies
from evidence.training import training_table
from gradgate.study.replay.curve_rows import CurveRow, write_curves
from support.study_folder import write_study

STUDIES = [study for study in read_studies() if study.is_committed and study.curves.exists()]
ROW = CurveRow(task="t", model="m", arm="full:lr=1", method="full", adapter=None, lr=1.0, seed=0, step=0, of_steps=100)
TRIED = SearchedRun(None, "full", 1e-4, 1000, 100, 0.5, 60.0, chosen=True)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study of which only the search and the curves are committed, in an empty folder."""
    monkeypatch.setattr(studies, "RUNS", tmp_path)
    return Study(name="one", title="", data="real", differs="", compare={"task": "sst2", "threads": 2})


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_study_says_nothing_by_hand_of_rates_whose_search_is_committed(study: Study) -> None:
    assert not (study.search.exists() and study.edge_of_rates)


def test_arms_that_took_a_rate_at_an_end_limit_their_own_comparisons(study: Study) -> None:
    middle = [replace(TRIED, lr=lr, dev=dev, chosen=lr == 1e-4) for lr, dev in ((1e-5, 0.5), (1e-4, 0.7), (1e-3, 0.6))]
    ROWS.write(study.search, [*middle, replace(TRIED, arm="head", lr=1e-3), replace(TRIED, arm="lora", lr=1e-5)])
    (limit,) = limits_of(study)
    assert str(limit) == "rates at the edge (of the rates searched, `head` took the highest and `lora` took the lowest)"
    assert [limit.is_about(arms) for arms in (["full"], ["full", "head"], ["lora"])] == [False, True, True]


def test_arms_that_gain_more_than_a_point_at_the_end_are_trained_too_short(study: Study) -> None:
    ends = {"full": 0.505, "head": 0.53, "freeze:layers=1": 0.6}
    rows = [
        replace(ROW, arm=f"{arm}:lr=1", method=arm, step=step, dev=0.5 if step < 100 else end)
        for arm, end in ends.items()
        for step in (80, 100)
    ]
    write_curves(rows, study.curves)
    long = study.model_copy(update={"compare": {"task": "sst2", "epochs": 2, "train_size": 1600}})
    (limit,) = limits_of(long)
    assert limit.how == (
        "2 epochs of 1,600 examples, dev of `head` and `freeze:layers=1` still rises by 3.0 to 10.0 points at the end, "
        "on average, most in `freeze:layers=1`"
    )
    assert [limit.is_about([arm]) for arm in ends] == [False, True, True]
    (by_hand,) = limits_of(long.model_copy(update={"short_training": "9 steps"}))
    assert by_hand.how.startswith("9 steps, dev of `head`")
    assert by_hand.is_about(["full"])


def test_the_rate_of_an_arm_is_at_an_end_if_no_lower_or_no_higher_one_was_tried() -> None:
    rates = {"low": 1e-5, "middle": 1e-4, "high": 1e-3}
    tried = [
        replace(TRIED, arm=arm, lr=lr, chosen=lr == chosen) for arm, chosen in rates.items() for lr in rates.values()
    ]
    assert at_an_end(tried) == {"low": "lowest", "high": "highest"}


def test_the_end_of_a_run_begins_at_its_last_evaluation_before_the_last_fifth() -> None:
    devs = {20: 0.1, 60: 0.5, 80: 0.5, 90: 0.9, 100: 0.625}
    rows = [
        replace(ROW, seed=seed, step=step, dev=dev + seed / 2 * (step == 80))
        for seed in (0, 1)
        for step, dev in devs.items()
    ]
    rows += [replace(ROW, seed=2, step=step, dev=0.5) for step in (90, 100)]
    (found,) = late_changes(rows)
    assert found.by_run == pytest.approx((12.5, -37.5))
    assert str(found) == "−12.5 (−37.5 to +12.5)"
    (error,) = late_changes([replace(row, better="lower") for row in rows])
    assert error.by_run == pytest.approx((-12.5, 37.5))


def test_what_was_searched_is_read_from_the_study_with_the_time_of_runs_that_were_stopped(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", methods=["full"], scores={"full": [0.5, 0.5, 0.5]})
    record = json.loads((folder / "study.json").read_text())
    settings = [{"lr": lr} for lr in (1e-4, 1e-3, 1e-2)]
    record["search"] = {
        "space": ["lr=1e-4,1e-3,1e-2"], "settings": settings, "seeds": [1000], "prune": True,
        "chosen": {"full": settings[1]},
        "results": {"full": [{"setting": {"lr": lr}, "dev": dev} for lr, dev in ((1e-3, 0.75), (1e-4, 0.5))]},
    }  # fmt: skip
    (folder / "study.json").write_text(json.dumps(record))
    scores = json.loads((folder / "runs/method-0/seed-0/scores.json").read_text())
    for lr, dev in ((1e-4, 0.5), (1e-3, 0.75)):
        run = folder / f"search/full/lr={lr}/seed-1000"
        run.mkdir(parents=True)
        (run / "scores.json").write_text(json.dumps(scores | {"dev": {scores["metric"]: dev}, "tests": {}}))
    stopped = folder / "search/full/lr=0.01/seed-1000"
    stopped.mkdir(parents=True)
    (stopped / "history.jsonl").write_text('{"step": 40, "epoch": 1.0, "split": "train", "loss": 0.5}\n')
    assert [(run.lr, run.steps, run.dev, run.seconds, run.chosen) for run in searched(folder)] == [
        (1e-4, 80, 0.5, 2.0, False),
        (1e-3, 80, 0.75, 2.0, True),
        (1e-2, 40, None, 1.0, False),
    ]


def test_a_study_without_a_search_searched_nothing(tmp_path: Path) -> None:
    assert searched(write_study(tmp_path / "study", scores={"full": [0.5]})) == []


def test_the_table_has_each_rate_and_the_change_at_the_end(study: Study) -> None:
    other = replace(TRIED, arm="head", chosen=False)
    tried = [
        TRIED,
        replace(TRIED, lr=1e-3, dev=None, seconds=30.0, chosen=False),
        other,
        replace(other, lr=1e-3, chosen=True),
    ]
    ROWS.write(study.search, tried)
    write_curves([replace(ROW, step=80, dev=0.5), replace(ROW, step=100, dev=0.75)], study.curves)
    assert training_table(study).splitlines()[-4:] == [
        "| arm | 1e-4 | 1e-3 | change at the end |",
        "|---|---:|---:|---:|",
        "| `full` | **50.0** | stopped | +25.0 (+25.0 to +25.0) |",
        "| `head` | 50.0 | **50.0** | – |",
    ]
    assert search_hours(study) == pytest.approx(2 * 210 / 3600)


def test_a_study_of_which_neither_is_committed_has_no_table(study: Study) -> None:
    assert training_table(study) == ""
    assert search_hours(study) is None


def test_the_page_says_how_many_rates_and_seeds_a_search_had_and_how_many_searches_are_not_committed() -> None:
    text = page([], read_studies(["real-freezing-mrpc", "synthetic-adapters-sizes", "synthetic-freezing"]))
    assert re.findall(r"Search: (.*?)\.", text) == [
        "7 learning rates per arm, one seed each; 11 of 35 runs were stopped after 65 % of their steps",
        "4 learning rates per arm, 3 seeds each",
        "2 learning rates per arm, one seed each",
    ]
    assert "Of the other 2, no committed file has the hours of the search" in text
    assert "no committed file" not in page([], read_studies(["real-freezing-mrpc"]))


def test_a_study_that_leaves_out_times_has_no_figure_of_them() -> None:
    with pytest.raises(ValidationError, match="s compares no times, and its figure 'cost' shows them"):
        Study(name="s", title="", data="real", differs="", compare={}, without_times=True, figures=({"name": "cost"},))


def test_arms_that_differ_in_more_than_their_rate_are_kept_apart() -> None:
    rows = [
        replace(ROW, method="full", adapter=None, arm=arm, step=step, dev=dev)
        for arm, dev in (("full:lr=0.1", 0.5), ("full:lr=0.2,tapt_steps=9", 0.7))
        for step in (50, 100)
    ]
    assert [found.arm for found in late_changes(rows)] == ["full", "full:tapt_steps=9"]


def test_training_sets_of_two_sizes_are_kept_apart(study: Study) -> None:
    flat = [
        replace(ROW, train_size=size, of_steps=steps, step=step, dev=dev)
        for size, steps, dev in ((100, 100, 0.5), (200, 120, 0.8))
        for step in (steps // 2, steps)
    ]
    assert [(each.size, each.by_run) for each in late_changes(flat)] == [(100, (0.0,)), (200, (0.0,))]
    write_curves(flat, study.curves)
    tried = [
        replace(TRIED, size=size, lr=lr, dev=dev, chosen=chosen)
        for size, lr, dev, chosen in ((100, 1e-4, 0.4, True), (100, 1e-3, 0.3, False), (200, 1e-3, 0.6, True))
    ]
    ROWS.write(study.search, tried)
    *_, small, large = training_table(study).splitlines()
    assert small == "| `full`, 100 rows | **40.0** | 30.0 | +0.0 (+0.0 to +0.0) |"
    assert large == "| `full`, 200 rows | – | **60.0** | +0.0 (+0.0 to +0.0) |"
