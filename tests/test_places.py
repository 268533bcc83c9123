"""Paths as people type them: ``~`` is the home folder everywhere, by one rule, and nothing else is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import gradgate as gg
from gradgate import cli
from gradgate.cli.typed_paths import PathCommand
from gradgate.errors import GradgateError, UsageError
from gradgate.places import typed_path, typed_place
from gradgate.settings.base import CheckedSettings, checked_settings
from gradgate.settings.compare import CompareSettings
from gradgate.settings.finished import EvaluateSettings
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import RunConfig, make_config
from support.command_line import Command
from support.study_folder import write_study

SOURCE = Path(gg.__file__).parent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, beside the current one."""
    folder, here = tmp_path / "home", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(here)
    return folder


def test_home_stands_for_a_leading_tilde_alone(home: Path) -> None:
    assert typed_path("~") == home
    assert typed_path(Path("~/x")) == home / "x"
    for text in ("a/~/b", "./~", "$HOME/x", "${HOME}", "%HOME%", "owner/name"):
        assert typed_place(text) == text


IMPOSSIBLE = {
    "an unknown user": ("~nobody-of-this-name/x", "The home folder '~nobody-of-this-name' of .* is not known"),
    "a home of another shell": ("~+/x", "home folder"),
    "a null byte": ("a\0b", "cannot be the name of a file"),
    "a lone surrogate": ("a\ud800", "cannot be the name of a file"),
    "bytes": (b"a", "of type bytes; expected a path"),
    "a number": (5, "of type int; expected a path"),
}


@pytest.mark.parametrize(("place", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_path_can_be_is_refused(place: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        typed_path(place)


def test_one_place_alone_expands_home() -> None:
    asking = re.compile(r"expanduser|expandvars|Path\.home")
    found = {file.name for file in SOURCE.rglob("*.py") if asking.search(file.read_text(encoding="utf-8"))}
    assert found == {"places.py"}


def leaves(command: Any) -> list[Any]:
    """The commands below a group."""
    own = getattr(command, "commands", None)
    return [command] if own is None else [leaf for each in own.values() for leaf in leaves(each)]


def test_every_command_expands_its_paths() -> None:
    commands = leaves(typer.main.get_command(cli.app))
    assert len(commands) > 20
    assert [command.name for command in commands if not isinstance(command, PathCommand)] == []


SETTINGS: dict[str, tuple[type[CheckedSettings], str, str]] = {
    "data": (RunConfig, "data", "~/x"),
    "training file": (RunConfig, "dev_file", "~/x"),
    "model": (RunConfig, "model", "~/x"),
    "task": (RunConfig, "task", "~/x"),
    "cache": (RunConfig, "activation_cache", "~/x"),
    "language adapters": (RunConfig, "language_adapters", "~/{language}"),
    "models": (CompareSettings, "model", "~/x"),
    "tasks": (CompareSettings, "task", "~/x"),
    "task to score": (EvaluateSettings, "task", "~/x"),
    "texts": (PretrainConfig, "language_data", "~/x"),
}


@pytest.mark.parametrize(("kind", "name", "text"), SETTINGS.values(), ids=SETTINGS)
def test_settings_hold_expanded_paths(home: Path, kind: type[CheckedSettings], name: str, text: str) -> None:
    needed = {"language_data": "x.txt"} if kind is PretrainConfig else {}
    value = getattr(checked_settings(kind, {**needed, name: text}), name)
    assert str(value[0] if isinstance(value, tuple) else value) == text.replace("~", str(home))


def test_files_inside_settings_are_found_at_home(home: Path) -> None:
    (home / "plan.yaml").write_text("phases:\n- {step: 0, open: [head]}\n")
    (home / "axolotl.yaml").write_text("unfrozen_parameters: ['^classifier.weight$']\n")
    (home / "other.txt").write_text("a line\n")
    for text in ("plan:~/plan.yaml", "axolotl:~/axolotl.yaml"):
        method: Any = gg.method(text)
        assert method.file == text.partition(":")[2].replace("~", str(home))
    setting = checked_settings(RunConfig, {"forgetting": "~/other.txt:tokens=5"}).forgetting
    assert setting is not None
    assert setting.path == home / "other.txt"


PYTHON: dict[str, Callable[[], object]] = {
    "a run": lambda: gg.Run("~/study").path,
    "a study": lambda: gg.Study(Path("~/study")).path,
    "a cache": lambda: gg.ActivationCache(folder=Path("~/study")).folder,
    "a report": lambda: gg.Study("~/study").report("~/study/page.html").parent,
}


@pytest.mark.parametrize("make", PYTHON.values(), ids=PYTHON)
def test_python_takes_home_too(home: Path, make: Callable[[], object], draw_only: Callable[..., None]) -> None:
    draw_only()
    write_study(home / "study", scores={"full": [0.5, 0.6, 0.7]})
    assert make() == home / "study"
    assert not Path("~").exists()


def test_training_writes_below_home(home: Path, settings: dict[str, Any]) -> None:
    run = gg.train(**{**settings, "steps": 2, "train_size": 8}, out="~/runs/a", quiet=True)
    assert run.path == home / "runs" / "a"
    assert not Path("~").exists()


def test_a_config_at_home_names_home(home: Path, command: Command) -> None:
    write_study(home / "study", scores={"full": [0.5, 0.6, 0.7]})
    (home / "c.yaml").write_text("curves: ~/curves.csv\n")
    assert command("study", "export", "~/study", "--config", "~/c.yaml").code == 0
    assert (home / "curves.csv").is_file()
    assert not Path("~").exists()


COMMANDS = {
    "folder of a run": ("train", "--out", "~nobody-of-this-name/x"),
    "data": ("train", "--data", "~nobody-of-this-name/x"),
    "configuration": ("train", "--config", "~nobody-of-this-name/x"),
    "rows": ("predict", "x", "--file", "~nobody-of-this-name/x"),
    "delta": ("delta", "info", "~nobody-of-this-name/x"),
    "model": ("layers", "~nobody-of-this-name/x"),
    "task": ("tasks", "~nobody-of-this-name/x"),
    "plan": ("plan", "--steps", "5", "--write", "~nobody-of-this-name/x"),
    "analysis": ("analyze", "fisher", "x", "--out", "~nobody-of-this-name/x"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_an_unknown_home_is_refused(home: Path, command: Command, words: tuple[str, ...]) -> None:
    said = command(*words)
    assert said.code in (1, 2)
    assert "home folder '~nobody-of-this-name'" in said.err
    assert list(Path().iterdir()) == []


def test_task_files_stay_in_their_folder(home: Path) -> None:
    from gradgate.tasks.find import find_task

    (home / "task.yaml").write_text("kind: classification\nfiles: {train: ~/x.csv, dev: dev.csv}\n")
    with pytest.raises(GradgateError, match="is outside the task's folder"):
        find_task("~/task.yaml")


@pytest.mark.parametrize("word", ["on", "True", "atuo", "Auto", "of", "none"])
def test_a_word_that_is_meant_as_a_mode_names_no_folder(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=rf"activation_cache='{word}': expected auto or off or a folder; write './{word}'"
    ):
        make_config(activation_cache=word)
    with pytest.raises(UsageError, match=rf"activation_cache='{word}': expected a folder"):
        gg.GateCallback("full", activation_cache=word)
    assert make_config(activation_cache=f"./{word}").activation_cache == f"./{word}"
    (tmp_path / word).mkdir()
    assert make_config(activation_cache=word).activation_cache == word


@pytest.mark.parametrize("word", ["auto", "off"])
def test_modes_of_a_run_are_no_folders_of_a_callback(word: str) -> None:
    assert make_config(activation_cache=word).activation_cache == word
    with pytest.raises(UsageError, match="expected a folder"):
        gg.GateCallback("full", activation_cache=word)


@pytest.mark.parametrize("folder", ["out", "cache", "acts", "x", "a/auto"])
def test_other_words_name_a_folder(folder: str) -> None:
    assert make_config(activation_cache=folder).activation_cache == folder
