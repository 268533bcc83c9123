"""Claims of the FUN paper on measured numbers: orders of layers, the lowest language, traces and full fine-tuning."""

from __future__ import annotations

from itertools import product

import pytest
from scipy import stats

from gradgate.methods import OPEN, Gate
from gradgate.methods.phases import Phase
from gradgate.methods.timeline import Timeline
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import (
    SCHEDULES,
    TOP_DOWN,
    TRACE_AREA,
    TRACE_EARLY,
    TRACE_HILL,
    TRACE_PEAK,
    Key,
    Numbers,
    Place,
    together,
)
from gradgate.papers.claims.thresholds import above
from gradgate.papers.measured import closeness_to_top_down

HOLDS, FAILS, UNKNOWN = "holds", "fails", "cannot tell"
PLACE = Place("XLM-R-Large", "XNLI")


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
    order, against = check(find_claim("F4"), Numbers(scores, exact=False)).findings
    assert (order.state, against.text) == (HOLDS, "mBERT against XLM-R: not compared")
    equal = Numbers({Key(PLACE, "SFT", "avg"): {0: 1.0, 1: 1.0}}, exact=False)
    assert above(equal, "score", lambda score: score(PLACE, "SFT", "avg")).state == UNKNOWN


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


@pytest.mark.parametrize(("gain_of_mbert", "state"), [(0.5, FAILS), (2.5, HOLDS)])
def test_about_two_points_are_claimed_with_mbert_alone(gain_of_mbert: float, state: str) -> None:
    scores: dict[Key, dict[int, float]] = {}
    for model, gain in (("mBERT", gain_of_mbert), ("XLM-R", 0.5)):
        for task in ("XNLI", "XQuAD", "MLQA"):
            place = Place(model, task)
            found = {0: 60.0 + gain, 1: 61.01 + gain}
            scores |= {Key(place, "Ada", "avg"): {0: 60.0, 1: 61.0}, Key(place, "Ada+FUN", "avg"): found}
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
    assert "1 task of the 3 needed for a claim about most" in outcome.findings[0].text


def test_no_test_score_chooses_the_lowest_language_where_the_paper_shows_none() -> None:
    place = Place("mT5", "XNLI")
    scores = {
        Key(place, method, on): {0: score, 1: score + 0.1}
        for method, score in (("Ada", 40.0), ("Ada+FUN", 43.0))
        for on in ("sw", "th")
    }
    (finding,) = check(find_claim("F6"), Numbers(scores, exact=False)).findings
    assert (finding.compared, "that Table 2 shows" in finding.text) == (False, True)


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


def test_peak_or_area_must_rank_with_transfer_in_each_place() -> None:
    high, low = {0: 0.8, 1: 0.82, 2: 0.81}, {0: -0.8, 1: -0.82, 2: -0.81}
    places = [Place("XLM-R", task) for task in ("MLQA", "XQuAD")]
    scores = {Key(place, SCHEDULES, on): low for place in places for on in (TRACE_PEAK, TRACE_AREA)}
    one = {**scores, Key(places[0], SCHEDULES, TRACE_PEAK): high}
    assert check(find_claim("F10"), Numbers(one, exact=False)).state == FAILS
    peaks = {Key(place, SCHEDULES, TRACE_PEAK): high for place in places}
    assert check(find_claim("F10"), Numbers({**scores, **peaks}, exact=False)).state == HOLDS


def test_a_hill_without_an_early_trace_is_half_of_the_claim() -> None:
    places = [PLACE._replace(task=task) for task in ("XNLI", "NER", "POS")]
    scores = {Key(place, "Ada+GU", TRACE_HILL): {0: 0.5, 1: 0.6, 2: 0.55} for place in places}
    scores |= {Key(place, "Ada", "avg"): {0: 60.0, 1: 61.0, 2: 62.0} for place in places}
    outcome = check(find_claim("F9"), Numbers(scores, exact=False))
    assert (outcome.state, outcome.findings[-1].text) == (UNKNOWN, "early trace: not compared")


def test_gradual_unfreezing_is_not_shown_by_another_schedule() -> None:
    places = [PLACE._replace(task=task) for task in ("XNLI", "NER", "POS")]
    scores = {Key(place, "Full-FT", "avg"): {0: 60.0, 1: 61.0, 2: 62.0} for place in places}
    scores |= {Key(place, "Ada+LPFT", "avg"): {0: 70.0, 1: 71.1, 2: 72.3} for place in places}
    outcome = check(find_claim("F1"), Numbers(scores, exact=False))
    assert (outcome.state, outcome.findings[-1].text) == (UNKNOWN, "Ada+GU: not compared")


@pytest.mark.parametrize(
    ("sizes", "state"), [(("1000",), UNKNOWN), (("1000", "5000", "10000"), FAILS), (("100000",), UNKNOWN)]
)
def test_cells_of_other_sizes_decide_nothing_of_small_training_sets(sizes: tuple[str, ...], state: str) -> None:
    scores = {}
    for task, size in product(("XNLI", "NER", "POS"), sizes):
        place = Place("XLM-R-Large", task, size)
        scores[Key(place, "Ada+GU", "avg")] = {0: 60.0, 1: 61.0, 2: 62.0}
        scores[Key(place, "Ada", "avg")] = {0: 70.0, 1: 71.1, 2: 72.3}
    assert check(find_claim("F7"), Numbers(scores, exact=False)).state == state
