"""What may change a verdict is next to it: on the scoreboard, in the tables and in front of the numbers."""

from __future__ import annotations

import re

import pytest

from evidence.authors import read_rates
from evidence.doubts import limits_of_authors, limits_of_verdict, names_of
from evidence.limits import (
    AFTER_TEST,
    AT_CEILING,
    DEV_ROWS,
    LANGUAGES,
    REPRESENTATIONS,
    TIED,
    TRACES,
    limits_of,
    limits_of_measurements,
)
from evidence.page import page
from evidence.scoreboard import scoreboard_cells
from evidence.studies import Study, read_studies
from evidence.verdicts import Checked, check_all
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims import find_claim
from gradgate.papers.claims.base import ClaimCheck, ClaimOutcome, State


def study(**given: object) -> Study:
    return Study.model_validate(
        {"name": "s", "title": "", "paper": "elsa", "data": "real", "differs": "", "compare": {"task": "sst2"}, **given}
    )


def checked(outcome: ClaimOutcome, claim: str = "E1") -> Checked:
    found = find_claim(claim)
    return Checked(found, (), {"real": (ClaimVerdict(found, outcome, "t", parts=("x/s.csv",)),)})


def part(state: State, compared: bool = True) -> ClaimCheck:
    return ClaimCheck(state, "x = 1" if compared else "needs y", "above 0" if compared else "", compared=compared)


def test_the_rate_limits_claims_on_what_an_analysis_measured_and_no_others() -> None:
    committed = {each.name: each for each in read_studies(["real-adapters-glue-sst2", "real-unfreezing-adapters-sst2"])}
    representations, traces = (limits_of_measurements(each) for each in committed.values())
    assert [(limit.name, limit.how) for limit in representations] == [
        (REPRESENTATIONS, "0.0001 for `full`; 0.001 for `houlsby:size=64`")
    ]
    assert [limit.name for limit in traces] == [TRACES]
    limited = {
        claim: names_of(
            limits_of_verdict(ClaimVerdict(find_claim(claim), ClaimOutcome("holds", ()), "t", (), own), committed)
        )
        for claim, own in {
            "A1": ("x/real-adapters-glue-sst2.csv",),
            "A9": ("x/real-adapters-glue-sst2.csv",),
            "F9": ("x/real-unfreezing-adapters-sst2.csv",),
            "F5": ("x/real-unfreezing-adapters-sst2.csv",),
        }.items()
    }
    assert {claim: [name for name in names if name != AFTER_TEST] for claim, names in limited.items()} == {
        "A1": [REPRESENTATIONS],
        "A9": [DEV_ROWS],
        "F9": [TRACES],
        "F5": [],
    }


def test_half_of_the_authors_rates_are_at_an_end_of_their_search() -> None:
    assert [sum(rate.at_an_end for rate in read_rates()), len(read_rates())] == [18, 36]
    assert "rates at the edge" in limits_of_authors()


def test_rates_that_dev_does_not_tell_apart_and_scores_with_nothing_left_to_gain_are_limits() -> None:
    found = {
        study.name: {limit.name: limit for limit in limits_of(study)}
        for study in read_studies(["synthetic-freezing-ner", "synthetic-gradient-dropout-pos", "real-freezing-mrpc"])
    }
    limits = {name: {TIED, AT_CEILING} & set(own) for name, own in found.items()}
    assert limits == {
        "synthetic-freezing-ner": {TIED, AT_CEILING},
        "synthetic-gradient-dropout-pos": {TIED},
        "real-freezing-mrpc": set(),
    }
    # the head alone reached its best score at one rate only
    assert found["synthetic-freezing-ner"][TIED].arms == {"full", *(f"freeze:layers={n}" for n in (1, 2, 3))}


def test_language_adapters_of_few_steps_limit_the_arms_on_them() -> None:
    (study,) = read_studies(["real-unfreezing-adapters-udpos"])
    (limit,) = (each for each in limits_of(study) if each.name == LANGUAGES)
    assert limit.how == "300 steps each, and full fine-tuning has none"
    assert limit.is_about(["full", "pfeiffer:reduction=16"])
    assert not limit.is_about(["full"])


def test_what_was_added_after_scores_on_test_limits_the_study() -> None:
    later = study(after_test_scores="two of five seeds")
    found = limits_of_verdict(checked(ClaimOutcome("holds", ())).measured["real"][0], {"s": later})
    assert list(map(str, found["s"])) == [f"{AFTER_TEST} (two of five seeds)"]


def test_a_cell_says_which_share_of_the_parts_decided_it() -> None:
    outcome = ClaimOutcome("fails", (part("fails"), part("holds"), part("holds")))
    cells = scoreboard_cells([checked(outcome)], [study(compare={"task": "sst2"})])
    (cell,) = (each for each in cells if each.row.source == "real")
    assert cell.small_print == ("1 of 3 parts", "own rates")
    assert cell.row.note.startswith("x = 1, claimed above 0 (1 of 3 parts; 2 hold)")


def test_the_table_and_the_numbers_have_the_limits_and_what_a_claim_lacks() -> None:
    outcome = ClaimOutcome("holds", (part("holds"), part("cannot tell", compared=False)), "each must hold")
    text = page([checked(outcome)], [study(short_training="9 steps"), *read_studies(["real-freezing-mrpc"])])
    assert re.search(r"^\| E1 \|.*\| \*\*holds\*\* \(short training\) \| – \|$", text, re.MULTILINE)
    assert (
        "(s): holds (each must hold); limits: short training\n    - holds: x = 1, claimed above 0\n    - needs y"
        in text
    )


@pytest.mark.parametrize(("claim", "shown"), [("E5", "cannot tell (the paper contradicts itself)"), ("E1", "holds")])
def test_printed_numbers_that_contradict_each_other_decide_nothing(claim: str, shown: str) -> None:
    (found,) = (each for each in check_all() if each.claim.id == claim)
    text = page([found], read_studies(["real-freezing-mrpc"]))
    row = next(line for line in text.splitlines() if line.startswith(f"| {claim} |"))
    assert row.split(" | ")[2] == shown
