"""AdapterEff's Adapter-64-256: the size is chosen on dev, for each task, and what is compared is the score on test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gradgate.papers.check import check_studies
from gradgate.papers.claims.numbers import Numbers
from gradgate.papers.measured import numbers_of_study
from gradgate.study.results import read_study
from support.study_folder import METRIC, write_study

SIZES = ("houlsby:size=64", "houlsby:size=128", "houlsby:size=256")
TUNED = [0.50, 0.51, 0.53]
TESTS = {SIZES[0]: [0.60, 0.61, 0.65], SIZES[1]: [0.70, 0.72, 0.71], SIZES[2]: [0.90, 0.91, 0.93]}
DEVS = {SIZES[0]: [0.6, 0.6, 0.6], SIZES[1]: [0.8, 0.8, 0.8], SIZES[2]: [0.9, 0.7, 0.7]}


def study(
    folder: Path,
    tests: Mapping[str, Sequence[float]] = TESTS,
    devs: Mapping[str, Sequence[float]] = DEVS,
    splits: Sequence[str] = ("test",),
) -> Path:
    """A study of fine-tuning and adapters with 1,000 examples of CoLA."""
    scores = {"full": TUNED, **{f"{adapter} + full": values for adapter, values in tests.items()}}
    write_study(folder, tuple(scores), scores=scores, tests=splits, name="cola")
    record = json.loads((folder / "study.json").read_text())
    record["settings"]["train_size"] = 1000
    (folder / "study.json").write_text(json.dumps(record))
    for file in folder.glob("runs/*/seed-*/run.json"):
        config = json.loads(file.read_text())["config"]
        adapter, _, method = config["method"].rpartition(" + ")
        if adapter:
            file.write_text(json.dumps({"config": config | {"method": method, "adapter": adapter}}))
            found = json.loads(file.with_name("scores.json").read_text())
            found["dev"][METRIC] = devs[adapter][config["seed"]]
            file.with_name("scores.json").write_text(json.dumps(found))
    return folder


def best_of(numbers: Numbers) -> dict[str, list[float]]:
    """The scores in English of the best size, by what was run for them."""
    own = {key: by_seed for key, by_seed in numbers.scores.items() if (key.method, key.on) == ("Adapter-64-256", "en")}
    return {numbers.arms[key][0]: [by_seed[seed] for seed in sorted(by_seed)] for key, by_seed in own.items()}


def test_the_size_is_that_of_the_best_mean_on_dev_and_its_scores_are_those_on_test(tmp_path: Path) -> None:
    """256 is better on test, and on dev with one seed."""
    found = best_of(numbers_of_study("adaptereff", read_study(study(tmp_path))))
    assert found == {"houlsby:size=128": [pytest.approx(100 * score) for score in TESTS[SIZES[1]]]}


def test_the_claim_names_the_size_that_it_used(tmp_path: Path) -> None:
    verdict = next(found for found in check_studies([study(tmp_path)], "adaptereff") if found.claim.id == "A4")
    compared = [finding.text for finding in verdict.outcome.findings if finding.compared]
    assert len(compared) == 2
    assert all("1 task of the 3 needed" in text for text in compared)
    assert verdict.arms == {
        "Adapter-64-256": ["houlsby:size=128"],
        "Adapter-64": ["houlsby:size=64"],
        "Fine-tune": ["full"],
    }


def test_the_smallest_of_equal_sizes_is_taken(tmp_path: Path) -> None:
    found = numbers_of_study("adaptereff", read_study(study(tmp_path, devs={size: [0.5] * 3 for size in SIZES})))
    assert list(best_of(found)) == ["houlsby:size=64"]


def test_there_is_none_without_all_sizes_or_where_two_arms_have_one(tmp_path: Path) -> None:
    two = {adapter: TESTS[adapter] for adapter in SIZES[:2]}
    assert not best_of(numbers_of_study("adaptereff", read_study(study(tmp_path / "two", two))))
    again = "houlsby:size=64,lr=1e-3"
    both = study(tmp_path / "both", TESTS | {again: TESTS[SIZES[2]]}, DEVS | {again: DEVS[SIZES[2]]})
    assert not best_of(numbers_of_study("adaptereff", read_study(both)))


def test_nothing_is_chosen_on_the_split_that_is_compared(tmp_path: Path) -> None:
    on_dev = numbers_of_study("adaptereff", read_study(study(tmp_path, splits=())))
    assert any(key.method == "Adapter-256" for key in on_dev.scores)
    assert not best_of(on_dev)
