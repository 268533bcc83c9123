"""Learning rates that a search tries: how much seeds matter at each, in studies and in figures that search first."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats

from gradgate.papers.check import check_studies
from gradgate.papers.comparison import write_tables
from gradgate.papers.measured import seed_spreads
from gradgate.papers.planning import ReproduceRequest
from gradgate.papers.reproduce import read_reproduction, run_plan
from gradgate.report.sections.from_papers.learning_rates import searched_runs
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.search import read_space
from support.study_folder import METRIC, write_study

ADAPTER = "houlsby:size=64"


def searched(folder: Path, own: str | None, rate: float, seed: int, score: float, **other: float) -> None:
    """A finished run of a search."""
    path = folder / "search" / f"{own}" / f"lr={rate}, {other}" / f"seed-{1000 + seed}"
    path.mkdir(parents=True)
    config = {"method": "full", "adapter": own, "lr": rate, "seed": 1000 + seed, **other}
    (path / "run.json").write_text(json.dumps({"config": config}))
    (path / "scores.json").write_text(json.dumps({"dev": {"macro_f1": score}}))


def rates_study(folder: Path) -> Path:
    write_study(folder, methods=("full",), seeds=(0, 1))
    study = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**study, "adapters": [None, ADAPTER]}))
    return folder


def test_what_a_search_found_says_how_much_seeds_matter_at_each_rate(tmp_path: Path) -> None:
    rates_study(tmp_path)
    dev = {None: {1e-5: (0.5, 0.6), 1e-4: (0.1, 0.9)}, ADAPTER: {1e-5: (0.7, 0.7), 1e-4: (0.72, 0.74)}}
    for own, rates in dev.items():
        for rate, scores in rates.items():
            for seed, score in enumerate(scores):
                searched(tmp_path, own, rate, seed, score)
    verdict = next(v for v in check_studies([tmp_path], "adaptereff") if v.claim.id == "A8")
    first, second = (finding.text for finding in verdict.outcome.findings)
    assert "rate 1 of 2 from the lowest: deviation over seeds, Fine-tune / Adapter-64 = 7.07 / 0.00" in first
    ratio = stdev(dev[None][1e-4]) / stdev(dev[ADAPTER][1e-4])
    low, high = (ratio / stats.f.isf(share, 1, 1) ** 0.5 for share in (0.0125, 0.9875))
    assert f"= {ratio:.2f} [{low:.2f} to {high:.2f}], 2 seeds" in second


def figure4(folder: Path, runs: list[dict[str, Any]]) -> Path:
    """A reproduction of a figure that searches rates, whose runs are in the study ``cola``."""
    record: dict[str, Any] = {"preset": "adaptereff-figure4", "scale": "sample", "runs": runs, "left_out": {}}
    (folder / "reproduction.json").write_text(json.dumps({**record, "notes": []}))
    return folder


def test_the_search_of_a_reproduction_says_so_too(tmp_path: Path) -> None:
    rates_study(tmp_path / "cola")
    for rate in (1e-5, 1e-4):
        for seed in (0, 1):
            searched(tmp_path / "cola", None, rate, seed, 0.5 + 0.1 * seed)
            searched(tmp_path / "cola", ADAPTER, rate, seed, 0.5)
    runs = [
        {"labels": ["BERT-base", "cola", "1000", label], "method": "full", "adapter": adapter, "study": "cola"}
        for label, adapter in (("Fine-tune", None), ("Adapter-64", ADAPTER))
    ]
    verdict = next(v for v in check_studies([figure4(tmp_path, runs)], "adaptereff") if v.claim.id == "A8")
    what = "cola, BERT-base, 1000 examples, rate 1 of 2 from the lowest: deviation over seeds, Fine-tune / Adapter-64"
    assert verdict.outcome.findings[0].text.startswith(f"{what} = {5 * 2**0.5:.2f} / 0.00")


def test_a_figure_without_printed_numbers_has_a_table_of_what_was_measured(tmp_path: Path) -> None:
    write_study(tmp_path / "cola", ("full",), (0, 1), {"full": [0.4, 0.6]})
    run = {"labels": ["BERT-base", "cola", "1000", "Fine-tune"], "method": "full", "adapter": None, "study": "cola"}
    (table,) = write_tables(read_reproduction(figure4(tmp_path, [run])), tmp_path)
    (record,) = table.records
    assert (record["method"], record["ours"], record["metric"], record["seeds"]) == ("Fine-tune", "full", METRIC, 2)
    assert (record["measured"], record["measured_sd"]) == (pytest.approx(50.0), pytest.approx(stdev((40, 60))))
    assert [file.name for file in sorted((tmp_path / "tables").iterdir())] == ["measured.csv", "measured.md"]


@pytest.mark.slow
def test_a_reproduction_searches_before_it_runs_and_goes_on_with_more_seeds(tmp_path: Path) -> None:
    small = {"steps": 2, "train_size": 16, "dev_size": 16, "batch_size": 8, "max_length": 16, "threads": 1}
    plan = ReproduceRequest("adaptereff-figure4", "sample", [0], [], None, False, small).plan()
    plan = replace(plan, runs=plan.runs[:1], search=read_space(["lr=1e-3,2e-3"]))
    out = tmp_path / "out"
    assert run_plan(plan, out, lambda title: nullcontext(SilentStudy())).finished == 1
    more = replace(plan, seeds=(0, 1), search=read_space(["lr=1e-3,2e-3"], seeds=2))
    assert run_plan(more, out, lambda title: nullcontext(SilentStudy())).finished == 2
    (row,) = read_reproduction(out).rows
    results = row.measured.results
    runs = searched_runs(results, results.study.task.metric)
    assert [(run.config["lr"], run.config["seed"]) for run in runs] == [(1e-3, 1000), (2e-3, 1000)]


def test_rates_that_seeds_agree_on_do_not_vary(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate, score in ((1e-5, 0.5), (1e-4, 0.9)):
        for seed in (0, 1):
            searched(tmp_path, None, rate, seed, score)
    assert seed_spreads(read_study(tmp_path)) == {"full": {0: (0.0, 2), 1: (0.0, 2)}}


def test_other_settings_of_a_search_are_no_seeds(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for batch_size, low in ((8, 0.5), (16, 0.7)):
        searched(tmp_path, None, 1e-5, 0, low, batch_size=batch_size)
        searched(tmp_path, None, 1e-5, 1, 0.9, batch_size=batch_size)
    spread = 100 * fmean((stdev((0.5, 0.9)), stdev((0.7, 0.9))))
    assert seed_spreads(read_study(tmp_path)) == {"full": {0: (pytest.approx(spread), 2)}}


def test_a_search_with_one_seed_says_nothing_of_seeds(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate in (1e-5, 1e-4):
        searched(tmp_path, None, rate, 0, 0.5)
    assert seed_spreads(read_study(tmp_path)) == {}


def test_a_seed_that_failed_narrows_nothing(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate in (1e-5, 1e-4):
        for seed in (0, 1, 2):
            searched(tmp_path, ADAPTER, rate, seed, 0.7 + rate * seed)
            if (rate, seed) != (1e-4, 2):  # this one has failed
                searched(tmp_path, None, rate, seed, 0.8 + 0.01 * seed)
    searched(tmp_path, "pfeiffer", 1e-5, 0, 0.8)  # no part of the study
    results = read_study(tmp_path)
    spreads = seed_spreads(results)
    assert {label: sorted(by_rate) for label, by_rate in spreads.items()} == {
        results.study.arm_names[0]: [0],
        results.study.arm_names[1]: [0, 1],
    }
    assert check_studies([tmp_path], "adaptereff")
