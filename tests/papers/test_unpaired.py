"""Runs that nothing pairs: every run of each arm counts, and the error is that of independent samples."""

from __future__ import annotations

import pytest

from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import NOT_PAIRED, Key, Numbers, Place
from gradgate.papers.claims.quantities import minus, ratio, value
from gradgate.papers.claims.unpaired import compare_quantity
from gradgate.statistics import compare_unpaired

PLACE = Place("BERT-base", "MNLI")
ONE, OTHER = {1: 80.0, 2: 82.0, 3: 81.5, 4: 80.5}, {11: 79.0, 12: 78.0, 13: 79.5}


def numbers(scores: dict[Key, dict[int, float]]) -> Numbers:
    return Numbers(scores, exact=False, notes=(NOT_PAIRED,))


BOTH = numbers({Key(PLACE, "one", "en"): ONE, Key(PLACE, "other", "en"): OTHER})


def test_the_difference_of_two_arms_without_a_common_seed_is_that_of_welch() -> None:
    found = compare_quantity(BOTH, minus(PLACE, "one", "other", "en"), 0.0)
    welch = compare_unpaired(list(ONE.values()), list(OTHER.values()))
    assert (found.difference, found.error, found.freedom, found.p) == pytest.approx(
        (welch.difference, welch.error, welch.freedom, welch.p)
    )
    assert found.interval == pytest.approx(welch.interval)


def test_the_error_of_a_ratio_is_that_of_the_delta_method_to_first_order() -> None:
    found = compare_quantity(BOTH, ratio(PLACE, "one", "other", "en"), 1.0)
    ours, theirs = 81.0, 236.5 / 3
    variances = [2.5 / 3 / 4, 0.5833333 / 3]
    expected = (variances[0] / theirs**2 + variances[1] * ours**2 / theirs**4) ** 0.5
    assert found.difference == pytest.approx(ours / theirs - 1)
    assert found.error == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("few", ["one", "other"])
def test_one_run_of_an_arm_is_not_taken_for_its_exact_mean(few: str) -> None:
    scores = {key: dict(list(own.items())[:1]) if key.method == few else own for key, own in BOTH.scores.items()}
    found = compare_quantity(numbers(scores), minus(PLACE, "one", "other", "en"), 0.0)
    assert (found.n, found.interval, found.p) == (1, None, None)
    assert found.difference is not None


def test_scores_of_the_same_runs_are_one_sample() -> None:
    twice = numbers({Key(PLACE._replace(task=task), "one", "en"): ONE for task in ("MNLI", "MNLI-mm")})
    apart = numbers({Key(PLACE._replace(task=task), "one", "en"): ONE for task in ("MNLI", "RTE")})

    def error(of: Numbers, other: str) -> float:
        mean = lambda score: (score(PLACE, "one", "en") + score(PLACE._replace(task=other), "one", "en")) / 2  # noqa: E731
        return compare_quantity(of, mean, 0.0).error or 0.0

    alone = compare_quantity(twice, value(PLACE, "one", "en"), 0.0).error
    assert error(twice, "MNLI-mm") == pytest.approx(alone)
    assert error(apart, "RTE") == pytest.approx((alone or 0.0) / 2**0.5)


def test_runs_that_are_listed_under_two_models_are_one_sample() -> None:
    copy = PLACE._replace(model="another")
    mean = lambda score: (score(PLACE, "one", "en") + score(copy, "one", "en")) / 2  # noqa: E731
    errors = {
        name: compare_quantity(numbers({Key(PLACE, "one", "en"): ONE, Key(copy, "one", "en"): own}), mean, 0.0).error
        for name, own in {"same": ONE, "other": {seed: score + 0.01 for seed, score in ONE.items()}}.items()
    }
    alone = compare_quantity(numbers({Key(PLACE, "one", "en"): ONE}), value(PLACE, "one", "en"), 0.0).error or 0.0
    assert errors == {"same": pytest.approx(alone), "other": pytest.approx(alone / 2**0.5)}


def test_a_claim_holds_over_all_runs_of_arms_that_share_no_seed() -> None:
    place = Place("MT-RoBERTa-large", "SST-2")
    scores = {Key(place, "baseline", "en"): OTHER, Key(place, "frozen 17/24", "en"): ONE}
    claim = find_claim("E5")
    assert check(claim, numbers(scores)).state == "holds"
    assert check(claim, Numbers(scores, exact=False)).state == "cannot tell"  # no pair


def test_an_arm_without_spread_decides_nothing() -> None:
    place = Place("MT-RoBERTa-large", "SST-2")
    same = {Key(place, "baseline", "en"): {1: 90.0, 2: 90.0}, Key(place, "frozen 17/24", "en"): {1: 95.0, 2: 95.0}}
    outcome = check(find_claim("E5"), numbers(same))
    assert outcome.state == "cannot tell"
    assert "no spread" in outcome.findings[0].text
