"""The evidence: its studies can be run, and its pages are those of its committed numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from evidence.__main__ import app
from evidence.arms import is_on_dev, read_runs, runs_by_arm
from evidence.commands import first_rows
from evidence.page import PAGE
from evidence.pages import written
from evidence.paper_figures import PAPER_FIGURES
from evidence.repetition import (
    Repetition,
    changed,
    equal_numbers,
    forget_repetition,
    keep_repetition,
    repeated,
)
from evidence.running import settings_here
from evidence.scoreboard import PAGE as SCOREBOARD_PAGE
from evidence.studies import FIGURES, FOLDER, KeptFigure, Scale, Study, read_studies
from evidence.verdicts import KINDS, check_all
from gradgate.papers.claims import claims
from gradgate.papers.claims.numbers import SEARCH_SEEDS, SECONDS, SEED_SPREAD, TRACE_EARLY, Key, Numbers, Place
from gradgate.papers.recorded import RecordedNumber, read_numbers, write_numbers
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.arms.own_settings import OWN_SETTINGS
from gradgate.settings.run import make_config
from gradgate.study.replay.curve_rows import CurveRow

STUDIES = read_studies()
OF_COMPARE = {"method", "prune", "search", "search_seeds", "seeds", "sweep", "store", "train_size"}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
@pytest.mark.parametrize("scale", ["full", "quick"])
def test_its_settings_are_those_of_compare(study: Study, scale: Any) -> None:
    settings = study.settings(scale)
    make_config(**{name: value for name, value in settings.items() if name not in OF_COMPARE})
    for arm in settings.get("method", []):
        read_arm(arm)
    assert all(word.partition("=")[0] in OWN_SETTINGS for word in settings.get("search", []))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_no_rate_is_picked_by_hand(study: Study) -> None:
    assert "search" in study.compare
    assert "lr" not in study.compare


@pytest.mark.parametrize("study", [each for each in STUDIES if each.paper], ids=lambda study: study.name)
def test_its_numbers_are_of_three_seeds_or_more_of_one_paper(study: Study) -> None:
    numbers = read_numbers(study.results)
    assert list(numbers) == [study.paper]
    seeds = [
        by_seed for key, by_seed in numbers[study.paper].scores.items() if key.on not in (SEED_SPREAD, SEARCH_SEEDS)
    ]
    assert min(map(len, seeds)) >= 3
    assert not study.without_times or all(key.on != SECONDS for key in numbers[study.paper].scores)
    assert not study.without_early_traces or all(key.on != TRACE_EARLY for key in numbers[study.paper].scores)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_runs_are_of_three_seeds_or_more_and_name_no_path_of_a_machine(study: Study) -> None:
    rows = read_runs(study.runs)
    assert {row["model"] for row in rows} == {study.compare["model"]}
    for by_arm in runs_by_arm(study.runs).values():
        seeds = {tuple(row["seed"] for row in own) for own in by_arm.values()}
        assert len(seeds) == 1
        assert len(seeds.pop()) >= 3


@pytest.mark.parametrize(("instructions", "precision"), [({"avx512_bf16": True}, "bf16"), ({"avx2": True}, "fp32")])
def test_a_cpu_that_would_emulate_bf16_computes_in_fp32(
    instructions: dict[str, bool], precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    study = Study(
        name="a", title="a", paper="elsa", data="synthetic", differs="", compare={"seeds": 3, "precision": "bf16"}
    )
    assert settings_here(study, "full", tmp_path) == {"seeds": 3, "precision": precision}


def test_a_study_keeps_the_precision_that_another_machine_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    study = Study(name="a", title="a", paper="elsa", data="synthetic", differs="", compare={"precision": "bf16"})
    (tmp_path / "a.yaml").write_text("precision: bf16", encoding="utf-8")
    assert settings_here(study, "full", tmp_path) == {"precision": "bf16"}


def test_runs_of_studies_that_compare_times_take_turns() -> None:
    said = CliRunner().invoke(app, ["run", "real-freezing-sst2", "--workers", "2"])
    assert said.exit_code == 1
    assert "real-freezing-sst2 compares times" in said.output


def test_quick_scores_fewer_rows_and_leaves_full_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("dev.tsv", "test.tsv"):
        (source / name).write_text("a\n" * 9, encoding="utf-8")
    rows = {"first_rows": {"dev.tsv": 5, "test.tsv": 7}, "quick_first_rows": {"dev.tsv": 2}}
    study = Study(name="a", title="a", paper="elsa", data="real", differs="", compare={"data": str(source)}, **rows)

    def lengths(scale: Scale) -> list[int]:
        data = Path(settings_here(study, scale, tmp_path / scale)["data"])
        return [len((data / name).read_text(encoding="utf-8").splitlines()) for name in ("dev.tsv", "test.tsv")]

    assert (lengths("full"), lengths("quick")) == ([5, 7], [2, 7])


def test_the_first_rows_of_some_files_are_taken_and_others_are_copied_whole(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.tsv").write_text("a\n" * 5, encoding="utf-8")
    (source / "test.tsv").write_text("a\nb\nc\n", encoding="utf-8")
    (source / "test.txt").write_text("one\nsentence\n\nanother\n\nthird\n", encoding="utf-8")
    (source / "LICENSE.htm").write_bytes(b"\x82 is no UTF-8")
    (source / "unlabelled.tsv").write_text("a\n", encoding="utf-8")
    target = first_rows(source, {"test.tsv": 2, "test.txt": 1, "unlabelled.tsv": 0}, tmp_path / "target")
    assert {file.name: file.read_bytes() for file in target.iterdir()} == {
        "train.tsv": b"a\n" * 5,
        "test.tsv": b"a\nb\n",
        "test.txt": b"one\nsentence\n\n",
        "LICENSE.htm": b"\x82 is no UTF-8",
    }


def test_the_pages_are_made_from_the_committed_numbers() -> None:
    made = written()
    assert {file: file.read_text(encoding="utf-8") for file in made} == made


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_each_of_its_figures_is_kept_and_no_other(study: Study) -> None:
    assert {file.name for file in (FIGURES / study.name).iterdir()} == {figure.file for figure in study.figures}


def test_the_figure_of_a_part_is_in_the_report_of_the_part() -> None:
    own, of_part = KeptFigure(name="scores"), KeptFigure(name="scores", part="a")
    assert [figure.drawn(Path("out")) for figure in (own, of_part)] == [
        Path("out/figures/scores.svg"),
        Path("out/parts/a/figures/scores.svg"),
    ]
    assert (own.file, of_part.file) == ("scores.svg", "scores-a.svg")


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_figures_are_like_those_of_its_paper_that_the_page_lists(study: Study) -> None:
    listed = {number for figure in PAPER_FIGURES if figure.paper == study.paper for number in figure.numbers}
    assert {number for figure in study.figures for number in figure.paper} <= listed


def test_every_claim_has_its_place_and_what_cannot_be_told_has_a_reason() -> None:
    found = check_all()
    assert [each.claim.id for each in found] == [claim.id for claim in claims()]
    undecided = [each.claim for each in found if not each.is_decided]
    listed = PAGE.read_text(encoding="utf-8").partition("## Undecided claims")[2]
    reasons = SCOREBOARD_PAGE.read_text(encoding="utf-8").partition("## What would decide the rest")[2]
    assert all(re.search(rf"\b{claim.id}\b", listed) for claim in undecided)
    assert all(re.search(rf"\*\*{claim.id}\*\* {re.escape(claim.wording)} \w", reasons) for claim in undecided)


def test_studies_of_one_kind_are_checked_together_and_kinds_apart(tmp_path: Path) -> None:
    _record(tmp_path / "real" / "one.csv", "XNLI", gain=10)
    _record(tmp_path / "real" / "two.csv", "POS", gain=-10)
    _record(tmp_path / "synthetic" / "three.csv", "XNLI", gain=-10)
    found = {each.claim.id: each for each in check_all(tmp_path)}
    assert {kind: found["G1"].states(kind) for kind in KINDS} == {
        "authors": {},
        "real": {"the paper's tasks": "holds"},
        "synthetic": {"the paper's tasks": "fails"},
    }
    assert [Path(part).stem for part in found["G1"].measured["real"][0].parts] == ["one"]
    assert [Path(part).stem for part in found["G6"].measured["real"][0].parts] == ["two"]


def test_a_verdict_that_differs_is_named_whatever_other_studies_say(tmp_path: Path) -> None:
    one, other = (
        Study(name=name, title="", paper="graddrop", data="real", differs="", compare={}) for name in ("one", "other")
    )
    for folder, gain in (("committed", 10), ("again", -10)):
        _record(tmp_path / folder / "real" / "one.csv", "XNLI", gain=gain)
    _record(tmp_path / "committed" / "real" / "other.csv", "XNLI", gain=-10)
    _record(tmp_path / "again" / "real" / "other.csv", "XNLI", gain=-10)
    again, committed = tmp_path / "again", tmp_path / "committed"
    assert "G1 on real data, the paper's tasks: fails here, holds in the committed numbers" in list(
        changed([one], again, committed)
    )
    assert list(changed([other], again, committed)) == []


def test_numbers_that_are_the_same_are_counted_without_times(tmp_path: Path) -> None:
    study = Study(name="one", title="", paper="graddrop", data="real", differs="", compare={})
    key = Key(Place("m", "XNLI"), "SFT", "avg")
    for folder, last in (("committed", 3.0), ("again", 3.5)):
        file = tmp_path / folder / "results" / study.file
        file.parent.mkdir(parents=True)
        scores = {key: {0: 1.0, 1: 2.0, 2: last}, key._replace(on=SECONDS): {0: last}}
        write_numbers({"one": {"graddrop": Numbers(scores, False)}}, file)
    assert equal_numbers(study, tmp_path / "again", tmp_path / "committed") == (2, 3)


def test_a_repetition_is_kept_until_the_study_has_new_numbers(tmp_path: Path) -> None:
    file = tmp_path / "repetitions.csv"
    of_a_paper, of_none = read_studies(["real-freezing-glue-sst2", "real-freezing-multilingual-stsb"])
    for study in (of_none, of_a_paper, of_a_paper):
        keep_repetition(study, FOLDER, file)
    counts = {study.name: equal_numbers(study, FOLDER)[1] for study in (of_a_paper, of_none)}
    assert min(counts.values()) > 0
    assert repeated(file) == {name: Repetition(name, count, count, 0) for name, count in counts.items()}
    forget_repetition(of_none, file)
    assert list(repeated(file)) == [of_a_paper.name]


def test_scores_of_runs_are_counted_for_a_study_of_no_paper(tmp_path: Path) -> None:
    study = Study(name="one", title="", data="real", differs="", compare={})
    for folder, last in (("committed", "0.5"), ("again", "0.25")):
        (tmp_path / folder / "runs").mkdir(parents=True)
        rows = f"t,9,full,,0,0.75\nt,8,full,,0,0.75\nt,9,full,,1,{last}\n"
        (tmp_path / folder / "runs" / "one.csv").write_text(f"task,train_size,method,adapter,seed,score\n{rows}")
    assert equal_numbers(study, tmp_path / "again", tmp_path / "committed") == (2, 3)


def _record(file: Path, task: str, gain: float) -> None:
    """Numbers of GradDrop and SFT with three seeds."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [("SFT", seed, 50 + 0.01 * seed) for seed in range(3)]
    rows += [("GradDrop", seed, 50 + gain + 0.02 * seed) for seed in range(3)]
    lines = [",".join(RecordedNumber.__dataclass_fields__)]
    lines += [
        f"graddrop,{file.stem},XLM-R-Large,{task},full,{name},{name},avg,{seed},{score},False,{json.dumps([])}"
        for name, seed, score in rows
    ]
    file.write_text("\n".join(lines))


@pytest.mark.parametrize(("test", "on_dev"), [(0.7, True), (0.65, False)])
def test_scores_on_dev_are_told_from_scores_on_test(test: float, on_dev: bool) -> None:
    row = CurveRow(task="t", model="m", arm="a", method="a", adapter=None, lr=0.1, seed=0, step=1, of_steps=2, dev=0.7)
    assert is_on_dev([row, replace(row, step=2, dev=0.6, test=test)]) is on_dev
