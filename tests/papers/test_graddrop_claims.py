"""Claims of the GradDrop paper on measured numbers: all rivals, gains of languages, t statistics and thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import Key, Numbers, Place, printed
from gradgate.papers.claims.quantities import t_gap

HOLDS, FAILS, UNKNOWN = "holds", "fails", "cannot tell"
PLACE = Place("XLM-R-Large", "XNLI")


@pytest.mark.parametrize(("tasks", "state"), [(("NC", "POS"), UNKNOWN), (("NC", "POS", "QAM"), FAILS)])
def test_two_tasks_cannot_tell_of_a_mean_over_nine(tasks: tuple[str, ...], state: str) -> None:
    scores = {}
    for task in tasks:
        for label, mean in (("SFT", 70.0), ("Layer-GradDrop", 60.0), ("GradDrop-Epoch", 60.0)):
            place = Place("XLM-R-Large", task)
            scores[Key(place, label, "avg")] = {seed: mean + seed * (label != "SFT") for seed in range(3)}
    assert check(find_claim("G2"), Numbers(scores, exact=False)).state == state


RIVALS = ("GradFreeze-TopDown", "GradFreeze-BottomUp", "Anneal-GradDrop", "Anneal-Layer-GradDrop", "Layer-GradDrop")


@pytest.mark.parametrize(
    ("rivals", "state"),
    [
        ({"SFT": 60.0}, UNKNOWN),
        ({"SFT": 80.0}, FAILS),
        (dict.fromkeys(("SFT", *RIVALS), 60.0), UNKNOWN),
        (dict.fromkeys(("SFT", *RIVALS, "GradDrop-Epoch"), 60.0), HOLDS),
    ],
)
def test_only_all_of_its_rivals_show_that_a_method_is_the_best(rivals: dict[str, float], state: str) -> None:
    arms = {label: [mean, mean + 0.9, mean + 2.1] for label, mean in rivals.items()}
    scores = {Key(PLACE, label, "avg"): dict(enumerate(values)) for label, values in arms.items()}
    scores[Key(PLACE, "GradDrop", "avg")] = {0: 70.0, 1: 71.0, 2: 72.0}
    outcome = check(find_claim("G10"), Numbers(scores, exact=False))
    assert outcome.state == state
    assert any("not compared with" in finding.text for finding in outcome.findings) is (len(rivals) < 7)


@pytest.mark.parametrize(
    ("of_ar_and_sw", "of_el", "state"), [(0.0, 0.0, UNKNOWN), (40.0, 0.0, HOLDS), (0.0, 40.0, FAILS)]
)
def test_noise_alone_does_not_deny_which_languages_gain_most(of_ar_and_sw: float, of_el: float, state: str) -> None:
    gains = {"ar": of_ar_and_sw, "sw": of_ar_and_sw, "el": of_el, **dict.fromkeys(("de", "fr", "hi", "th", "vi"), 0.0)}
    random = np.random.default_rng(8)
    scores = {}
    for label in ("SFT", "GradDrop", "Layer-GradDrop", "GradDrop-Epoch"):
        for language, gain in gains.items():
            values = 50 + (label != "SFT") * gain + random.normal(0, 2, 8)
            scores[Key(PLACE, label, language)] = dict(enumerate(values.tolist()))
    assert check(find_claim("G8"), Numbers(scores, exact=False)).state == state


def test_the_t_statistics_are_those_of_scipy_on_the_printed_languages() -> None:
    numbers = printed(["graddrop_table03"])
    place = numbers.places("SFT")[0]
    languages = numbers.languages(place, "SFT", "GradDrop", "GradDrop-Epoch")
    score = {m: [numbers.scores[Key(place, m, on)][0] for on in languages] for m in numbers.methods(place)}
    epoch, drop = (stats.ttest_rel(score[m], score["SFT"]).statistic for m in ("GradDrop-Epoch", "GradDrop"))
    gap = numbers.by_seed(t_gap([(place, languages)], "GradDrop-Epoch", "GradDrop", "SFT"))
    assert gap == {0: pytest.approx(epoch - drop)}


@pytest.mark.parametrize(("gain", "state"), [(0.3, FAILS), (0.72, HOLDS)])
def test_a_gain_must_be_as_large_as_the_paper_says(gain: float, state: str) -> None:
    scores = {
        Key(PLACE, name, "avg"): {0: 70.0 + more, 1: 71.01 + more, 2: 72.02 + more + (0.01 if more else 0)}
        for name, more in (("SFT", 0.0), ("GradDrop", gain))
    }
    assert check(find_claim("G1"), Numbers(scores, exact=False)).state == state


def scored(labels: tuple[str, ...], tasks: tuple[str, ...], best: tuple[str, ...]) -> dict[Key, dict[int, float]]:
    """The best methods are ten points above the others."""
    return {
        Key(PLACE._replace(task=task), label, "avg"): {
            seed: 60 + 10 * (label in best) + (1 + 0.1 * (label in best)) * seed for seed in range(3)
        }
        for task in tasks
        for label in labels
    }


def test_a_rival_that_was_compared_on_no_task_of_the_best_is_named() -> None:
    best, tasks = ("Layer-GradDrop", "GradDrop-Epoch"), ("XNLI", "NC", "QAM")
    others = ("SFT", "GradFreeze-TopDown", "GradFreeze-BottomUp", "GradDrop", "Anneal-Layer-GradDrop")
    most = scored((*best, *others), tasks, best)
    apart = scored(("Anneal-GradDrop",), ("POS",), best)
    outcome = check(find_claim("G2"), Numbers({**most, **apart}, exact=False))
    assert outcome.state == UNKNOWN
    assert outcome.findings[-1].text.endswith("not compared with Anneal-GradDrop")
    whole = Numbers({**most, **scored(("Anneal-GradDrop",), tasks, best)}, exact=False)
    assert check(find_claim("G2"), whole).state == HOLDS
    g3 = scored(("GradFreeze-TopDown", "GradFreeze-BottomUp"), tasks, ("GradFreeze-TopDown",))
    elsewhere = check(find_claim("G3"), Numbers({**g3, **scored(("SFT",), ("POS",), ("SFT",))}, exact=False))
    assert (elsewhere.state, elsewhere.findings[-1].text.endswith("not compared with SFT")) == (UNKNOWN, True)
