"""How many more runs would decide a claim, by its rule and by the side on which its differences lie."""

from __future__ import annotations

from evidence.deciding import RequiredRepeats, required_repeats
from gradgate.papers.claims.base import ClaimCheck, ClaimOutcome
from gradgate.papers.claims.numbers import Key, Numbers, Place
from gradgate.papers.claims.rules import all_of, any_of, both, decided_by_none, most_of
from gradgate.papers.claims.thresholds import above, below, level

PLACE = Place("m", "t")


def finding(mean: float, spread: float = 3.0, place: Place = PLACE) -> ClaimCheck:
    """A difference that is claimed to be above 0, of three seeds."""
    scores = {Key(place, "one", "en"): {0: mean - spread, 1: mean, 2: mean + spread}}
    return above(Numbers(scores, exact=False), "x", lambda score: score(place, "one", "en"))


def needed(outcome: ClaimOutcome) -> tuple[int, str] | None:
    required = required_repeats(outcome)
    return None if required is None else (required.repeats, required.state)


NEAR, UP, DOWN = finding(0.2), finding(2.0), finding(-1.5)


def test_the_fixtures_are_undecided_and_lean_to_their_side() -> None:
    assert {each.state for each in (NEAR, UP, DOWN)} == {"cannot tell"}
    assert [each.leans for each in (NEAR, UP, DOWN)] == ["holds", "holds", "fails"]
    assert NEAR.repeats_needed > DOWN.repeats_needed > UP.repeats_needed  # type: ignore[operator]


def test_one_part_that_leans_the_other_way_decides_a_claim_on_all() -> None:
    outcome = all_of([NEAR, UP, DOWN])
    assert needed(outcome) == (outcome.findings[2].repeats_needed, "fails")
    outcome = all_of([UP, NEAR])
    assert needed(outcome) == (outcome.findings[1].repeats_needed, "holds")


def test_the_nearest_part_that_leans_to_it_decides_a_claim_on_any() -> None:
    outcome = any_of([DOWN, NEAR])
    assert needed(outcome) == (outcome.findings[1].repeats_needed, "holds")
    outcome = any_of([DOWN, finding(-1.0)])
    assert needed(outcome) == (outcome.findings[1].repeats_needed, "fails")


def test_most_takes_as_many_parts_as_its_rule() -> None:
    outcome = most_of([finding(mean, place=Place("m", f"task with {mean}")) for mean in (2.0, 0.2, -1.5)])
    assert needed(outcome) == (outcome.findings[1].repeats_needed, "holds")


def test_a_half_that_lacks_its_numbers_can_only_fail() -> None:
    lacking = all_of([], "needs more")
    assert needed(both(all_of([UP]), lacking)) is None
    assert needed(both(all_of([DOWN]), lacking)) == (DOWN.repeats_needed, "fails")


def test_a_claim_of_less_leans_to_what_is_below_and_one_of_equality_to_none() -> None:
    scores = {Key(PLACE, "one", "en"): {0: -4.0, 1: -1.0, 2: 2.0}}
    numbers = Numbers(scores, exact=False)
    assert below(numbers, "x", lambda score: score(PLACE, "one", "en")).leans == "holds"
    assert level(numbers, "x", lambda score: score(PLACE, "one", "en"), 2.0).leans is None


def test_a_claim_on_other_data_than_it_names_has_no_number() -> None:
    assert needed(all_of([UP])) is not None
    assert needed(decided_by_none(all_of([UP]), "not on XNLI")) is None


def test_a_number_says_from_how_many_parts_it_was_picked() -> None:
    assert str(RequiredRepeats(101, "run", "holds")) == "more than 100 runs would show that it holds"
    assert str(required_repeats(all_of([NEAR, UP, DOWN]))).endswith("would show that it fails, by one of 3 parts")
    assert str(required_repeats(all_of([NEAR, UP]))).endswith("would show that it holds")
