"""What a claim of several parts may say: one family of tests, enough tasks, data of its kind, tests of equality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gradgate.papers.check import check_studies
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.base import ClaimCheck
from gradgate.papers.claims.numbers import ON_THE_SAMPLE, SEARCH_SEEDS, SEED_SPREAD, TOP_DOWN, Key, Numbers, Place
from gradgate.papers.claims.quantities import value
from gradgate.papers.claims.rules import all_of, any_of, both, most_of
from gradgate.papers.claims.thresholds import above, below, level
from gradgate.papers.recorded import read_numbers, write_numbers

HOLDS, FAILS, UNKNOWN = "holds", "fails", "cannot tell"
PLACE = Place("mBERT", "XNLI")


def found(*parts: list[float]) -> list[ClaimCheck]:
    """One finding per list of values over seeds, each on a task of its own: that their mean is above 0."""
    places = [Place("mBERT", f"m{index}") for index in range(len(parts))]
    scores = {Key(place, "m", "avg"): dict(enumerate(own)) for place, own in zip(places, parts, strict=True)}
    return [above(Numbers(scores, exact=False), place.task, value(place, "m", "avg")) for place in places]


LOW = [-0.1, -1.0, -2.0, -0.9, -1.1]  # p = 0.03
HIGH = [1.0, 1.01, 1.02, 1.03, 1.04]
NONE = [-1.0, 1.0, 0.1, -0.1, 0.2]


@pytest.mark.parametrize(
    ("rule", "parts", "state"),
    [
        (all_of, [LOW], FAILS),
        (all_of, [LOW, NONE], UNKNOWN),
        (all_of, [LOW, HIGH], FAILS),  # Holm: the smaller p passes, so that the other has the whole level
        (all_of, [HIGH, HIGH], HOLDS),
        (any_of, [HIGH, NONE], HOLDS),
        (any_of, [[-x for x in LOW], NONE], UNKNOWN),
        (most_of, [HIGH, HIGH, NONE], HOLDS),
        (most_of, [HIGH, HIGH], UNKNOWN),
        (most_of, [[-x for x in LOW]] * 2 + [NONE], UNKNOWN),
        (lambda parts: both(all_of(parts[:1]), most_of(parts[1:])), [LOW, NONE, NONE, NONE], UNKNOWN),
    ],
)
def test_parts_of_a_claim_are_one_family(rule: object, parts: list[list[float]], state: str) -> None:
    assert stats.ttest_1samp(LOW, 0).pvalue == pytest.approx(0.03, abs=0.01)
    assert rule(found(*parts)).state == state  # type: ignore[operator]


def test_most_sizes_of_one_task_are_one_task() -> None:
    places = [Place("mBERT", "MLQA", size) for size in ("1000", "5000", "10000")]
    numbers = Numbers({Key(place, "m", "avg"): dict(enumerate(HIGH)) for place in places}, exact=False)
    outcome = most_of([above(numbers, str(place), value(place, "m", "avg")) for place in places])
    assert outcome.state == UNKNOWN
    assert "1 task of the 3 needed" in outcome.findings[0].text


PARTS: dict[str, dict[tuple[str, str, str], float]] = {
    # Model, task and size to the second method minus the first.
    "A2": {("X", task, "full"): 5.0 for task in ("chemprot", "acl_arc", "scierc")},
    "A4": {("X", task, "1000"): 5.0 for task in ("cola", "mrpc", "rte")},
    "A7": {("X", "XNLI", "full"): 5.0},
    "F2": {("XLM-R", task, "full"): 5.0 for task in ("XNLI", "XQuAD", "MLQA")},
    "F4": {("XLM-R", "XNLI", "full"): 0.9},
    "F11": {("mDeBERTa", "XNLI", "full"): -5.0},
}
ARMS = {
    "A2": ("Fine-tune", "Adapter-256"),
    "A4": ("Fine-tune", "Adapter-64"),
    "A7": ("Adapter-64", "Adapter-256"),
    "F2": ("Ada", "Ada+FUN"),
    "F4": ("Ada", "Ada+FUN"),
    "F11": ("Ada", "Ada+GU"),
}


@pytest.mark.parametrize("claim", PARTS)
def test_a_claim_of_several_parts_does_not_hold_on_one_of_them(claim: str) -> None:
    scores: dict[Key, dict[int, float]] = {}
    for (model, task, size), gain in PARTS[claim].items():
        place, (one, other) = Place(model, task, size), ARMS[claim]
        for on in ("en", "avg"):
            scores[Key(place, one, on)] = {0: 60.0, 1: 61.0, 2: 62.0}
            scores[Key(place, other, on)] = {0: 60.0 + gain, 1: 61.1 + gain, 2: 62.0 + gain}
        scores[Key(place, other, TOP_DOWN)] = dict.fromkeys(range(3), gain)
    outcome = check(find_claim(claim), Numbers(scores, exact=False))
    assert {finding.state for finding in outcome.findings if finding.compared} == {HOLDS}
    assert outcome.state == UNKNOWN
    assert any("not compared" in finding.text for finding in outcome.findings)


def test_null_claims_of_many_parts_rarely_fail() -> None:
    rng = np.random.default_rng(0)
    states = [all_of(found(*rng.normal(size=(8, 5)).tolist())).state for _ in range(40)]
    assert states.count(FAILS) / len(states) <= 0.05


def test_a_finding_shows_the_corrected_interval() -> None:
    outcome = all_of(found(LOW, NONE, NONE))
    mean, half = np.mean(LOW), stats.sem(LOW) * stats.t.isf(0.05 / 3 / 2, 4)
    assert outcome.findings[0].text.startswith(f"m0 = {mean:.3f} [{mean - half:.2f} to {mean + half:.3f}], 5 seeds")
    assert outcome.rule == "each must hold; p and intervals are Holm-corrected over 3 tests"


def test_an_open_finding_says_how_many_seeds() -> None:
    (finding,) = all_of(found([1.0, 3.0, -1.0])).findings
    assert finding.text == "m0 = 1.000 [-3.97 to 5.97], 3 seeds, claimed above 0; about 34 seeds would decide"
    (near,) = all_of(found([0.01, 1.0, -1.0])).findings
    assert near.repeats_needed is not None
    assert near.repeats_needed > 1000
    assert near.text.endswith("; more than 100 seeds would be needed")


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([0.1, -0.1, 0.2, 0.0], HOLDS),
        ([0.1, -2.0, 1.9, 0.0], UNKNOWN),
        ([2.0, 2.1, 2.2, 1.9], FAILS),
        ([-2.0, -2.1, -2.2, -1.9], FAILS),
        ([0.3, 0.31, 0.32, 0.29], HOLDS),  # not 0, and within the margin
        ([0.0], UNKNOWN),
    ],
)
def test_level_takes_two_one_sided_tests(values: list[float], state: str) -> None:
    numbers = Numbers({Key(PLACE, "m", "avg"): dict(enumerate(values))}, exact=False)
    finding = level(numbers, "m", value(PLACE, "m", "avg"), 0.5)
    assert (finding.state, finding.claimed) == (state, "within ±0.5")
    if len(values) > 1:
        ends = stats.t.interval(0.9, len(values) - 1, np.mean(values), stats.sem(values))
        assert bool(ends[0] > -0.5 and ends[1] < 0.5) is (state == HOLDS)


def at(
    task: str, scores: dict[str, list[float]], size: str = "full", model: str = "MiniLM"
) -> dict[Key, dict[int, float]]:
    """Scores of methods over seeds, in English and on average; ``_`` stands for ``-``, ``__`` for a space."""
    names = {name: name.replace("__", " ").replace("_", "-").replace(" 4", " 4/6") for name in scores}
    place = Place(model, task, size)
    return {Key(place, names[name], on): dict(enumerate(v)) for name, v in scores.items() for on in ("en", "avg")}


WORSE: dict[str, dict[str, list[float]]] = {
    "E5": {"baseline": [70.0, 71.0, 72.0], "frozen__4": [60.0, 61.1, 62.0]},
    "G1": {"SFT": [70.0, 71.0, 72.0], "GradDrop": [60.0, 61.1, 62.0]},
    "G6": {"SFT": [70.0, 71.0, 72.0], "GradDrop": [60.0, 61.1, 62.0]},
    "G10": {"SFT": [70.0, 71.0, 72.0], "GradDrop": [60.0, 61.1, 62.0]},
    "A2": {"Fine_tune": [70.0, 71.0, 72.0], "Adapter_256": [60.0, 61.1, 62.0]},
    "A7": {"Adapter_64": [70.0, 71.0, 72.0], "Adapter_256": [60.0, 61.1, 62.0]},
}


@pytest.mark.parametrize("task", ["sample-nli", "tickets"])
@pytest.mark.parametrize("claim", WORSE)
def test_data_of_another_kind_decide_nothing(claim: str, task: str) -> None:
    outcome = check(find_claim(claim), Numbers(at(task, WORSE[claim]), exact=False, stand_in=True))
    assert outcome.state == UNKNOWN
    assert {finding.state for finding in outcome.findings} == {UNKNOWN}
    compared = [finding.text for finding in outcome.findings if finding.seeds]
    assert compared
    assert all("which the claim is about" in text or "of the 3 needed" in text for text in compared)


@pytest.mark.parametrize(("tasks", "state"), [(("xnli", "udpos", "wikiann"), HOLDS), (("xnli",), UNKNOWN)])
def test_one_task_with_three_sizes_is_one_task(tasks: tuple[str, ...], state: str) -> None:
    """F2 is about the mean over tasks."""
    scores = {"Ada": [60.0, 61.0, 62.0], "Ada+FUN": [66.0, 67.1, 68.0]}
    cells: dict[Key, dict[int, float]] = {}
    for task, size in zip(tasks * 3, ("1000", "5000", "full"), strict=False):
        cells |= at(task, scores, size, "mBERT")
    outcome = check(find_claim("F2"), Numbers(cells, exact=False))
    assert outcome.state == state
    assert f"mean over {len(tasks)} task" in outcome.findings[0].text


@pytest.mark.parametrize(("task", "state"), [("ncbi_disease", FAILS), ("sample-ner", UNKNOWN), ("udpos", UNKNOWN)])
def test_named_entities_decide_claims_of_them(task: str, state: str) -> None:
    numbers = Numbers(at(task, WORSE["G1"]), exact=False, stand_in=True)
    assert check(find_claim("G7"), numbers).state == state


def test_the_sample_decides_nothing_under_a_papers_name(tmp_path: Path) -> None:
    numbers = Numbers(at("XNLI", WORSE["G1"]), exact=False, notes=(ON_THE_SAMPLE,))
    assert check(find_claim("G1"), numbers).state == UNKNOWN
    write_numbers({"study": {"graddrop": numbers}}, tmp_path / "numbers.csv")
    assert read_numbers(tmp_path / "numbers.csv")["graddrop"].generated
    (verdict,) = (each for each in check_studies([tmp_path / "numbers.csv"], "graddrop") if each.claim.id == "G1")
    assert verdict.outcome.state == UNKNOWN


MEANS: dict[str, dict[str, list[float]]] = {
    "E6": {"baseline": [70.0, 71.0, 72.0], "frozen__4": [40.0, 41.1, 42.0]},
    "E1": {"baseline": [70.0, 71.0, 72.0], "frozen__4": [40.0, 41.1, 42.0]},
    "E4": {"baseline": [70.0, 71.0, 72.0], "frozen__3": [40.0, 41.1, 42.0]},
    "G3": {"SFT": [60.0, 60.9, 62.0], "GradFreeze_TopDown": [60.0, 61.0, 62.3], "GradFreeze_BottomUp": [70, 72, 72]},
    "F2": {"Ada": [70.0, 71.0, 72.0], "Ada+FUN": [60.0, 61.1, 62.0]},
    "F3": {"Ada+Rand": [70.0, 71.0, 72.0], "Ada+FUN": [60.0, 61.1, 62.0], "Ada+GU": [60.0, 61.0, 62.3]},
    "F5": {"Ada+GU": [70.0, 71.0, 72.0], "Ada+FUN": [60.0, 61.1, 62.0]},
    "A2": {"Fine_tune": [70.0, 71.0, 72.0], "Adapter_256": [60.0, 61.1, 62.0]},
    "A3": {"Adapter_256": [70.0, 71.0, 72.0], "Adapter_256+TAPT": [60.0, 61.1, 62.0]},
    "A4": {"Fine_tune": [70.0, 71.0, 72.0], "Adapter_64": [60.0, 61.1, 62.0]},
}
TASKS = {
    **dict.fromkeys(("A2", "A3"), ("chemprot", "acl_arc", "scierc")),
    **dict.fromkeys(("E1", "E4", "E6"), ("CoLA", "MRPC", "RTE")),
    "A4": ("cola", "mrpc", "rte"),
}


@pytest.mark.parametrize(("count", "state"), [(1, UNKNOWN), (2, UNKNOWN), (3, FAILS)])
@pytest.mark.parametrize("claim", MEANS)
def test_one_rule_for_how_many_tasks(claim: str, count: int, state: str) -> None:
    scores: dict[Key, dict[int, float]] = {}
    scale = {name.replace("__4", "__9").replace("__3", "__6"): values for name, values in MEANS[claim].items()}
    for task in TASKS.get(claim, ("XNLI", "XQuAD", "MLQA"))[:count]:
        scores |= at(task, scale, "1000" if claim == "A4" else "full", "X")
    scores = {
        key._replace(method=f"{key.method}/12" if key.method.startswith("frozen") else key.method): by_seed
        for key, by_seed in scores.items()
        if key.on == "en" or not claim.startswith("E")
    }
    assert check(find_claim(claim), Numbers(scores, exact=False)).state == state


@pytest.mark.parametrize(
    ("spreads", "seeds", "state"),
    [
        (([5.0, 5.1], [1.0, 0.9]), 10, HOLDS),
        (([1.0, 0.9], [5.0, 5.1]), 10, FAILS),
        (([5.0, 5.1], [4.0, 4.1]), 10, UNKNOWN),  # an interval over the two rates would exclude 0
        (([5.0, 5.1], [1.0, 0.9]), 3, UNKNOWN),
        (([5.0, 5.1], [1.0, 0.9]), None, UNKNOWN),
    ],
)
def test_spreads_are_compared_rate_by_rate(
    spreads: tuple[list[float], list[float]], seeds: int | None, state: str
) -> None:
    scores: dict[Key, dict[int, float]] = {}
    for name, by_rate in zip(("Fine-tune", "Adapter-64"), spreads, strict=True):
        scores[Key(PLACE, name, SEED_SPREAD)] = dict(enumerate(by_rate))
        if seeds is not None:
            scores[Key(PLACE, name, SEARCH_SEEDS)] = dict.fromkeys(range(len(by_rate)), float(seeds))
    outcome = check(find_claim("A8"), Numbers(scores, exact=False))
    assert (outcome.state, len(outcome.findings)) == (state, 2)


def test_below_is_corrected_like_above() -> None:
    numbers = Numbers({Key(PLACE, "m", "avg"): dict(enumerate(LOW))}, exact=False)
    finding = below(numbers, "m", value(PLACE, "m", "avg"))
    assert finding.state == HOLDS
    assert all_of([finding, *found(NONE)]).findings[0].state == UNKNOWN
