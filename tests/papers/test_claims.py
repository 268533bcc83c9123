"""Claims of the papers: known answers on the numbers that they print, and honest ones on few seeds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradgate.errors import UsageError
from gradgate.methods import OPEN, Gate
from gradgate.methods.phases import Phase
from gradgate.methods.timeline import Timeline
from gradgate.papers.claims import ClaimOutcome, check, claims, find_claim
from gradgate.papers.claims.elsa import frozen_share
from gradgate.papers.claims.numbers import (
    DEV_BEST,
    DEV_MEAN,
    FLATNESS,
    LOSS_RISE,
    SAVED,
    SCHEDULES,
    TOP_DOWN,
    TRACE_AREA,
    TRACE_EARLY,
    TRACE_HILL,
    TRACE_PEAK,
    Key,
    LackingError,
    Numbers,
    Place,
    printed,
    together,
)
from gradgate.papers.claims.quantities import t_gap, value
from gradgate.papers.claims.rules import all_of, any_of, most_of
from gradgate.papers.claims.thresholds import above, below
from gradgate.papers.measured import closeness_to_top_down

HOLDS, FAILS, UNKNOWN = "holds", "fails", "cannot tell"
PLACE = Place("XLM-R-Large", "XNLI")

# Which of the papers' own numbers pass; a claim that is printed twice has two answers.
PRINTED = {
    "E1": (HOLDS,),
    "E2": (HOLDS, HOLDS),
    "E3": (HOLDS, HOLDS),
    "E4": (HOLDS,),
    "E5": (HOLDS, FAILS),
    "E6": (HOLDS,),
    "E7": (HOLDS,),
    "G1": (HOLDS,),
    "G2": (HOLDS,),
    "G3": (HOLDS,),
    "G5": (HOLDS,),
    "G6": (FAILS,),
    "G7": (FAILS, FAILS),
    "G8": (FAILS,),
    "G9": (FAILS,),
    "G10": (HOLDS,),
    "G11": (HOLDS,),
    "F1": (HOLDS,),
    "F2": (HOLDS,),
    "F3": (HOLDS,),
    "F5": (HOLDS,),
    "F6": (HOLDS,),
    "F7": (HOLDS,),
    "F8": (HOLDS,),
    "F11": (HOLDS,),
    "A2": (HOLDS,),
    "A3": (HOLDS,),
    "A4": (HOLDS,),
    "A6": (HOLDS, HOLDS),
    "A7": (HOLDS,),
    "A9": (HOLDS,),
    "A11": (HOLDS,),
}


def on_print(name: str, source: int = 0) -> ClaimOutcome:
    """A claim on the paper's own numbers."""
    claim = find_claim(name)
    return check(claim, printed(claim.sources[source]))


def measured(**scores: list[float]) -> Numbers:
    """Methods by their mean over languages for seeds 0, 1, ...; ``_`` stands for ``-``."""
    return Numbers(
        {Key(PLACE, name.replace("_", "-"), "avg"): dict(enumerate(values)) for name, values in scores.items()},
        exact=False,
    )


@pytest.mark.parametrize("name", PRINTED)
def test_the_printed_numbers_give_the_known_answers(name: str) -> None:
    answers = tuple(on_print(name, source).state for source in range(len(find_claim(name).sources)))
    assert answers == PRINTED[name]


@pytest.mark.parametrize(
    ("name", "source", "held", "of"),
    [("F1", 0, 7, 8), ("F5", 0, 6, 8), ("F6", 0, 7, 8), ("F7", 0, 11, 12), ("A3", 0, 3, 4), ("F3", 0, 16, 16)],
)
def test_as_many_parts_hold_in_print_as_are_known_to(name: str, source: int, held: int, of: int) -> None:
    states = [finding.state for finding in on_print(name, source).findings]
    assert (states.count("holds"), len(states)) == (held, of)


@pytest.mark.parametrize(
    ("name", "source", "number"),
    [
        ("G1", 0, 0.72),
        ("G5", 0, 3.16),
        ("G7", 0, -1.95),
        ("F2", 0, 2.03),
        ("E1", 0, 0.961),
        ("E3", 0, 0.953),
        ("E5", 0, 0.12),
        ("E5", 1, -0.44),
        ("A2", 0, 1.875),
        ("A4", 0, 2.52),
        ("F11", 0, 1.49),
    ],
)
def test_the_numbers_behind_an_answer_are_those_of_the_paper(name: str, source: int, number: float) -> None:
    shown = re.search(r"= (-?[\d.]+)", on_print(name, source).findings[0].text)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(number, abs=6e-4)


def test_the_one_variant_that_is_known_to_pass_passes() -> None:
    states = {re.search(r", (\S+):", f.text)[1]: f.state for f in on_print("G8").findings}  # type: ignore[index]
    assert states == {"GradDrop": "holds", "Layer-GradDrop": "fails", "GradDrop-Epoch": "fails"}


def test_names_are_unique_and_every_claim_has_a_test_or_a_reason() -> None:
    names = [claim.id for claim in claims()]
    assert len(names) == len(set(names)) == 8 + 11 + 11 + 11
    assert all((claim.check is None) == bool(claim.needs) for claim in claims())
    with pytest.raises(UsageError, match="no claim 'G99'"):
        find_claim("G99")


def test_nothing_measured_can_tell_nothing() -> None:
    assert {check(claim, Numbers({}, exact=False)).state for claim in claims()} == {UNKNOWN}


def test_a_clear_difference_over_seeds_holds_and_fails() -> None:
    better = measured(GradDrop=[70.0, 71.0, 72.0], SFT=[60.0, 60.9, 62.1])
    assert check(find_claim("G1"), better).state == HOLDS
    worse = measured(GradDrop=[60.0, 60.9, 62.1], SFT=[70.0, 71.0, 72.0])
    assert check(find_claim("G1"), worse).state == FAILS


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        ([70.0, 60.0, 65.0], [60.0, 70.0, 64.0], r"\[-?\d.* to .*\], 3 seeds"),
        ([70.0], [60.0], "1 seed"),
        ([70.0, 71.0], [60.0, 61.0], "the same for all 2 seeds"),
        ([], [60.0], "no score of GradDrop|needs"),
    ],
)
def test_what_seeds_cannot_show_cannot_be_told(ours: list[float], theirs: list[float], why: str) -> None:
    outcome = check(find_claim("G1"), measured(GradDrop=ours, SFT=theirs))
    assert outcome.state == UNKNOWN
    assert re.search(why, outcome.findings[0].text)


def test_transfer_is_not_told_by_a_study_of_english_alone() -> None:
    scores = {
        Key(PLACE, label, on): {seed: score + 0.1 * seed * seed for seed in range(3)}
        for label, score in (("Fine-tune", 60.0), ("Adapter-64", 70.0))
        for on in ("en", "de", "all", "target")
    }
    scores[Key(PLACE, "Adapter-64", "all")] = {0: 70.0, 1: 71.0, 2: 73.0}
    scores[Key(PLACE, "Adapter-64", "target")] = {0: 70.0, 1: 71.0, 2: 73.0}
    assert check(find_claim("A6"), Numbers(scores, exact=False)).state == HOLDS
    english = {key: by_seed for key, by_seed in scores.items() if key.on != "de"}
    assert check(find_claim("A6"), Numbers(english, exact=False)).state == UNKNOWN


def test_small_tasks_are_averaged_for_each_size_and_5000_examples_are_not_few() -> None:
    scores = {}
    for size, gain in (("1000", 3.0), ("2000", 1.0), ("5000", -9.0)):
        for label, mean in (("Fine-tune", 60.0), ("Adapter-256", 60.0 + gain)):
            for task in ("chemprot", "acl_arc", "scierc"):
                place = Place("MiniLM", task, size)
                scores[Key(place, label, "en")] = {s: mean + 0.1 * s * (label != "Fine-tune") for s in range(3)}
    outcome = check(find_claim("A2"), Numbers(scores, exact=False))
    assert outcome.state == HOLDS
    assert [finding.text.split(":")[0] for finding in outcome.findings] == [
        "MiniLM, 1000 examples, mean over 3 tasks",
        "MiniLM, 2000 examples, mean over 3 tasks",
    ]


@pytest.mark.parametrize(("tasks", "state"), [(("NC", "POS"), UNKNOWN), (("NC", "POS", "QAM"), FAILS)])
def test_two_tasks_cannot_tell_of_a_mean_over_nine(tasks: tuple[str, ...], state: str) -> None:
    scores = {}
    for task in tasks:
        for label, mean in (("SFT", 70.0), ("Layer-GradDrop", 60.0), ("GradDrop-Epoch", 60.0)):
            place = Place("XLM-R-Large", task)
            scores[Key(place, label, "avg")] = {seed: mean + seed * (label != "SFT") for seed in range(3)}
    assert check(find_claim("G2"), Numbers(scores, exact=False)).state == state


def test_adapters_with_mixout_or_pretraining_are_no_adapters_against_fine_tuning() -> None:
    place = Place("BERT-base", "sst-2")
    means = {"Fine-tune": 60.0, "Adapter-32": 70.0, "Adapter-64+mixout": 20.0, "Adapter-256+TAPT": 20.0}
    scores = {}
    for label, mean in means.items():
        gain = 1 + (label != "Fine-tune") * 0.1  # of a seed, so that differences vary over the seeds
        scores[Key(place, label, DEV_MEAN)] = {seed: mean + gain * seed for seed in range(3)}
        scores[Key(place, label, DEV_BEST)] = dict.fromkeys(range(3), 80.0)
    outcome = check(find_claim("A9"), Numbers(scores, exact=False))
    assert (outcome.state, len(outcome.findings)) == (HOLDS, 2)
    assert all("Adapter-32" in finding.text and "+" not in finding.text for finding in outcome.findings)


def test_only_seeds_that_have_all_scores_count() -> None:
    numbers = measured(GradDrop=[70.0, 71.0, 72.0], SFT=[60.0, 60.9])
    assert numbers.by_seed(lambda score: score(PLACE, "GradDrop", "avg") - score(PLACE, "SFT", "avg")) == {
        0: 10.0,
        1: pytest.approx(10.1),
    }
    with pytest.raises(LackingError, match="no score of FUN on XNLI, XLM-R-Large"):
        numbers.by_seed(lambda score: score(PLACE, "FUN", "avg"))


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


@pytest.mark.parametrize(("claim", "labels"), [("A6", ("Fine-tune", "Adapter-64")), ("G6", ("SFT", "GradDrop"))])
def test_an_average_without_the_source_language_is_not_that_of_the_paper(claim: str, labels: tuple[str, str]) -> None:
    place = PLACE._replace(task="POS")
    scores = {
        Key(place, label, on): {seed: score + 0.1 * seed * seed * (score > 65) for seed in range(3)}
        for label, score in zip(labels, (60.0, 70.0), strict=True)
        for on in ("de", "target")
    }
    outcome = check(find_claim(claim), Numbers(scores, exact=False))
    assert outcome.state == UNKNOWN
    assert any("--languages must name it too" in finding.text for finding in outcome.findings)


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


def test_a_ratio_to_a_score_of_zero_is_undefined() -> None:
    numbers = measured(frozen=[1.0, 2.0], baseline=[0.0, 0.0])
    found = above(numbers, "ratio", lambda score: score(PLACE, "frozen", "avg") / score(PLACE, "baseline", "avg"))
    assert (found.state, found.text) == (UNKNOWN, "ratio: undefined, as it divides by 0")


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True), st.integers(-20, 20))
def test_above_and_below_are_opposites(values: list[int], threshold: int) -> None:
    numbers = measured(GradDrop=[float(value) for value in values])
    states = [
        side(numbers, "it", lambda score: score(PLACE, "GradDrop", "avg"), threshold).state for side in (above, below)
    ]
    assert sorted(states) in ([FAILS, HOLDS], [UNKNOWN, UNKNOWN])


@given(st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=8))
def test_more_parts_never_settle_more(parts: list[list[float]]) -> None:
    numbers = measured(**{f"m{index}": values for index, values in enumerate(parts)})
    alone = [above(numbers, "it", value(PLACE, name, "avg")) for name in numbers.methods(PLACE)]
    for finding, joined in zip(alone, all_of(alone).findings, strict=True):
        assert joined.state in (finding.state, UNKNOWN)


def test_parts_are_joined_by_their_rule() -> None:
    high, low = (
        above(printed(["graddrop_table01"]), "it", lambda score: score(PLACE, "SFT", "avg"), limit) for limit in (0, 99)
    )
    assert [all_of(parts).state for parts in ([high, high], [high, low], [])] == [HOLDS, FAILS, UNKNOWN]
    assert [most_of(parts).state for parts in ([high, high, low], [high, low], [])] == [HOLDS, FAILS, UNKNOWN]
    assert [any_of(parts).state for parts in ([high, low], [low, low], [])] == [HOLDS, FAILS, UNKNOWN]


def test_the_share_of_frozen_layers_is_in_the_label() -> None:
    assert [frozen_share(label) for label in ("frozen 9/12", "frozen 24/24", "baseline")] == [0.75, 1.0, None]


def test_the_t_statistics_are_those_of_scipy_on_the_printed_languages() -> None:
    numbers = printed(["graddrop_table03"])
    place = numbers.places("SFT")[0]
    languages = numbers.languages(place, "SFT", "GradDrop", "GradDrop-Epoch")
    score = {m: [numbers.scores[Key(place, m, on)][0] for on in languages] for m in numbers.methods(place)}
    epoch, drop = (stats.ttest_rel(score[m], score["SFT"]).statistic for m in ("GradDrop-Epoch", "GradDrop"))
    gap = numbers.by_seed(t_gap([(place, languages)], "GradDrop-Epoch", "GradDrop", "SFT"))
    assert gap == {0: pytest.approx(epoch - drop)}


@pytest.mark.parametrize(
    ("opened", "closeness"),
    [
        ({0: ["layers.4"], 10: ["layers.3"], 20: ["layers.2"], 30: ["layers.1"], 35: ["layers.0"]}, 1.0),
        ({0: ["layers.0"], 10: ["layers.1"], 20: ["layers.2"], 30: ["layers.3"], 35: ["layers.4"]}, -1.0),
        # Layers 2 and 1 are the other way round: 1 - 6 * 2 / (4 * 15).
        ({0: ["layers.4"], 10: ["layers.3"], 20: ["layers.1"], 30: ["layers.2"], 35: ["layers.0"]}, 0.8),
        # Bottom-up below a top layer that is open by design: with it the correlation would be 0.
        ({0: ["layers.4"], 10: ["layers.0"], 20: ["layers.1"], 30: ["layers.2"], 35: ["layers.3"]}, -1.0),
        # Two layers below the top one are in order by chance half of the time.
        ({0: ["layers.4", "layers.3", "layers.2"], 10: ["layers.1"], 20: ["layers.0"]}, None),
        ({0: [f"layers.{n}" for n in range(5)]}, None),
        ({0: ["head"], 10: [f"layers.{n}" for n in range(5)]}, None),
    ],
)
def test_an_order_is_told_from_the_layers_that_were_closed_at_first(
    opened: dict[int, list[str]], closeness: float | None
) -> None:
    phases = [Phase(step, dict.fromkeys((*names, "head"), OPEN)) for step, names in opened.items()]
    plan = Timeline(phases, steps=40, groups=("embeddings", *(f"layers.{n}" for n in range(5)), "head"))
    assert closeness_to_top_down(plan) == (None if closeness is None else pytest.approx(closeness))


def test_an_order_that_is_the_same_for_all_seeds_is_settled_and_a_score_is_not() -> None:
    place = Place("XLM-R", "XQuAD")
    scores = {Key(place, "Ada+FUN", TOP_DOWN): {0: 1.0, 1: 1.0}}
    assert check(find_claim("F4"), Numbers(scores, exact=False)).state == HOLDS
    assert above(measured(SFT=[1.0, 1.0]), "score", lambda score: score(PLACE, "SFT", "avg")).state == UNKNOWN


@pytest.mark.parametrize(("mbert", "state"), [([0.9, 0.92, 0.91], HOLDS), ([0.6, 0.62, 0.61], FAILS)])
def test_the_order_is_closer_to_top_down_for_mbert_than_for_xlmr(mbert: list[float], state: str) -> None:
    orders = {"mBERT": mbert, "XLM-R": [0.75, 0.76, 0.74]}
    scores = {Key(Place(m, "XNLI"), "Ada+FUN", TOP_DOWN): dict(enumerate(found)) for m, found in orders.items()}
    assert check(find_claim("F4"), Numbers(scores, exact=False)).state == state


def test_a_layer_that_never_learned_comes_last() -> None:
    later = {"layers.1": OPEN, "head": OPEN, "layers.2": Gate(lo=0.2)}
    plan = Timeline([Phase(0, {"head": OPEN}), Phase(5, later)], steps=10, groups=("layers.0", *later))
    ranks = [3, 1.5, 1.5]  # layers 1 and 2 share the first two ranks
    assert closeness_to_top_down(plan) == pytest.approx(stats.pearsonr(ranks, [3, 2, 1]).statistic)


@pytest.mark.parametrize(("gain", "state"), [(0.3, FAILS), (0.72, HOLDS)])
def test_a_gain_must_be_as_large_as_the_paper_says(gain: float, state: str) -> None:
    scores = {
        Key(PLACE, name, "avg"): {0: 70.0 + more, 1: 71.01 + more, 2: 72.02 + more + (0.01 if more else 0)}
        for name, more in (("SFT", 0.0), ("GradDrop", gain))
    }
    assert check(find_claim("G1"), Numbers(scores, exact=False)).state == state


@pytest.mark.parametrize(("model", "state"), [("mBERT", FAILS), ("XLM-R", HOLDS)])
def test_about_two_points_are_claimed_with_mbert_alone(model: str, state: str) -> None:
    scores: dict[Key, dict[int, float]] = {}
    for task in ("XNLI", "XQuAD", "MLQA"):
        place = Place(model, task)
        scores |= {Key(place, "Ada", "avg"): {0: 60.0, 1: 61.0}, Key(place, "Ada+FUN", "avg"): {0: 60.5, 1: 61.51}}
    assert check(find_claim("F2"), Numbers(scores, exact=False)).state == state


def test_the_lowest_language_is_the_one_that_the_paper_shows() -> None:
    place = Place("mBERT", "XNLI")  # Swahili in Table 2
    scores = {
        Key(place, "Ada", "sw"): {0: 50.0, 1: 50.1},
        Key(place, "Ada", "th"): {0: 40.0, 1: 40.1},
        Key(place, "Ada+FUN", "sw"): {0: 45.0, 1: 45.2},
        Key(place, "Ada+FUN", "th"): {0: 60.0, 1: 60.2},
    }
    outcome = check(find_claim("F6"), Numbers(scores, exact=False))
    assert [finding.text.split(":")[0] for finding in outcome.findings] == ["XNLI, mBERT, sw"]
    assert outcome.state == UNKNOWN
    assert "1 of the 3 parts needed for a claim about most" in outcome.findings[0].text


def test_no_test_score_chooses_the_lowest_language_where_the_paper_shows_none() -> None:
    place = Place("mT5", "XNLI")
    scores = {
        Key(place, method, on): {0: score, 1: score + 0.1}
        for method, score in (("Ada", 40.0), ("Ada+FUN", 43.0))
        for on in ("sw", "th")
    }
    (finding,) = check(find_claim("F6"), Numbers(scores, exact=False)).findings
    assert (finding.compared, "that Table 2 shows" in finding.text) == (False, True)


def test_savings_are_checked_on_printed_ones_and_not_on_nothing() -> None:
    assert check(find_claim("E7"), Numbers({}, exact=True)).state == UNKNOWN
    texts = [finding.text for finding in on_print("E7").findings]
    assert len(texts) == 8
    assert "9 of 12 layers shared by 8 tasks save 0.7226, claimed 0.72" in texts
    wrong = Numbers({Key(Place("MT-RoBERTa-base", "all"), "frozen 9/12", SAVED): {0: 0.7}}, exact=True)
    assert check(find_claim("E7"), wrong).state == FAILS


def test_nothing_printed_can_tell_nothing() -> None:
    assert {check(claim, Numbers({}, exact=True)).state for claim in claims()} == {UNKNOWN}


@pytest.mark.parametrize("large", ["5000", "full"])
def test_what_the_wide_adapter_gains_must_shrink_too(large: str) -> None:
    gains = {"2000": [3.0, 3.2, 3.1], large: [1.0, 1.1, 1.05]}
    scores = {}
    for size, by_seed in gains.items():
        for task in ("rct", "imdb", "agnews"):
            place = Place("RoBERTa-base", task, size)
            scores[Key(place, "Fine-tune", "en")] = dict.fromkeys(range(3), 80.0)
            scores[Key(place, "Adapter-256", "en")] = {seed: 80.0 + gain for seed, gain in enumerate(by_seed)}
    outcome = check(find_claim("A5"), Numbers(scores, exact=False))
    assert outcome.state == HOLDS
    assert f"Adapter-256 - Fine-tune at 2000, minus at {large}" in outcome.findings[0].text


def test_full_fine_tuning_and_its_rivals_may_come_from_two_studies() -> None:
    places = [Place("mBERT", task) for task in ("XNLI", "XQuAD", "MLQA")]
    halves = [
        Numbers(
            {Key(place, name, "avg"): {0: score, 1: score + extra} for place in places},
            exact=False,
            arms={Key(place, name, "avg"): (arm,) for place in places},
        )
        for name, score, extra, arm in (("Full-FT", 60.0, 0.1, "full"), ("Ada+GU", 62.0, 0.12, "pfeiffer + gradual"))
    ]
    assert [check(find_claim("F1"), half).state for half in halves] == [UNKNOWN, UNKNOWN]
    outcome = check(find_claim("F1"), together(halves))
    assert (outcome.state, dict(outcome.findings[0].arms)) == (
        HOLDS,
        {"Full-FT": "full", "Ada+GU": "pfeiffer + gradual"},
    )


def test_an_arm_that_two_studies_have_is_not_one_arm() -> None:
    parts = [
        replace(measured(GradDrop=[70.0, 71.0], SFT=[60.0, 60.5]), arms={Key(PLACE, "GradDrop", "avg"): (arm,)})
        for arm in "ab"
    ]
    outcome = check(find_claim("G1"), together(parts))
    assert (outcome.state, outcome.findings[0].text) == (
        UNKNOWN,
        "XNLI, XLM-R-Large: GradDrop - SFT: two arms fit GradDrop: a, b",
    )


@pytest.mark.parametrize(
    ("early", "hill", "state"),
    [
        ([2.0, 2.2, 2.1], [0.5, 0.6, 0.55], HOLDS),
        ([0.5, 0.6, 0.55], [0.5, 0.6, 0.55], FAILS),
        ([2.0, 2.2, 2.1], [0.0, 0.01, 0.02], FAILS),
    ],
)
def test_a_tracked_trace_settles_whether_gradual_unfreezing_has_a_hill(
    early: list[float], hill: list[float], state: str
) -> None:
    own = {"Ada": {TRACE_EARLY: [1.0, 1.0, 1.0]}, "Ada+GU": {TRACE_EARLY: early, TRACE_HILL: hill}}
    scores = {Key(PLACE, arm, on): dict(enumerate(v)) for arm, by in own.items() for on, v in by.items()}
    assert check(find_claim("F9"), Numbers(scores, exact=False)).state == state
    lacking = check(find_claim("F9"), Numbers({}, exact=False))
    assert (lacking.state, "trained with track='fisher" in lacking.findings[0].text) == (UNKNOWN, True)


@pytest.mark.parametrize(("peak", "state"), [([0.9, 0.8, 0.85], HOLDS), ([-0.9, -0.8, -0.85], FAILS)])
def test_schedules_settle_whether_a_higher_peak_transfers_better(peak: list[float], state: str) -> None:
    area = [-0.7, -0.6, -0.65]
    scores = {Key(PLACE, SCHEDULES, on): dict(enumerate(v)) for on, v in ((TRACE_PEAK, peak), (TRACE_AREA, area))}
    assert check(find_claim("F10"), Numbers(scores, exact=False)).state == state
    lacking = check(find_claim("F10"), Numbers({}, exact=False))
    assert (lacking.state, "needs at least four schedules" in lacking.findings[0].text) == (UNKNOWN, True)


def test_a_late_rise_of_the_loss_counts_for_half_of_its_claim() -> None:
    place = Place("BERT-base", "mrpc")
    rises = {"Fine-tune": [0.5, 0.6, 0.55], "Adapter-256": [0.1, 0.12, 0.09]}
    scores = {Key(place, name, LOSS_RISE): dict(enumerate(values)) for name, values in rises.items()}
    outcome = check(find_claim("A10"), Numbers(scores, exact=False))
    assert (outcome.state, [finding.state for finding in outcome.findings]) == (UNKNOWN, [HOLDS, UNKNOWN])
    assert "loss landscapes" in outcome.findings[1].text
    pairs = zip(rises, reversed(rises), strict=True)
    turned = {Key(place, other, LOSS_RISE): scores[Key(place, name, LOSS_RISE)] for name, other in pairs}
    assert check(find_claim("A10"), Numbers(turned, exact=False)).state == FAILS


def test_flat_minima_settle_the_other_half() -> None:
    place = Place("BERT-base", "cola")
    found = {LOSS_RISE: ([0.5, 0.6, 0.55], [0.1, 0.12, 0.09]), FLATNESS: ([1.0, 1.1, 1.05], [1.9, 2.0, 2.1])}
    scores = {
        Key(place, name, on): dict(enumerate(values))
        for on, pair in found.items()
        for name, values in zip(("Fine-tune", "Adapter-64"), pair, strict=True)
    }
    assert check(find_claim("A10"), Numbers(scores, exact=False)).state == HOLDS
