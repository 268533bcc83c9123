"""What the page advises: one sentence for each state of the evidence, which never says more than the data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

import gradgate as gg
from gradgate.report.advice import Advice, advise
from gradgate.report.study_summary import summarize_study
from gradgate.statistics import pairs_for_equivalence, pairs_needed
from gradgate.study.results import read_study
from support.study_folder import fail, write_study

BASE = [0.70, 0.71, 0.72, 0.70, 0.73]
NOISE = [0.001, -0.001, 0.002, 0.0, -0.002]
HEAD, GRADUAL, OTHER = "head", "gradual:every=40", "gradual:every=20"


def near(by: float, noise: float = 1.0) -> list[float]:
    """Scores beside those of ``BASE``, by some difference with some noise."""
    return [score + by + noise * own for score, own in zip(BASE, NOISE, strict=True)]


def advised(folder: Path, scores: Mapping[str, Sequence[float]], **task: object) -> Advice | None:
    methods = ("full", *(name for name in scores if name != "full"))
    write_study(folder, methods=methods, seeds=range(5), scores=scores, **task)  # type: ignore[arg-type]
    return advise(summarize_study(read_study(folder)))


def said(advice: Advice | None) -> str:
    assert advice is not None
    return f"{advice.headline} {' '.join(advice.reasons)}"


def test_a_winner_is_named_with_its_difference_and_interval_in_words(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": BASE, GRADUAL: near(0.05), HEAD: near(0.02, -1)})
    assert found is not None
    assert (found.headline, found.is_decided, found.arm.name) == (f"Use {GRADUAL}.", True, GRADUAL)
    assert "On test, over 5 seeds, gradual:every=40 is 5.0 points higher than full (corrected 95% int" in said(found)
    assert "and 3.0 points higher than head" in said(found)
    assert said(found).endswith("It is better than each of the 2 others.")


def test_the_interval_of_two_methods_is_the_t_interval(tmp_path: Path) -> None:
    from scipy import stats

    found = advised(tmp_path, {"full": BASE, GRADUAL: near(0.05)})
    half = stats.t.ppf(0.975, 4) * np.std(NOISE, ddof=1) / np.sqrt(5)
    assert f"(corrected 95% interval: {100 * (0.05 - half):.1f} to {100 * (0.05 + half):.1f} points)" in said(found)


def test_equally_good_methods_leave_the_choice_to_their_cost(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": near(0.0002), GRADUAL: BASE, HEAD: near(-0.2, -1)})
    assert found is not None
    assert found.headline == f"full and {GRADUAL} are equally good here within 1 point; {GRADUAL} is the cheapest."
    assert found.arm.name == GRADUAL, "the cheapest, not the highest mean"
    assert f"{GRADUAL} is the cheapest of these: 1.00 s of training time." in found.reasons


def test_a_better_method_is_the_winner_though_a_cheaper_one_is_within_the_margin(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": near(0.003, 0.5), GRADUAL: BASE})
    assert said(found).startswith("Use full.")
    assert said(found).endswith(f"Yet {GRADUAL} is within 1 point of it and cheaper: 1.00 s of training time.")


def test_an_undecided_comparison_is_inconclusive_and_says_what_would_decide(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": BASE, GRADUAL: near(0.01, 12)})
    assert found is not None
    assert (found.headline, found.is_decided) == (f"Inconclusive: no winner between {GRADUAL} and full.", False)
    assert "points lower to" in said(found)
    assert "seeds would decide." in said(found)


def test_an_undecided_runner_up_keeps_a_better_method_from_being_the_winner(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": BASE, GRADUAL: near(0.06, 4), OTHER: near(0.055, -8), HEAD: near(-0.2)})
    assert found is not None
    assert found.headline == f"Inconclusive: no winner between {GRADUAL} and {OTHER}."
    assert f"{GRADUAL} is 6.0 points higher than full (corrected 95% interval: " in said(found)
    assert ", so it is better." in said(found)
    assert "2 methods are worse." in said(found)


def test_lower_is_better_for_errors(tmp_path: Path) -> None:
    scores = {"full": BASE, GRADUAL: near(-0.2)}
    found = advised(tmp_path, scores, metric="mse", metric_higher_is_better=False)
    assert said(found).startswith(f"Use {GRADUAL}. On test, over 5 seeds, {GRADUAL} is 0.200 lower than full")
    assert "point" not in said(found)


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param({"full": [0.7], GRADUAL: [0.9]}, id="one seed"),
        pytest.param({"full": BASE, GRADUAL: BASE}, id="the same mean"),
        pytest.param({"full": BASE}, id="one method"),
        pytest.param({}, id="nothing"),
    ],
)
def test_nothing_is_advised_without_a_comparison(scores: dict[str, list[float]], tmp_path: Path) -> None:
    assert advised(tmp_path, scores) is None


def test_a_study_under_way_has_an_answer_so_far(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": BASE, GRADUAL: near(0.05), HEAD: []})
    assert found is not None
    assert found.headline == f"So far: Use {GRADUAL}."
    assert found.reasons[-1] == "head has no score to compare and 5 runs have not finished."


def test_a_method_of_which_every_run_failed_is_said_to_have_no_score(tmp_path: Path) -> None:
    advised(tmp_path, {"full": BASE, GRADUAL: near(0.05), HEAD: []})
    for seed in range(5):
        fail(tmp_path, HEAD, seed)
    found = advise(summarize_study(read_study(tmp_path)))
    assert found is not None
    assert found.reasons[-1] == "head has no score to compare."


def test_methods_that_share_no_seed_are_not_compared(tmp_path: Path) -> None:
    """Each shares seeds with the reference, and none with the other."""
    scores = {
        "full": {seed: 0.7 + 0.01 * seed for seed in range(6)},
        "b": {seed: 0.751 + 0.0101 * seed for seed in range(3)},
        "c": {seed: 0.75 + 0.0099 * seed for seed in range(3, 6)},
    }
    rows = [{"arm": arm, "seed": seed, "accuracy": score} for arm, own in scores.items() for seed, score in own.items()]
    study = gg.import_results(rows, tmp_path / "study")
    found = advise(summarize_study(read_study(study.path)))
    assert said(found).startswith("Inconclusive: no winner between b and c. On reported, b is not compared to c, which")
    assert "Runs with common seeds would decide." in said(found)


@pytest.mark.slow
def test_of_methods_that_are_all_equal_few_are_called_best(tmp_path: Path) -> None:
    """Of five equal methods the highest mean is picked by chance; at most 5 % of such studies may name a winner."""
    random = np.random.default_rng(0)
    methods = ("full", HEAD, GRADUAL, OTHER, "bitfit")
    named = 0
    for study in range(60):
        scores = {name: list(0.7 + random.normal(0, 0.05, 5)) for name in methods}
        found = advised(tmp_path / str(study), scores)
        named += found is not None and found.headline.startswith("Use")
    assert named <= 6  # of 60; more has a probability below 0.05 at 5 %


def test_the_seeds_that_would_decide_are_those_of_a_difference_or_of_equivalence(tmp_path: Path) -> None:
    found = advised(tmp_path, {"full": BASE, HEAD: near(0.009, 8.0)})
    assert found is not None
    assert not found.is_decided
    differences = [0.009 + 8 * own for own in NOISE]
    d = fmean(differences) / stdev(differences)
    needed = min(pairs_needed(d) or 10**6, pairs_for_equivalence(0.01 / stdev(differences), d) or 10**6)
    assert f"About {needed:,} seeds would decide." in found.reasons


def test_times_on_several_devices_choose_no_arm(tmp_path: Path) -> None:
    scores = {"full": BASE, GRADUAL: near(0.0005)}
    assert "cheapest" in said(advised(tmp_path / "one", scores))
    write_study(tmp_path / "two", methods=list(scores), seeds=range(5), scores=scores)
    file = next((tmp_path / "two").glob("runs/*/seed-0/scores.json"))
    record = json.loads(file.read_text())
    record["cost"]["device"] = "cuda (another)"
    file.write_text(json.dumps(record))
    assert "training time" not in said(advise(summarize_study(read_study(tmp_path / "two"))))
