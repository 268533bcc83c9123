"""Averages over languages: by hand, and against those that a paper prints beside its languages' scores."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from gradgate.tasks.languages import average, average_label, distant_languages

TESTS = {
    "test.en": {"accuracy": 0.9, "loss": 1.0},
    "test.de": {"accuracy": 0.7, "loss": 2.0},
    "test.sw": {"accuracy": 0.4, "loss": 3.0},
    "test.zh": {"accuracy": 0.5, "loss": 6.0},
}


def spoken(scores: dict[str, Any]) -> dict[str, str]:
    return {split: split.partition(".")[2] or "en" for split in scores}


def test_averages_are_those_computed_by_hand() -> None:
    scores = {"dev": {"accuracy": 0.1, "loss": 0.1}, **TESTS}
    found = average(scores, spoken(scores), "en")
    assert list(found) == ["all", "zero-shot", "distant"]
    assert found["all"] == pytest.approx({"accuracy": 0.625, "loss": 3.0})
    assert found["zero-shot"] == pytest.approx({"accuracy": 1.6 / 3, "loss": 11 / 3})
    assert found["distant"] == pytest.approx({"accuracy": 0.45, "loss": 4.5})


def test_the_source_is_left_out_whichever_it_is() -> None:
    found = average(TESTS, spoken(TESTS), "sw")
    assert found["zero-shot"]["accuracy"] == pytest.approx(0.7)
    assert found["distant"]["accuracy"] == pytest.approx(0.5)


def test_dev_stands_for_the_source_where_dev_is_scored_in_other_languages() -> None:
    scores = {"dev": {"f1": 0.8}, "dev.de": {"f1": 0.6}, "dev.ja": {"f1": 0.4}}
    expected = {"all": {"f1": 0.6}, "zero-shot": {"f1": 0.5}, "distant": {"f1": 0.4}}
    found = average(scores, spoken(scores), "en")
    assert {name: pytest.approx(values) for name, values in found.items()} == expected


def test_averages_need_another_language_and_a_score_in_each() -> None:
    assert average({"test": {"f1": 0.5}}, {}, "en") == {}
    assert average({"test.en": {"f1": 0.5}}, {"test.en": "en"}, "en") == {}
    near = average(
        {"test.de": {"f1": 0.5, "mse": 1.0}, "test.fr": {"f1": 0.3, "mse": None}},
        {"test.de": "de", "test.fr": "fr"},
        "en",
    )
    assert near == {"zero-shot": {"f1": 0.4}}


def test_distant_languages_are_outside_of_the_family() -> None:
    codes = ["ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]
    assert distant_languages(codes) == ("ar", "sw", "th", "tr", "vi", "zh")
    assert set(distant_languages(codes, "paper", "xnli")) == {"ar", "el", "sw", "th", "tr", "ur", "vi", "zh"}
    assert distant_languages(["pt-BR", "zh_Hans", "pcm", "hau"]) == ("zh_Hans", "hau")


@pytest.mark.parametrize("named", [("german", "french", "swahili"), ("deu", "fra", "swh_Latn"), ("DE", "fr_FR", "sw")])
def test_languages_are_known_by_their_names_and_longer_codes(named: tuple[str, str, str]) -> None:
    near, nearer, far = (f"test.{language}" for language in named)
    scores = {near: {"f1": 0.8}, nearer: {"f1": 0.6}, far: {"f1": 0.1}}
    found = average(scores, spoken(scores), "english")
    assert found == {"zero-shot": {"f1": pytest.approx(0.5)}, "distant": {"f1": 0.1}}


def test_no_average_over_distant_languages_is_made_up_if_one_is_not_known() -> None:
    scores = {"test.klingon": {"f1": 0.8}, "test.sw": {"f1": 0.2}}
    assert average(scores, spoken(scores), "en") == {"zero-shot": {"f1": 0.5}}


def test_averages_have_names_for_people() -> None:
    assert [average_label(name) for name in ("zero-shot", "test.de")] == ["zero-shot average", "test.de"]


@pytest.mark.parametrize(
    ("task", "name", "table"), [("POS", "udpos", 12), ("NER", "wikiann", 13), ("XNLI", "xnli", 14)]
)
def test_a_papers_averages_follow_from_its_languages(shared: Path, task: str, name: str, table: int) -> None:
    def rows(number: int) -> list[dict[str, str]]:
        file = shared / f"papers/tables/adaptereff_table{number:02}.csv"
        with file.open(encoding="utf-8") as lines:
            return [row for row in csv.DictReader(lines) if row["task"] == task and "cited" not in row["method"]]

    averages = {(row["method"], row["language"]): float(row["value"]) for row in rows(3)}
    for method in {method for method, _ in averages}:
        scores = {
            f"test.{row['language']}": {"score": float(row["value"])}
            for row in rows(table)
            if row["method"] == method and row["language"] != "avg"
        }
        found = average(scores, spoken(scores), "en", definition="paper", task=name)
        for ours, theirs in {"all": "all", "zero-shot": "target", "distant": "distant"}.items():
            assert found[ours]["score"] == pytest.approx(averages[method, theirs], abs=0.011)
