"""The scores of a study that claims are checked on: in which languages, on which split, and of which kind of metric."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradgate.errors import UsageError
from gradgate.papers.check import check_studies, record_studies
from gradgate.papers.claims.numbers import SECONDS
from gradgate.papers.measured import numbers_of_study
from gradgate.papers.recorded import read_numbers
from gradgate.study.results import read_study
from support.study_folder import write_study

ARMS = ("full", "freeze:layers=1")
SCORES = {"full": [0.80, 0.81, 0.82], "freeze:layers=1": [0.78, 0.795, 0.80]}


def test_elsa_counts_the_language_of_training_alone(tmp_path: Path) -> None:
    tests = ("test.en", "test.de", "test.sw")
    languages = {"train": "en", "dev": "en"} | {split: split[-2:] for split in tests}
    results = read_study(write_study(tmp_path, ARMS, scores=SCORES, tests=tests, languages=languages, source="en"))
    on = {paper: {key.on for key in numbers_of_study(paper, results).scores} for paper in ("elsa", "fun")}
    assert {"en", "de", "sw"} <= on["fun"]
    assert {name for name in on["elsa"] if len(name) == 2} == {"en"}


@pytest.mark.parametrize("searched", [True, False])
def test_a_dev_split_that_picked_the_settings_decides_no_claim(searched: bool, tmp_path: Path) -> None:
    folder = write_study(tmp_path, ARMS, scores=SCORES, name="stsb", metric="spearman", kind="regression", labels=None)
    if searched:
        study = json.loads((folder / "study.json").read_text())
        search = {"space": ["lr=1e-4,1e-3"], "seeds": [1000], "settings": [{"lr": 1e-4}, {"lr": 1e-3}]}
        (folder / "study.json").write_text(json.dumps({**study, "search": search}))
    numbers = numbers_of_study("elsa", read_study(folder))
    full = next(by_seed for key, by_seed in numbers.scores.items() if (key.method, key.on) == ("baseline", "en"))
    assert full[0] == pytest.approx(80.0 if searched else 81.0)  # dev is 0.01 above test
    assert ("scored on dev, as in the paper's table" in numbers.notes) is not searched


def test_no_claim_is_about_a_metric_of_which_less_is_better(tmp_path: Path) -> None:
    folder = write_study(tmp_path, ARMS, scores=SCORES, metric="perplexity", metric_higher_is_better=False)
    for paper in ("elsa", "adaptereff"):
        numbers = numbers_of_study(paper, read_study(folder))
        assert {key.on for key in numbers.scores} <= {SECONDS, "loss-rise"}
        assert any("perplexity is better if it is lower" in note for note in numbers.notes)
    states = {verdict.claim.id: verdict.outcome.state for verdict in check_studies([folder], "elsa")}
    assert states["E1"] == states["E6"] == "cannot tell"


def test_studies_with_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_study(tmp_path / name / "study", ARMS, scores=SCORES, name=name) for name in ("wiki", "news")]
    record_studies(folders, tmp_path / "numbers.csv", "elsa")
    assert {key.place.task for key in read_numbers(tmp_path / "numbers.csv")["elsa"].scores} == {"wiki", "news"}
    assert "wiki/study" in (tmp_path / "numbers.csv").read_text()
    with pytest.raises(UsageError, match="A study is named twice"):
        record_studies([folders[0], folders[0]], tmp_path / "twice.csv")
