"""The learning rates that the advice names: the middle one that an arm took, or a short range around both arms'."""

from __future__ import annotations

from evidence.effects import FULL
from evidence.rates import ComparedRates, rate_to_take, rates_to_try, study_rates
from evidence.studies import read_studies

TRIED = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)


def test_the_rate_is_the_middle_one_that_was_taken() -> None:
    assert rate_to_take([1e-3, 1e-5, 1e-4]) == 1e-4
    assert rate_to_take([1e-3, 1e-4]) == 1e-4
    assert rate_to_take([]) is None


def test_the_range_has_the_rates_of_both_arms_and_one_beyond_at_each_end() -> None:
    assert rates_to_try([ComparedRates(TRIED, (3e-4,), (3e-5,))]) == (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def test_the_range_goes_beyond_what_was_tried_where_an_arm_took_an_end() -> None:
    assert rates_to_try([ComparedRates(TRIED, (3e-3,), (1e-5,))]) == (3e-6, *TRIED, 1e-2)
    assert rates_to_try([ComparedRates((1e-5, 2e-5, 3e-5), (1e-5,), (3e-5,))]) == (3e-6, 1e-5, 2e-5, 3e-5, 9e-5)
    assert rates_to_try([ComparedRates((1e-5, 1e-4), (1e-4,), (1e-5,))]) == (3e-6, 1e-5, 1e-4, 3e-4)


def test_comparisons_whose_rates_are_not_known_count_only_if_there_are_no_others() -> None:
    known, unknown = ComparedRates(TRIED, (1e-4,), (1e-4,)), ComparedRates((1e-3, 3e-3))
    assert rates_to_try([known, unknown]) == (3e-5, 1e-4, 3e-4)
    assert rates_to_try([unknown]) == (3e-4, 1e-3, 3e-3, 1e-2)
    assert rates_to_try([]) == ()


def test_the_rates_of_a_study_are_those_of_its_committed_search() -> None:
    (study,) = read_studies(["real-adapters-glue-stsb"])
    assert study_rates(study, "houlsby:size=64", FULL) == ComparedRates(TRIED, (3e-4,), (3e-5,))


def test_a_study_without_a_committed_search_knows_only_what_was_tried() -> None:
    (study,) = read_studies(["real-adapters-sst2"])
    assert study_rates(study, "houlsby:size=256", FULL) == ComparedRates((1e-4, 3e-4, 1e-3))
