"""The commands that look at a model: what ``layers`` and ``plan`` print agrees with the map and the method."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from support.command_line import Command

OPEN, CLOSED = "█", "·"


def rows(shown: str) -> dict[str, str]:
    """Return group to the marks of its row, as ``plan`` draws them."""
    found = re.findall(rf"^(\S+) +([▒{OPEN}{CLOSED}]+) +\S+$", shown, re.MULTILINE)
    return dict(found)


def test_a_plan_is_drawn_from_the_top_down(command: Command) -> None:
    shown = command("plan", "--method", "gradual:every=3", "--steps", "12").out
    drawn = rows(shown)
    assert list(drawn) == ["head", "layers.3", "layers.2", "layers.1", "layers.0", "embeddings"]
    assert {len(row) for row in drawn.values()} == {12}
    opened = [row.index(OPEN) for row in drawn.values()]
    assert opened == sorted(opened)
    assert all(row == CLOSED * at + OPEN * (12 - at) for row, at in zip(drawn.values(), opened, strict=True))
    assert opened[2] == gg.plan(method="gradual:every=3", steps=12).phases[1].step


def test_the_first_line_is_the_mean_share(command: Command) -> None:
    shown = command("plan", "--method", "freeze:layers=2", "--steps", "8").out
    share = gg.plan(method="freeze:layers=2", steps=8).mean_share
    assert shown.startswith(f"freeze:layers=2, 8 steps: {share:.1%} of the weights learn, on average")


def test_parts_have_a_row_each(command: Command) -> None:
    method = ("--method", "random:unit=part,every=1", "--steps", "12")
    folded, expanded = rows(command("plan", *method).out), rows(command("plan", *method, "--expand").out)
    assert list(folded) == ["head", "layers.3", "layers.2", "layers.1", "layers.0", "embeddings"]
    assert {"layers.0.attention", "layers.0.mlp"} <= set(expanded)
    assert "layers.0" not in expanded


def test_a_plan_that_training_decides_is_not_guessed(command: Command) -> None:
    said = command("plan", "--method", "fun:every=1,batches=2", "--steps", "6")
    assert said.code != 0
    assert "decides by what it measures during training" in said.err


def test_a_written_plan_is_followed(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    said = command("plan", "--method", "gradual:every=2", "--steps", "8", "--write", str(file))
    assert f"train with --method plan:{file}" in said.out
    again = command("plan", "--method", f"plan:{file}", "--steps", "8").out
    assert rows(again) == rows(said.out)


def test_the_groups_hold_every_weight_once(command: Command, tiny_model: Path) -> None:
    record = json.loads(command("layers", str(tiny_model), "--json").out)
    names = [name for group in record["groups"] for name in group["parameter_names"]]
    weights = AutoModelForSequenceClassification.from_pretrained(tiny_model).named_parameters()
    assert sorted(names) == sorted(name for name, _ in weights)
    assert record["groups"][0]["name"] == "embeddings"


def test_a_selection_is_counted(command: Command, tiny_model: Path) -> None:
    found = json.loads(command("layers", str(tiny_model), "--select", "layers.*/!@bias", "--json").out)
    shown = command("layers", str(tiny_model), "--select", "layers.*/!@bias").out.splitlines()
    assert shown[:-1] == found["names"]
    assert found["names"]
    assert not any(name.endswith("bias") for name in found["names"])
    assert shown[-1].startswith(f"{len(found['names'])} parameters, {found['count']:,} of ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("layers", "sample", "--as", "regex"), "--as regex writes a selection. Add --select"),
        (("layers", "sample", "--as", "axolot", "--select", "head"), "Did you mean 'axolotl'?"),
        (("layers", "sample", "--select", "layers.9"), "layers.9"),
        (("plan", "--method", "gradual:every=0", "--steps", "8"), "every=0"),
        (("plan", "--method", "full"), "--steps"),
    ],
)
def test_wrong_requests_are_named(command: Command, words: tuple[str, ...], reason: str) -> None:
    said = command(*words)
    assert (said.code, said.out) == (2, "")
    assert reason in said.err
