"""Signal-to-noise ratios of models on disk: read from shards, never built, and the choice that training makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from gradgate import Tuner, map_layers
from support.command_line import Command
from support.loop import adamw, build
from support.schedules import open_groups


@pytest.fixture
def sharded(tmp_path: Path) -> tuple[Path, PreTrainedModel]:
    """A folder with a tiny decoder in several shards, and the model."""
    model = build("llama")
    model.save_pretrained(tmp_path / "model", max_shard_size="10KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    return tmp_path / "model", model


def test_what_is_marked_on_disk_is_what_training_opens(sharded: tuple[Path, PreTrainedModel], command: Command) -> None:
    folder, model = sharded
    said = command("layers", str(folder), "--snr", "--share", "0.67", "--json")
    found = json.loads(said.out)
    assert found["absent"] == []
    with Tuner(model, adamw(model), "spectrum:share=0.67,ends=closed") as tuner:
        ratios, opened = tuner.memory.notes["snr"], open_groups(tuner.plan)
    assert {row["group"]: row["snr"] for row in found["signals"]} == ratios
    assert {row["group"] for row in found["signals"] if row["chosen"]} == opened


def test_the_weights_are_never_built(
    sharded: tuple[Path, PreTrainedModel], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[torch.Tensor] = []

    def noted(self: torch.nn.Module, name: str, value: torch.nn.Parameter | None) -> None:
        if value is not None:
            made.append(value)
        plain(self, name, value)

    plain = torch.nn.Module.register_parameter
    monkeypatch.setattr(torch.nn.Module, "register_parameter", noted)
    assert command("layers", str(sharded[0]), "--snr", "--share", "0.5").code == 0
    assert made
    assert all(parameter.is_meta for parameter in made)


def test_the_table_has_each_kind_with_the_clearest_first(tiny_model: Path, command: Command) -> None:
    said = command("layers", str(tiny_model), "--snr", "--share", "0.5")
    lines = said.out.splitlines()
    assert "attention.query: 1 of 2" in lines
    first, second = lines[lines.index("attention.query: 1 of 2") + 1 :][:2]
    assert first.split()[0] == "█"
    assert second.split()[0] == "·"
    assert float(first.split()[-1]) >= float(second.split()[-1])
    assert lines[-1] == "█ opened by spectrum:share=0.5   · closed"


def test_a_model_without_the_prefix_of_its_class_is_read_too(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    model.bert.save_pretrained(tmp_path)
    whole, bare = (
        json.loads(command("layers", str(folder), "--snr", "--json").out) for folder in (tiny_model, tmp_path)
    )
    assert bare == whole
    assert bare["absent"] == []


def test_matrices_that_no_file_holds_are_named(tiny_model: Path, tmp_path: Path, command: Command) -> None:
    for file in tiny_model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    gone = next(name for name in tensors if "layer.0.attention.self.query.weight" in name)
    save_file({name: tensor for name, tensor in tensors.items() if name != gone}, tmp_path / "model.safetensors")
    said = command("layers", str(tmp_path), "--snr")
    assert "layer.0.attention.self.query.weight, so it was not measured" in said.out
    save_file({"other": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    said = command("layers", str(tmp_path), "--snr")
    assert said.code != 0
    assert "have none of the matrices of its configuration" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--share", "0.5"), "Add --snr"),
        (("--snr", "--share", "0"), "expected a number above 0 and at most 1"),
        (("--snr", "--share", "nan"), "--share nan: expected a finite number"),
        (("--snr", "--select", "head"), "cannot be combined"),
    ],
)
def test_words_that_cannot_be_right_say_why(
    words: tuple[str, ...], message: str, tiny_model: Path, command: Command
) -> None:
    said = command("layers", str(tiny_model), *words)
    assert said.code != 0
    assert message in said.err


@pytest.mark.parametrize("unit", ["part", "layer"])
def test_other_units_have_the_mean_of_their_matrices(
    unit: str, sharded: tuple[Path, PreTrainedModel], command: Command
) -> None:
    found = json.loads(command("layers", str(sharded[0]), "--snr", "--unit", unit, "--json").out)["signals"]
    names = {row["group"] for row in found}
    assert names == {g.name for g in map_layers(sharded[1]).at(unit).layers if not g.name.endswith("norm")}
