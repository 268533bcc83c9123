"""Both analyses on every kind of task and in several languages, and studies that cannot be analyzed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.analysis import hidden_states, loss_surface
from gradgate.analysis.landscape import landscape_folder
from gradgate.analysis.representations import representations_folder
from gradgate.analysis.runs import find_runs
from gradgate.errors import RunError, UsageError
from gradgate.runs.progress import Silent
from gradgate.settings.analysis import LandscapeSettings, RepresentationSettings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.crossed import some_fast
from support.kind_folders import SAVE
from support.study_folder import write_study
from support.tiny_folders import save_texts


@some_fast("kind", list(SAVE), ["token-classification", "question-answering", "ranking"])
def test_both_analyses_take_every_kind_of_task(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    task = SAVE[kind](tmp_path / "data")
    train(
        make_config(**settings | {"task": str(task), "steps": 4, "method": "freeze:layers=1", "skip_test": True}),
        tmp_path / "run",
    )
    (group,) = find_runs([tmp_path / "run"], print)
    folder = representations_folder(tmp_path / "states")
    rows = hidden_states.measure(group.runs, folder, RepresentationSettings(tokens=40, device="cpu"), Silent())
    assert [row.rsa for row in rows[:2]] == pytest.approx([1, 1], abs=1e-6)
    assert rows[2].rsa is not None
    assert rows[2].rsa < 1
    assert {row.tokens for row in rows} == {40}
    request = LandscapeSettings(points=2, plane=0, device="cpu")
    losses = loss_surface.measure(group.runs, landscape_folder(tmp_path / "losses"), request, Silent())
    (tuned,) = (row.loss for row in losses if (row.split, row.x) == ("dev", 1.0))
    alone = LandscapeSettings(points=2, plane=0, device="cpu", batch_size=1)
    others = loss_surface.measure(group.runs, landscape_folder(tmp_path / "alone"), alone, Silent())
    assert [row.loss for row in others] == pytest.approx([row.loss for row in losses], abs=1e-5)
    if kind != "token-classification":  # there a batch counts by its rows, however many tags they have
        noted = json.loads((tmp_path / "run/scores.json").read_text())["dev"]["loss"]
        assert tuned == pytest.approx(noted, abs=1e-4)


def test_tokens_of_other_languages_have_figures_of_their_own(settings, tmp_path, command):
    data = save_texts(tmp_path)
    (data / "test.tsv").rename(data / "en.tsv")
    (data / "sw.tsv").write_text((data / "en.tsv").read_text())
    (data / "task.yaml").write_text(
        'languages: [en, sw]\nfiles: {train: train.tsv, dev: dev.tsv, test: "{language}.tsv"}\n'
    )
    train(make_config(**settings | {"task": str(data), "steps": 4, "lr": 1e-2}), tmp_path / "run")
    words = ("analyze", "representations", str(tmp_path / "run"), "--device", "cpu", "--tokens", "50")
    said = command(*words, "--split", "dev", "--split", "test.sw")
    assert said.code == 0, said.err
    names = {file.name for file in (tmp_path / "run/analyses/representations").glob("*.svg")}
    assert names == {"representations.svg", "representations-test.sw.svg"}
    assert "tokens of test.sw" in said.out


def test_a_study_without_kept_models_says_which_and_why(tmp_path):
    notes: list[str] = []
    study = write_study(tmp_path, scores={"full": [0.7, 0.8, 0.9]})
    with pytest.raises(RunError, match=r"No run of the study in .* has finished and kept its model"):
        find_runs([study], notes.append)
    assert notes[0] == "Left out: full with seed 0 kept no model. Train with keep_model=True."
    assert notes[-1] == "Left out: gradual:every=40 with seed 2 has not finished."
    with pytest.raises(UsageError, match="expected one study, or one or more runs"):
        find_runs([study, tmp_path / "other"], notes.append)
    (study / "study.json").write_text("{")
    with pytest.raises(RunError, match=r"study\.json is damaged"):
        find_runs([study], notes.append)
