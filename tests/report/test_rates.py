"""Box plots over learning rates: of a search, or of adapters that differ in their rate alone."""

from __future__ import annotations

import json

import pytest

from gradgate.report import formats
from gradgate.report.drawing import style_of
from gradgate.report.sections.from_papers.learning_rates import find_rates
from gradgate.report.sections.from_papers.rates import draw_rates, rate_table
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import METRIC, write_study

SCORES = {"full": [0.7, 0.8, 0.9]}


def search(folder, method, rate, seed, score):
    path = folder / "search" / method.replace(":", "-") / f"lr={rate}" / f"seed-{seed}"
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"config": {"method": method, "lr": rate, "seed": seed}}))
    (path / "scores.json").write_text(json.dumps({"dev": {METRIC: score}}))
    return path


@pytest.fixture
def searched(tmp_path):
    write_study(tmp_path, scores=SCORES)
    for rate, scores in {1e-4: (0.5, 0.9), 2e-5: (0.6, 0.7)}.items():
        for seed, score in enumerate(scores):
            search(tmp_path, "full", rate, seed, score)
    search(tmp_path, "head", 1e-4, 0, 0.4)
    return tmp_path


def test_the_runs_of_a_search_are_shown_on_dev(searched):
    findings = summarize_study(read_study(searched))
    rates = find_rates(findings)
    assert (rates.split, rates.all) == ("dev", (2e-5, 1e-4))
    (full,) = rates.methods  # head has one rate, so there is nothing to compare
    assert full.scores == {2e-5: (0.6, 0.7), 1e-4: (0.5, 0.9)}
    drawing, table = draw_rates(findings, rates), rate_table(findings, rates)
    assert "full 65.0 at 2e-5 (60.0 to 70.0), 70.0 at 1e-4 (50.0 to 90.0)" in drawing.text
    assert [entry.line for entry in table.rows[0][1:]] == ["65.0 ± 7.1 (65.0, 2)", "70.0 ± 28.3 (70.0, 2)"]


def test_methods_are_in_the_order_of_the_study(tmp_path):
    write_study(tmp_path, scores={"lpft": [0.7], "full": [0.8]}, methods=("lpft", "full"), seeds=(0,))
    for method in ("full", "lpft"):
        for rate in (1e-4, 2e-5):
            search(tmp_path, method, rate, 0, 0.5)
    search(tmp_path, "head", 1e-4, 0, 0.5)
    search(tmp_path, "head", 2e-5, 0, 0.5)
    rates = find_rates(summarize_study(read_study(tmp_path)))
    assert [(method.label, method.place) for method in rates.methods] == [("lpft", 0), ("full", 1), ("head", 2)]


def test_a_method_has_the_colour_that_it_has_elsewhere(tmp_path):
    write_study(tmp_path, scores={"lpft": [0.7], "full": [0.8]}, methods=("lpft", "full"), seeds=(0,))
    for rate in (1e-4, 2e-5):  # lpft has no rates, so that full is the only method of the figure
        search(tmp_path, "full", rate, 0, 0.5)
    findings = summarize_study(read_study(tmp_path))
    svg = draw_rates(findings, find_rates(findings)).svg
    assert f"stroke: {style_of(1).colour}" in svg


@pytest.mark.parametrize("damage", ["{", '{"dev": {}}', '{"dev": {"macro_f1": NaN}}', '{"dev": {"macro_f1": null}}'])
def test_runs_of_a_search_that_have_no_score_are_left_out(searched, damage):
    (searched / "search" / "full" / "lr=0.0001" / "seed-0" / "scores.json").write_text(damage)
    (full,) = find_rates(summarize_study(read_study(searched))).methods
    assert full.scores[1e-4] == (0.9,)


def test_adapters_that_differ_in_their_rate_alone_are_one_method(tmp_path):
    write_study(tmp_path, methods=("full",), seeds=(0, 1))
    adapters = {"houlsby:size=8,lr=1e-3": 0.7, "houlsby:lr=1e-4,size=8": 0.6, "pfeiffer": 0.5}
    study = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**study, "adapters": [None, *adapters]}))
    cost = {"steps": 1, "seconds_per_step": 1, "seconds_total": 1, "trainable_share": 1, "parameters": 1}
    cost |= {"parameters_trained": 1, "device": "cpu"}
    for place, (adapter, score) in enumerate(adapters.items()):
        for seed in (0, 1):
            path = tmp_path / "runs" / f"{place}" / f"seed-{seed}"
            path.mkdir(parents=True)
            config = {"method": "full", "adapter": adapter, "seed": seed}
            scores = {METRIC: score + 0.01 * seed}
            record = {"metric": METRIC, "best_step": 1, "dev": scores, "tests": {"test": scores}, "cost": cost}
            for name, content in (("run", {"config": config}), ("scores", record)):
                (path / f"{name}.json").write_text(json.dumps(content))
            (path / "history.jsonl").touch()
    rates = find_rates(summarize_study(read_study(tmp_path)))
    assert rates.split == "test"
    (houlsby,) = rates.methods
    assert {rate: len(scores) for rate, scores in houlsby.scores.items()} == {1e-4: 2, 1e-3: 2}
    assert "houlsby:size=8" in houlsby.label


def test_a_study_with_one_rate_has_no_such_figure(tmp_path):
    assert find_rates(summarize_study(read_study(write_study(tmp_path, scores=SCORES)))) is None


@pytest.mark.parametrize(
    ("rate", "text"), [(5e-5, "5e-5"), (1e-4, "1e-4"), (0.00123, "1.23e-3"), (0.1, "0.1"), (2, "2")]
)
def test_learning_rates_are_written_short(rate, text):
    assert formats.learning_rate(rate) == text
