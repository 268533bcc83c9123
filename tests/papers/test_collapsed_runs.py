"""Claims with and without collapsed runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.cli import run
from gradgate.papers.check import check_studies
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.collapsed import without_collapsed
from gradgate.papers.claims.numbers import DEV_MEAN, SEED_SPREAD, Key, Numbers, Place, printed
from gradgate.papers.recorded import write_numbers

PLACE = Place("MT-RoBERTa-large", "SST-2")
FROZEN = Key(PLACE, "frozen 17/24", "en")
FULL = Key(PLACE, "baseline", "en")
SCORES = {
    FULL: {seed: 90.0 + 0.1 * seed for seed in range(6)},
    FROZEN: {seed: 91.0 + 0.2 * seed for seed in range(5)} | {5: 50.9},
}


def numbers(scores: dict[Key, dict[int, float]]) -> Numbers:
    return Numbers(scores, exact=False)


def test_a_run_far_below_its_arm_is_left_out_of_all_its_scores() -> None:
    scores = SCORES | {FROZEN._replace(on=DEV_MEAN): dict.fromkeys(range(6), 80.0)}
    steady = without_collapsed(numbers(scores))
    assert steady.scores[FULL] == SCORES[FULL]
    assert set(steady.scores[FROZEN]) == set(steady.scores[FROZEN._replace(on=DEV_MEAN)]) == set(range(5))


def test_numbers_without_collapsed_runs_stay_the_same_object() -> None:
    there = numbers({FULL: SCORES[FULL]})
    assert without_collapsed(there) is there
    on_print = printed(["elsa_table03"])
    assert without_collapsed(on_print) is on_print


def test_a_value_per_learning_rate_stays() -> None:
    spread = {5: 2.0, 0: 1.0}
    scores = SCORES | {FROZEN._replace(on=SEED_SPREAD): spread}
    assert without_collapsed(numbers(scores)).scores[FROZEN._replace(on=SEED_SPREAD)] == spread


@pytest.mark.parametrize(("average", "left"), [({0, 1, 2, 3, 4, 5}, 6), ({0, 1, 2, 3, 4}, 5)])
def test_the_average_over_languages_tells_not_a_single_one(average: set[int], left: int) -> None:
    scores = {
        FROZEN._replace(on="zh"): SCORES[FROZEN],
        FROZEN._replace(on="avg"): {seed: 80.0 + 0.1 * seed if seed in average else 20.0 for seed in range(6)},
    }
    assert len(without_collapsed(numbers(scores)).scores[FROZEN._replace(on="zh")]) == left


def test_a_verdict_is_given_with_and_without_them(tmp_path: Path) -> None:
    file = tmp_path / "study.csv"
    write_numbers({"study": {"elsa": numbers(SCORES)}}, file)
    (verdict,) = (each for each in check_studies([file], "elsa") if each.claim.id == "E5")
    assert verdict.outcome.state == "cannot tell"
    assert verdict.without_collapsed is not None
    assert verdict.without_collapsed.state == "holds"
    record = verdict.record()["without_collapsed"]
    assert (record["state"], len(record["findings"])) == ("holds", 1)
    assert "5 seeds" in record["findings"][0]["text"]


def test_there_is_no_second_verdict_if_no_run_collapsed(tmp_path: Path) -> None:
    file = tmp_path / "study.csv"
    steady = without_collapsed(numbers(SCORES))
    write_numbers({"study": {"elsa": steady}}, file)
    (verdict,) = (each for each in check_studies([file], "elsa") if each.claim.id == "E5")
    assert verdict.outcome == check(find_claim("E5"), steady)
    assert verdict.record()["without_collapsed"] is None


def test_the_command_says_it_below_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "study.csv"
    write_numbers({"study": {"elsa": numbers(SCORES)}}, file)
    assert run(["papers", str(file), "--paper", "elsa"]) == 0
    verdict, _, steady = capsys.readouterr().out.partition("without collapsed runs: holds")
    assert "E5  cannot tell" in verdict
    assert "holds: SST-2, MT-RoBERTa-large: frozen 17/24 - baseline" in " ".join(steady.split())
