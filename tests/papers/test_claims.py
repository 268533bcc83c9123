"""Claims of the papers: known answers on the numbers that they print, and honest ones on few seeds."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import UsageError
from gradgate.papers.check import check_studies
from gradgate.papers.claims import ClaimOutcome, check, claims, find_claim
from gradgate.papers.claims.numbers import (
    DEV_BEST,
    DEV_MEAN,
    FLATNESS,
    LOSS_RISE,
    ON_THE_SAMPLE,
    SAVED,
    SEARCH_SEEDS,
    SEED_SPREAD,
    Key,
    LackingError,
    Numbers,
    Place,
    printed,
    together,
)
from gradgate.papers.claims.quantities import value
from gradgate.papers.claims.rules import all_of, any_of, most_of
from gradgate.papers.claims.thresholds import above, below
from gradgate.papers.frozen import frozen_share, read_frozen
from gradgate.papers.recorded import write_numbers

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
        Key(PLACE._replace(task=task), label, on): {seed: score + gain * seed * seed for seed in range(3)}
        for task in ("POS", "NER", "XNLI")
        for label, score, gain in (("Fine-tune", 60.0, 0.1), ("Adapter-64", 70.0, 0.2))
        for on in ("en", "de", "all", "target")
    }
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
    assert outcome.state == UNKNOWN
    assert [(finding.state, finding.text.split(":")[0]) for finding in outcome.findings] == [
        (HOLDS, "MiniLM, 1000 examples, mean over 3 tasks"),
        (HOLDS, "MiniLM, 2000 examples, mean over 3 tasks"),
        (UNKNOWN, "Fine-tune+TAPT on small tasks"),
        (UNKNOWN, "large tasks"),
    ]


def test_adapters_with_mixout_or_pretraining_are_no_adapters_against_fine_tuning() -> None:
    means = {"Fine-tune": 60.0, "Adapter-32": 70.0, "Adapter-64+mixout": 20.0, "Adapter-256+TAPT": 20.0}
    scores = {}
    for task, (label, mean) in product(("sst-2", "cola", "qnli"), means.items()):
        place = Place("BERT-base", task)
        gain = 1 + (label != "Fine-tune") * 0.1  # of a seed, so that differences vary over the seeds
        scores[Key(place, label, DEV_MEAN)] = {seed: mean + gain * seed for seed in range(3)}
        scores[Key(place, label, DEV_BEST)] = dict.fromkeys(range(3), 80.0)
    outcome = check(find_claim("A9"), Numbers(scores, exact=False))
    assert (outcome.state, len(outcome.findings)) == (HOLDS, 6)
    assert all("Adapter-32" in finding.text and "+" not in finding.text for finding in outcome.findings)


def test_only_seeds_that_have_all_scores_count() -> None:
    numbers = measured(GradDrop=[70.0, 71.0, 72.0], SFT=[60.0, 60.9])
    assert numbers.by_seed(lambda score: score(PLACE, "GradDrop", "avg") - score(PLACE, "SFT", "avg")) == {
        0: 10.0,
        1: pytest.approx(10.1),
    }
    with pytest.raises(LackingError, match="no score of FUN on XNLI, XLM-R-Large"):
        numbers.by_seed(lambda score: score(PLACE, "FUN", "avg"))


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
    assert str(read_frozen("frozen 9/12")) == "frozen 9/12"


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


def test_tasks_in_english_alone_are_none_of_the_three_that_transfer_takes() -> None:
    scores = {
        Key(PLACE._replace(task=task), label, on): {seed: score + gain * seed * seed for seed in range(3)}
        for task, languages in (("XNLI", ("en", "de", "all", "target")), ("NER", ("en",)), ("POS", ("en",)))
        for label, score, gain in (("Fine-tune", 60.0, 0.1), ("Adapter-64", 70.0, 0.2))
        for on in languages
    }
    outcome = check(find_claim("A6"), Numbers(scores, exact=False))
    assert outcome.state == UNKNOWN
    assert all("1 task of the 3 needed" in str(finding) for finding in outcome.findings)


def test_mixout_on_cola_alone_is_not_shown_to_help_nowhere_else() -> None:
    place = Place("BERT-base", "cola")
    means = {"Fine-tune": 60.0, "Fine-tune+mixout": 70.0, "Adapter-64": 70.0, "Adapter-64+mixout": 60.0}
    scores = {
        Key(place, label, "en"): {seed: mean + (1 + 0.1 * (mean > 60)) * seed for seed in range(3)}
        for label, mean in means.items()
    }
    outcome = check(find_claim("A11"), Numbers(scores, exact=False))
    assert outcome.state == UNKNOWN
    assert {"mrpc: not compared", "other tasks: not compared"} <= {finding.text for finding in outcome.findings}


def test_rates_of_two_studies_are_not_compared_by_their_ranks() -> None:
    place = Place("BERT-base", "cola")
    parts = [
        Numbers(
            {Key(place, label, SEED_SPREAD): {0: spread}, Key(place, label, SEARCH_SEEDS): {0: 9.0}},
            exact=False, source=label,
        )
        for label, spread in (("Fine-tune", 9.0), ("Adapter-64", 0.5))
    ]  # fmt: skip
    apart = check(find_claim("A8"), together(parts))
    assert (apart.state, apart.findings[0].limits) == (UNKNOWN, ("the rates are not those of one study",))
    joint = Numbers({**parts[0].scores, **parts[1].scores}, exact=False, source="one")
    assert check(find_claim("A8"), joint).state == HOLDS
    assert check(find_claim("A8"), together([joint])).state == HOLDS


def test_generated_scores_are_not_taken_together_with_real_ones(tmp_path: Path) -> None:
    best = ("Layer-GradDrop", "GradDrop-Epoch")
    others = ("SFT", "GradFreeze-TopDown", "GradFreeze-BottomUp", "GradDrop", "Anneal-GradDrop")
    for name, tasks, notes in (("real", ("XNLI",), ()), ("sample", ("NC", "QAM"), (ON_THE_SAMPLE,))):
        scores = {
            Key(PLACE._replace(task=task), label, "avg"): {
                seed: 60.0 + 10 * (label in best) + seed for seed in range(3)
            }
            for task in tasks
            for label in (*best, *others)
        }
        write_numbers({name: {"graddrop": Numbers(scores, False, notes=notes)}}, tmp_path / f"{name}.csv")
    found = [verdict for verdict in check_studies([tmp_path], "graddrop") if verdict.claim.id == "G2"]
    assert [verdict.tasks for verdict in found] == ["the paper's tasks", "generated tasks"]
    assert [len(verdict.parts) for verdict in found] == [1, 1]
