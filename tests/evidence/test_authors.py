"""The authors' own runs: the committed file is what the import makes, and all that the paper prints follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.authors import FILE, RATES, arm_of, printed_scores, printed_selection, record, source
from evidence.authors_page import task_verdicts
from gradgate.papers.check import check_studies
from gradgate.papers.claims.numbers import Numbers
from gradgate.papers.recorded import read_numbers


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return read_numbers(FILE)["elsa"]


@pytest.mark.slow
@pytest.mark.skipif(not (source() / "runs.csv").is_file(), reason="the authors' runs are not in GRADGATE_SHARED")
def test_the_committed_file_is_what_the_import_makes(tmp_path: Path) -> None:
    record(tmp_path / "scores.csv", tmp_path / "rates.csv")
    assert (tmp_path / "scores.csv").read_bytes() == FILE.read_bytes()
    assert (tmp_path / "rates.csv").read_bytes() == RATES.read_bytes()


def test_every_printed_score_is_the_mean_of_all_runs_or_of_the_best_ones(numbers: Numbers) -> None:
    selected, chosen = printed_selection(numbers)
    off = [
        key
        for key, printed in printed_scores().items()
        if abs(sum(selected.scores[key].values()) / len(selected.scores[key]) - printed) > 0.0051
    ]
    assert (len(printed_scores()), len(chosen), off) == (568, 32, [])
    assert all(kept < of for kept, of in chosen.values())


def test_eight_models_have_their_verdicts_on_all_runs_which_nothing_pairs(numbers: Numbers) -> None:
    assert not numbers.paired
    assert len({place.model for place in numbers.places("baseline")}) == 8
    states = {verdict.claim.id: verdict.outcome.state for verdict in check_studies([FILE], "elsa") if verdict.checked}
    assert states == {
        "E1": "holds",
        "E2": "cannot tell",  # no run is of named entities
        "E3": "cannot tell",
        "E4": "cannot tell",
        "E5": "cannot tell",
        "E6": "cannot tell",
    }


def test_a_single_task_can_be_worse_where_the_mean_quality_is_kept(numbers: Numbers) -> None:
    found = {(each.place.model, each.place.task, each.label): each.verdict for each in task_verdicts(numbers)}
    cola = found["BERT-base", "CoLA", "frozen 9/12"]
    assert (cola.word.value, cola.non_inferior) == ("worse", False)
    assert found["RoBERTa-large", "SST-2", "frozen 18/24"].word.value == "equivalent"


@pytest.mark.parametrize(
    ("label", "arm"), [("baseline", "full"), ("frozen 9/12", "freeze:layers=9"), ("frozen 24/24", "head")]
)
def test_labels_of_the_paper_are_arms_of_gradgate(label: str, arm: str) -> None:
    assert arm_of(label) == arm
