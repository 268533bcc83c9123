"""``gradgate delta``: of a run and of any model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.bits import assert_same_bits, on_disk
from support.command_line import Command
from support.run_folders import weights


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any]) -> Path:
    """A finished run in which the head and the top layer learned."""
    folder = tmp_path_factory.mktemp("delta") / "run"
    train(make_config(**{**settings, "steps": 3, "method": "freeze:layers=1"}), folder)
    return folder


def test_the_delta_of_a_run(tmp_path: Path, run: Path, command: Command, settings: dict[str, Any]) -> None:
    file = tmp_path / "task.safetensors"
    said = command("delta", "create", str(run), "-o", str(file))
    assert said.code == 0, said.err
    assert "freeze:layers=1" in said.out

    held = json.loads(command("delta", "info", str(file), "--json").out)
    assert held["method"] == "freeze:layers=1"
    assert held["task"] == json.loads((run / "run.json").read_text())["task"]["name"]
    assert held["base"] == settings["model"]
    assert not [name for name in (*held["whole"], *held["sparse"]) if "layer.0" in name or "embeddings" in name]

    assert command("delta", "apply", str(file), "-o", str(tmp_path / "again")).code == 0
    assert_same_bits(on_disk(tmp_path / "again"), weights(run))


def test_the_delta_of_any_model(tmp_path: Path, tiny_model: Path, command: Command) -> None:
    trained = tmp_path / "trained"
    trained.mkdir()
    tensors = load_file(tiny_model / "model.safetensors")
    tensors["encoder.layer.1.output.dense.bias"] += 1
    save_file(tensors, trained / "model.safetensors")
    (trained / "config.json").write_bytes((tiny_model / "config.json").read_bytes())

    said = command("delta", "create", str(trained), "-o", str(tmp_path / "d.safetensors"))
    assert (said.code, "Add --base" in said.err) == (2, True)
    said = command("delta", "create", str(trained), "--base", str(tiny_model), "-o", str(tmp_path / "d.safetensors"))
    assert said.code == 0
    assert "whole        1 tensors, 128 bytes: encoder.layer.1.output.dense.bias" in said.out

    said = command("delta", "apply", str(tmp_path / "d.safetensors"), "--base", str(trained), "-o", str(tmp_path / "x"))
    assert (said.code, "belongs to the base" in said.err) == (1, True)


def test_a_study_or_nothing_in_place_of_a_run_is_named(tmp_path: Path, command: Command) -> None:
    run = tmp_path / "study/runs/full/seed-0"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    for words in (("apply", str(tmp_path / "study")), ("create", str(tmp_path / "study"))):
        said = command("delta", *words, "-o", str(tmp_path / "out"))
        assert said.code == 1
        assert f"holds no run: {tmp_path / 'study/run.json'} is missing. Name a run of it, as {run}." in said.err
    said = command("delta", "create", "no-such-model", "-o", str(tmp_path / "out"))
    assert (said.code, "There is no folder no-such-model, and no model of this name" in said.err) == (2, True)


def test_a_run_that_trained_an_adapter_is_told_that_it_needs_no_delta(
    tmp_path: Path, command: Command, settings: dict[str, Any]
) -> None:
    train(make_config(**{**settings, "steps": 2, "adapter": "lora:r=2"}), tmp_path / "run")
    for words in (("info", str(tmp_path / "run")), ("create", str(tmp_path / "run"), "-o", str(tmp_path / "file"))):
        said = command("delta", *words)
        assert (said.code, "trained the adapter lora:r=2" in said.err) == (1, True)
        assert "copy this folder" in said.err
