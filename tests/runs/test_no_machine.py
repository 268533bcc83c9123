"""What people hand on names no folder of the machine: cards of deltas, reports, headings in notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.places import short_name
from gradgate.runs.card import CardSource, model_card
from gradgate.runs.folder import RunFolder
from gradgate.settings.command_line import places_note, train_command, without_places
from gradgate.settings.run import RunConfig


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/home/me/bert", "bert"),
        ("C:\\Users\\me\\bert", "bert"),
        ("//server/share/bert", "bert"),
        ("owner/name", "owner/name"),
        ("../bert", "../bert"),
        ("sample", "sample"),
        ("/", "/"),
    ],
)
def test_absolute_paths_become_names(place: str, name: str) -> None:
    assert short_name(place) == name


def test_a_run_names_no_machine(tmp_path: Path, settings: dict[str, Any], draw_only: Callable[..., None]) -> None:
    draw_only()
    held = tmp_path / "held.tsv"
    held.write_bytes((Path(settings["task"]) / "test.tsv").read_bytes())
    own = {**settings, "steps": 2, "train_size": 16, "method": "head", "test_file": held}
    run = gg.train(**own, store="delta", out=tmp_path / "run", quiet=True)
    card = (run.path / "model" / "README.md").read_text()
    page = run.report().read_text()
    for text in (card, page, repr(run), run._repr_html_()):
        assert str(tmp_path) not in text
        assert str(Path(settings["model"]).parent) not in text
    assert "gradgate delta apply run -o FOLDER" in card
    file, known = run.path / "run.json", run.config
    record = json.loads(file.read_text())
    config = {**record["config"], "method": f"plan:{tmp_path}/plan.yaml"}  # which nobody else has
    file.write_text(json.dumps({**record, "config": config}))
    card = model_card(CardSource.of(RunFolder(run.path), config=known), library="transformers", usage="load()")
    assert "- Method: `plan:plan.yaml`" in card
    assert "-m plan:plan.yaml" in card
    assert re.search(r"^Replace \S+, \S+ and held.tsv with their paths on your machine.$", card, re.MULTILINE)
    assert str(tmp_path) not in card
    assert re.search(r"<h1>moods\d* with tiny-bert\d*</h1>", page)


def test_a_command_on_a_page_names_no_machine() -> None:
    files = {"data": "/home/me/data", "dev_file": "/home/me/held/dev.tsv", "test_file": "here/test.tsv"}
    config = RunConfig(model="/home/me/bert", task="wikiann", forgetting="/home/me/news.txt:tokens=50", **files)
    command = train_command(without_places(config), "out")
    assert "/home/me" not in command
    assert "--model bert --task wikiann" in command
    assert "--data data --dev-file dev.tsv --test-file here/test.tsv" in command
    assert "--forgetting news.txt:tokens=50" in command
    assert places_note(config) == "Replace bert, data, dev.tsv and news.txt with their paths on your machine."
    assert places_note(RunConfig(task="sample", test_file="here/test.tsv")) == ""
