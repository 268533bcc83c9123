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
from support.study_folder import METRIC, finish, write_study

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


def test_arms_that_differ_in_more_than_their_rate_are_other_methods(tmp_path):
    names = {"full": (1.0, 2e-5, 0.8), "full:clip=0": (0.0, 2e-5, 0.6), "full:lr=1e-4": (1.0, 1e-4, 0.7)}
    study = write_study(tmp_path, methods=list(names), seeds=(0, 1))
    for name, (clip, lr, score) in names.items():
        for seed in (0, 1):
            file = finish(study, name, seed, score + 0.01 * seed) / "run.json"
            record = json.loads(file.read_text())
            record["config"] |= {"method": "full", "clip": clip, "lr": lr}
            file.write_text(json.dumps(record))
    record = json.loads((study / "study.json").read_text())
    record["settings"]["clip"] = 1.0
    (study / "study.json").write_text(json.dumps(record))
    (full,) = find_rates(summarize_study(read_study(study))).methods
    assert full.scores == {2e-5: (0.8, 0.81), 1e-4: (0.7, 0.71)}


def test_other_searched_settings_make_lines_of_their_own(tmp_path):
    write_study(tmp_path, scores=SCORES)
    record = json.loads((tmp_path / "study.json").read_text())
    settings = [{"lr": rate, "batch_size": size} for rate in (1e-5, 1e-4) for size in (8, 16)]
    record["search"] = {"space": ["lr=1e-5,1e-4", "batch_size=8,16"], "settings": settings, "seeds": [1000]}
    record["search"] |= {"prune": False, "chosen": {}, "results": {}}
    (tmp_path / "study.json").write_text(json.dumps(record))
    for place, setting in enumerate(settings):
        run = tmp_path / "search/full" / f"{place}" / "seed-1000"
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps({"config": {"method": "full", "seed": 1000, **setting}}))
        (run / "scores.json").write_text(json.dumps({"metric": METRIC, "dev": {METRIC: 0.6 + 0.1 * place}}))
    methods = find_rates(summarize_study(read_study(tmp_path))).methods
    assert {each.label: each.scores[1e-5] for each in methods} == {
        "full, batch_size=8": (0.6,),
        "full, batch_size=16": (pytest.approx(0.7),),
    }
