"""What a study found, and the sentence and cautions that say so."""

from __future__ import annotations

import pytest
from scipy import stats

from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import cautions, verdict
from gradgate.study.results import read_study
from support.study_folder import fail, finish, write_study

FULL = [0.68, 0.70, 0.72]
GRADUAL = [0.70, 0.73, 0.74]  # differences 0.02, 0.03, 0.02: mean 0.02333, sd 0.00577, t = 7, p = 0.0198
METHODS = ("full", "gradual:every=40", "head")


def findings(folder, **study):
    return summarize_study(read_study(write_study(folder, **study)))


def test_methods_are_compared_to_the_first_over_common_seeds(tmp_path):
    found = findings(tmp_path, scores={"full": FULL, "gradual:every=40": GRADUAL})
    first, second = found.arms
    assert first.versus is None
    assert second.versus.difference == pytest.approx(0.07 / 3)
    assert second.versus.p == pytest.approx(stats.ttest_rel(GRADUAL, FULL).pvalue)
    assert second.cost.seconds_per_step == 0.010
    assert [method.name for method in found.best] == ["gradual:every=40"]


def test_p_values_are_corrected_over_the_tests_that_were_done(tmp_path):
    scores = {"full": FULL, "gradual:every=40": GRADUAL, "head": [0.6, 0.66, 0.64]}
    found = findings(tmp_path, methods=(*METHODS, "bitfit"), scores=scores)
    assert found.tests_done == 2
    raw = [method.versus.p for method in found.arms[1:3]]
    assert found.arms[1].p == pytest.approx(2 * min(raw))
    assert found.arms[2].p == pytest.approx(max(2 * raw[0], raw[1]))
    assert found.arms[3].p is None


def test_the_answer_names_the_best_with_its_evidence(tmp_path):
    found = findings(tmp_path, scores={"full": FULL, "gradual:every=40": GRADUAL})
    assert verdict(found) == (
        "gradual:every=40 scored highest on test: 72.3 ± 2.1 macro-F1 (3 seeds), +2.3 over full "
        "(95% CI +0.9 to +3.8, p = 0.020): better than full."
    )
    assert cautions(found) == ["3 seeds: only very large differences can be detected."]


def test_a_correction_can_take_the_answer_back(tmp_path):
    scores = {"full": FULL, "gradual:every=40": GRADUAL, "head": [0.5, 0.7, 0.8], "bitfit": [0.5, 0.6, 0.8]}
    assert verdict(findings(tmp_path, methods=tuple(scores), scores=scores)).endswith(
        "+2.3 over full (corrected 95% CI −0.2 to +4.9, p = 0.059 after Holm's correction for 3 tests): not worse than "
        "full by more than 1 point."
    )


def test_when_the_reference_is_best_the_nearest_other_is_named(tmp_path):
    scores = {"full": GRADUAL, "gradual:every=40": FULL, "head": [0.5, 0.51, 0.53]}
    answer = verdict(findings(tmp_path, methods=METHODS, scores=scores))
    assert answer.startswith("full scored highest on test: 72.3 ± 2.1 macro-F1 (3 seeds). It is the reference; ")
    assert (
        "the next best, gradual:every=40, is at −2.3 against full (corrected 95% CI −3.8 to −0.9, p = 0.020 after"
        in answer
    )


def test_lower_is_better_for_errors(tmp_path):
    scores = {"full": GRADUAL, "gradual:every=40": FULL}
    found = findings(tmp_path, scores=scores, metric="mse", metric_higher_is_better=False)
    assert verdict(found).startswith(
        "gradual:every=40 scored best (lowest) on test: 0.700 ± 0.020 mean squared error (3 seeds), −0.023 against full"
    )


def test_one_seed_says_nothing_about_chance(tmp_path):
    found = findings(tmp_path, seeds=(0,), scores={"full": [0.6], "gradual:every=40": [0.7]})
    assert verdict(found) == (
        "gradual:every=40 scored highest on test: 70.0 macro-F1 (1 seed), +10.0 over full on the only seed that "
        "both finished: inconclusive, because one seed has no spread."
    )
    assert cautions(found) == ["1 seed: no spread, interval or test."]


def test_one_method_has_nothing_to_be_compared_to(tmp_path):
    found = findings(tmp_path, methods=("full",), scores={"full": FULL})
    assert verdict(found) == (
        "full reached 70.0 ± 2.0 macro-F1 (3 seeds) on test. It is the only method of this study, so there is "
        "nothing to compare it with."
    )


def test_level_methods_are_all_named(tmp_path):
    found = findings(tmp_path, scores={"full": FULL, "gradual:every=40": FULL[::-1]})
    assert verdict(found) == "full and gradual:every=40 have the same mean on test: 70.0 ± 2.0 macro-F1 (3 seeds)."


def test_a_constant_difference_cannot_be_judged(tmp_path):
    found = findings(tmp_path, scores={"full": FULL, "gradual:every=40": [score + 0.01 for score in FULL]})
    assert verdict(found).endswith(
        "+1.0 over full (the same difference for all 3 seeds: no spread to test against): inconclusive."
    )


def test_without_the_reference_nothing_is_compared(tmp_path):
    found = findings(tmp_path, methods=METHODS, scores={"gradual:every=40": GRADUAL, "head": FULL})
    assert verdict(found).endswith("not compared to full, which shares no finished seed with it.")


def test_nothing_finished(tmp_path):
    found = findings(tmp_path)
    fail(tmp_path, "full", 0)
    found = summarize_study(read_study(tmp_path))
    assert verdict(found) == "Nothing has finished yet."
    assert cautions(found) == ["6 runs planned: 0 finished, 1 failed and 5 not finished yet."]


def test_cautions_name_unfinished_runs_and_methods_with_fewer_seeds(tmp_path):
    found = findings(tmp_path, scores={"full": FULL, "gradual:every=40": GRADUAL[:2]})
    assert cautions(found) == [
        "6 runs planned: 5 finished and 1 not finished yet.",
        "full: 3 seeds: only very large differences can be detected.",
        "gradual:every=40: 2 seeds: only very large differences can be detected.",
    ]


def test_a_study_without_a_test_split_says_so(tmp_path):
    found = findings(tmp_path, scores={"full": FULL}, tests=())
    assert found.split == "dev"
    assert any(note.startswith("There is no test split: the dev score both selected") for note in cautions(found))


def test_few_common_seeds_are_named_where_each_side_has_more(tmp_path):
    write_study(tmp_path, seeds=(0, 1, 2, 3, 4), scores={"full": [0.5, 0.6, 0.7]})
    for seed in (2, 3, 4):
        finish(tmp_path, "gradual:every=40", seed, 0.6 + seed / 100)
    notes = cautions(summarize_study(read_study(tmp_path)))
    assert "gradual:every=40: 1 common seed: no interval or test (against full)." in notes
