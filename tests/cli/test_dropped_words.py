"""Words that a command would drop in silence: second values, and what another tool's file says in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import Command


@pytest.mark.parametrize("command_name", ["tasks", "train", "memory"])
@pytest.mark.parametrize("words", [("--text", "a", "--text", "b"), ("--label=a", "--label", "b")])
def test_a_second_value_is_refused(command: Command, command_name: str, words: tuple[str, ...]) -> None:
    task = ["sample"] if command_name in ("tasks", "memory") else []
    said = command(command_name, *task, *words)
    assert said.code == 2
    assert f"{words[0][:6].rstrip('=')}" in said.err
    assert "is given 2 times, as a and b; it takes one value" in said.err.replace("\n", " ")


@pytest.mark.parametrize("command_name", ["train", "plan"])
def test_several_methods_are_for_compare(command: Command, command_name: str) -> None:
    said = command(command_name, "-m", "full", "--method=head", "--steps", "2")
    assert said.code == 2
    assert "--method is given 2 times, as full and head" in said.err.replace("\n", " ")
    assert "gradgate compare" in said.err


def test_the_same_value_twice_is_one(command: Command) -> None:
    assert command("tasks", "sample", "--source", "en", "--source", "en").code == 0


@pytest.mark.parametrize("entry", ["adapter: qlora", "adapter: lora", "load_in_4bit: true", "load_in_8bit: true"])
def test_adapters_of_axolotl_are_refused(command: Command, entry: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(f"{entry}\nunfrozen_parameters:\n- ^classifier.weight$\n")
    said = command("plan", "--model", "sample", "-m", f"axolotl:{tmp_path / 'a.yml'}", "--steps", "2")
    assert said.code == 2
    assert f"has {entry.partition(':')[0]}: " in said.err.replace("\n", " ")


def test_a_head_for_axolotl_is_that_of_its_models(command: Command) -> None:
    assert "^lm_head.weight$" in command("layers", "sample-decoder", "--select", "head", "--as", "axolotl").out
    assert "lm_head" in command("layers", "sample-decoder", "--select", "head", "--as", "llamafactory").out
    assert "score" in command("layers", "sample-decoder", "--kind", "classification", "--select", "head", "--as",
                              "axolotl").out  # fmt: skip


def test_modules_beside_an_adapter_are_refused(command: Command) -> None:
    said = command("train", "--adapter", "lora:r=4,modules_to_save=classifier", "--dry-run")
    assert said.code == 2
    assert "modules_to_save would have no effect" in said.err.replace("\n", " ") or "no effect" in said.err


def test_flags_that_say_nothing_together_are_refused(command: Command) -> None:
    said = command("tasks", "--text", "body")
    assert (said.code, said.out) == (2, "")
    assert "--text says how a task's data are read, but no task is named" in said.err
    said = command("layers", "sample", "--select", "head", "--as", "regex", "--json")
    assert (said.code, said.out) == (2, "")
    assert "Pass one of them" in said.err


def test_each_arms_own_settings_are_told_with_its_memory(command: Command) -> None:
    said = command("memory", "--model", "sample", "-m", "full:batch_size=4", "-m", "bitfit:batch_size=16,max_length=64")
    assert "batch 4 at 128" in said.out
    assert "batch 16 at 64" in said.out
