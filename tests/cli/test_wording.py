"""Messages name parameters; the command line prints them as its flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.cli.wording import flag, help_in_flags, in_flags
from gradgate.errors import UsageError
from gradgate.settings.base import checked_settings
from gradgate.settings.run import RunConfig
from support.command_line import Command

KNOWN = {
    name: flag(name) for name in ("batch_size", "budget", "lr", "layers", "search", "fsdp", "out", "prune", "steps")
} | {"low": "--from"}


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("budget=2: expected a share", "--budget 2: expected a share"),
        ("batch_size='x': input", "--batch-size 'x': input"),
        ("Pass another out=.", "Pass another --out."),
        ("give lr=, or leave steps= out", "give --lr, or leave --steps out"),
        ("leave prune=True out", "leave --prune out"),
        ("give fsdp=False (or none)", "give --no-fsdp (or none)"),
        ("as in search='lr=1e-5..1e-4'", "as in --search 'lr=1e-5..1e-4'"),
        ("'freeze:layers=9' is too deep", "'freeze:layers=9' is too deep"),
        ("freeze:layers=9,lr=1", "freeze:layers=9,lr=1"),
        ("the run's lr=3 and the study's lr=4", "the run's --lr 3 and the study's --lr 4"),
        ("out=../run is not empty", "--out ../run is not empty"),
        ("low=3: below 0", "--from 3: below 0"),
        ("every=5 is not a parameter", "every=5 is not a parameter"),
    ],
)
def test_parameters_become_flags(message: str, printed: str) -> None:
    assert in_flags(message, KNOWN) == printed


def test_examples_in_help_stay() -> None:
    text = "crossed with out=; lr=1e-3 is an option, and search='lr=...' finds one"
    assert help_in_flags(text, KNOWN) == "crossed with --out; lr=1e-3 is an option, and --search 'lr=...' finds one"


def test_one_message_has_both_forms(command: Command, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^batch_size=0: expected"):
        checked_settings(RunConfig, {"batch_size": 0})
    said = command("train", "--batch-size", "0", "--out", str(tmp_path / "run"))
    assert said.err.startswith("gradgate: --batch-size 0: expected")


def test_options_of_methods_have_no_flags(command: Command) -> None:
    said = command("train", "--method", "freeze:layers=-1")
    assert "cannot have layers=-1" in said.err


TRAINERS = [
    ("learning_rate", "lr"),
    ("num_train_epochs", "epochs"),
    ("per_device_train_batch_size", "batch_size"),
    ("gradient_accumulation_steps", "accumulate"),
    ("max_steps", "steps"),
    ("warmup_ratio", "warmup"),
    ("lr_scheduler_type", "schedule"),
    ("output_dir", "out"),
    ("eval_steps", "eval_every"),
    ("save_steps", "save_every"),
    ("max_grad_norm", "clip"),
    ("gradient_checkpointing", "checkpointing"),
]


@pytest.mark.parametrize(("theirs", "ours"), [*TRAINERS, ("bf16", "precision='bf16'"), ("fp16", "precision='fp16'")])
def test_trainers_names_are_answered(command: Command, theirs: str, ours: str, tmp_path: Path) -> None:
    name, _, value = ours.partition("=")
    shown = f"--{name.replace('_', '-')}{f' {value}' if value else ''}"
    with pytest.raises(UsageError, match=f"'{theirs}': gradgate's name is {name}={value}"):
        checked_settings(RunConfig, {theirs: 1})
    flag = f"--{theirs.replace('_', '-')}"
    assert f"No such option: {flag}. gradgate's flag is {shown}." in command("train", flag, "1").err
    (tmp_path / "c.yaml").write_text(f"{theirs}: 1\n")
    said = command("train", "--config", str(tmp_path / "c.yaml"))
    assert f"gradgate's name is {shown}" in " ".join(said.err.split())
