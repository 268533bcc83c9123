"""A verdict as a sentence: the difference, its evidence, and no more than these allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gradgate.report.verdict_sentence import sentence
from gradgate.settings.imports import ImportSettings
from gradgate.study.importing.judgeable import judgeable_rows
from gradgate.study.verdicts import ArmVerdict, verdicts_of

FULL = [0.70, 0.72, 0.71, 0.73, 0.705]


def judged(
    scores: Mapping[str, Sequence[float]], metric: str = "accuracy", pair: str | None = None
) -> list[ArmVerdict]:
    """The verdicts of some arms against the first."""
    rows = [
        {"arm": arm, "seed": seed, "metric": metric, "score": score}
        for arm, own in scores.items()
        for seed, score in enumerate(own)
    ]
    (results,) = judgeable_rows(rows, ImportSettings(pair=pair)).conditions
    return verdicts_of(results)


def test_a_better_arm() -> None:
    better, other = judged(
        {"full": FULL, "lora": [0.75, 0.76, 0.74, 0.77, 0.755], "head": [0.71, 0.70, 0.73, 0.72, 0.7]}
    )
    assert sentence(better) == (
        "lora against full: +4.2 points of accuracy (corrected 95% CI +2.9 to +5.5, 5 pairs, p < 0.001 after Holm's "
        "correction for 2 tests): better than full."
    )
    assert sentence(other).endswith(
        "p = 0.895 after Holm's correction for 2 tests): inconclusive; about 21 seeds would decide."
    )


def test_a_loss_has_its_own_unit_and_lower_is_better() -> None:
    (worse,) = judged({"full": FULL, "lora": [0.75, 0.76, 0.74, 0.77, 0.755]}, "loss")
    assert sentence(worse).startswith("lora against full: +0.042 loss (95% CI ")
    assert sentence(worse).endswith("worse than full.")


def test_equivalence_and_non_inferiority_name_the_margin() -> None:
    (equal,) = judged({"full": FULL, "lora": [0.701, 0.719, 0.711, 0.729, 0.706]})
    assert sentence(equal).endswith("equivalent to full within 1 point.")
    (above,) = judged({"full": FULL, "lora": [0.700, 0.735, 0.705, 0.745, 0.713]})
    assert sentence(above).endswith("not worse than full by more than 1 point.")


def test_one_run_has_no_test() -> None:
    (one,) = judged({"full": [0.7], "lora": [0.9]})
    assert sentence(one) == (
        "lora against full: +20.0 points of accuracy (1 common seed: no interval or test); inconclusive."
    )


def test_nothing_in_common_has_no_difference() -> None:
    rows = [{"arm": "full", "seed": 0, "accuracy": 0.7}, {"arm": "lora", "seed": 1, "accuracy": 0.9}]
    (results,) = judgeable_rows(rows, ImportSettings()).conditions
    (apart,) = verdicts_of(results)
    assert sentence(apart) == "lora against full: no seed that both finished: no comparison; inconclusive."


def test_runs_that_nothing_pairs_are_counted_on_both_sides() -> None:
    (apart,) = judged({"full": FULL, "lora": [0.75, 0.76, 0.74, 0.77]}, pair="none")
    assert "4 and 5 unpaired runs" in sentence(apart)


def test_collapsed_runs_are_said_with_the_word_without_them() -> None:
    (lost,) = judged({"full": FULL, "lora": [0.75, 0.76, 0.74, 0.77, 0.1]})
    assert "inconclusive" in sentence(lost)
    assert sentence(lost).endswith("1 of 5 runs of lora and 0 of 5 of full collapsed; without them: better than full.")


@pytest.mark.parametrize("reference", ["full", "head"])
def test_another_reference_may_be_asked_for(reference: str) -> None:
    rows = [
        {"arm": arm, "seed": seed, "accuracy": score + base}
        for arm, base in (("full", 0.0), ("lora", 0.05), ("head", -0.1))
        for seed, score in enumerate(FULL)
    ]
    (results,) = judgeable_rows(rows, ImportSettings()).conditions
    found = verdicts_of(results, reference=reference)
    assert {each.reference for each in found} == {reference}
    assert {each.arm for each in found} == {"full", "lora", "head"} - {reference}
