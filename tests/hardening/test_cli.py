"""Bad words on the command line, in settings and in the user's data: a message and an exit code, never a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradgate.cli import render
from gradgate.errors import UsageError
from gradgate.settings.run import make_config
from support.command_line import Command
from support.study_folder import fail, write_study

ESC = "\x1b"
DEEP = "a: " + "[" * 5000 + "]" * 5000 + "\n"


def written(content: str) -> Callable[[Path], str]:
    """Makes the settings file of a case, and returns its path."""

    def write(folder: Path) -> str:
        file = folder / "settings.yaml"
        file.write_text(content)
        return str(file)

    return write


NUMBERS = {
    "a seed of 33 bits": (("train", "--seed", "4294967296"), r"--seed 4294967296.*less than or equal to 4294967295"),
    "a seed of 37 bits": (("compare", "-m", "full", "--seeds", "99999999999,"), "seeds of at most 4294967295"),
    "millions of seeds": (("compare", "-m", "full", "--seeds", "99999999"), "at most 10,000 seeds"),
    "a float as a count": (("train", "--batch-size", "1e20"), "'--batch-size': '1e20'; expected a whole number"),
    "a batch of a googol": (("train", "--batch-size", "1" + "0" * 100), "less than or equal to 1000000"),
    "epochs without end": (("train", "--epochs", "inf"), "--epochs inf.*finite number"),
    "epochs that are no number": (("train", "--epochs", "nan"), "--epochs nan"),
    "a rate that is no number": (("train", "--lr", "nan"), "--lr nan"),
    "a rate without end": (("train", "--lr", "inf"), "--lr inf.*finite"),
    "more threads than torch survives": (("train", "--threads", "1000000"), "less than or equal to 1024"),
    "a plan of nan epochs": (("plan", "--steps", "10", "--epochs", "nan"), "--epochs nan"),
    "a plan of hardly an epoch": (("plan", "--steps", "10", "--epochs", "1e-320"), r"--epochs .*greater than or equal"),
    "a plan of no epochs": (("plan", "--steps", "10", "--epochs", "0"), "--epochs 0.0"),
    "a plan of negative epochs": (("plan", "--steps", "10", "--epochs", "-3"), "--epochs -3.0"),
    "a plan of no steps": (("plan", "--steps", "0"), "--steps 0"),
    "a plan with a huge seed": (("plan", "--steps", "10", "--seed", "4294967296"), "--seed 4294967296"),
    "trials of no search": (
        ("compare", "-m", "full", "--trials", "3"),
        r"--trials 3 .*nothing is searched. Add --search 'lr=1e-5\.\.1e-4'",
    ),
    "pruning of no search": (
        ("compare", "-m", "full", "--prune"),
        "--prune says .*nothing is searched. Add --search 'lr=1e-5,1e-4'",
    ),
}
EMPTY = {
    "task": (("train", "--task", ""), "value after --task is empty"),
    "model": (("train", "--model", ""), "value after --model is empty"),
    "out": (("train", "--out", ""), "value after --out is empty"),
    "out with an equals sign": (("train", "--out="), "value after --out is empty"),
    "activation cache": (("train", "--activation-cache", ""), "value after --activation-cache is empty"),
    "study": (("worker", ""), "value after worker is empty"),
}
SETTINGS = {
    "a key twice": ("lr: 1e-5\nlr: 2e-5\n", "'lr' is given twice, first in line 1"),
    "a key in two spellings": ("max-length: 8\nmax_length: 16\n", "'max-length' is given twice"),
    "a name that is no setting": ("lrr: 1\n", "There is no setting 'lrr'. Did you mean 'lr'?"),
    "thousands of levels": (DEEP, "nested too deeply"),
    "a mapping as a value": ("task: {a: b}\n", "expected text, a number, true or false, or a list"),
    "an empty value": ("task: ''\n", "expected text, a number"),
    "a list of lists": ("method: [[full]]\n", "expected text, a number"),
    "a list alone": ("- 1\n", "expected lines such as"),
    "a tag of python": ("task: !!python/object/apply:os.system [ls]\n", "cannot be read: could not determine"),
    "no YAML": ("a: b: c\n", "cannot be read: mapping values are not allowed"),
    "a number without end": ("epochs: .inf\n", "--epochs inf"),
    "control characters": ("task: \x01\n", "cannot be read"),
}


@pytest.mark.parametrize(("words", "message"), [*NUMBERS.values(), *EMPTY.values()], ids=[*NUMBERS, *EMPTY])
def test_a_wrong_value_is_named_with_what_was_expected(command: Command, words: tuple[str, ...], message: str) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert re.search(message, err), err


def test_a_recorded_grid_that_is_absent_is_not_to_be_removed_with_its_folder(command: Command) -> None:
    code, _, err = command("study", "replay", "absent.csv")
    assert code == 1
    assert "No such file or directory" in err
    assert "check the path" in err
    assert "remove" not in err


@pytest.mark.parametrize(("content", "message"), SETTINGS.values(), ids=SETTINGS)
def test_a_wrong_settings_file_is_named(command: Command, tmp_path: Path, content: str, message: str) -> None:
    code, _, err = command("train", "--config", written(content)(tmp_path))
    assert code == 2
    assert message in err.replace("\n", " "), err


@pytest.mark.parametrize("name", ["absent.yaml", ".", "/dev/zero"])
def test_settings_that_are_no_file_are_refused(command: Command, tmp_path: Path, name: str) -> None:
    code, _, err = command("train", "--config", str(tmp_path / name))
    assert code == 2
    assert "cannot be read" in err


def test_an_empty_value_is_refused_from_python_too() -> None:
    with pytest.raises(UsageError, match="task=, data= has an empty value"):
        make_config(task="", data="")


def test_control_characters_are_made_visible_and_names_stay_as_they_are(command: Command, tmp_path: Path) -> None:
    hostile = f"{ESC}]0;owned\x07 {ESC}[2J \x9b31m :smile: [bold]x[/y]"
    study = write_study(tmp_path / "study", methods=["full"], seeds=[0])
    fail(study, "full", 0, hostile)
    (study / "runs/method-0").rename(study / "runs/full")
    for words in (
        ("study", "failed", str(study)),
        ("study", "export", str(study), "--csv"),
        ("study", "export", str(study), "--json"),
        ("study", "status", str(study)),
        ("train", "--task", hostile),
        ("train", "-m", hostile),
        ("train", f"--{hostile}"),
        ("train", "--kind", hostile),
        (hostile,),
    ):
        _, out, err = command(*words)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), words
    assert ":smile: [bold]x[/y]" in command("study", "failed", str(study))[1]
    assert "no/:smile:" in command("train", "--task", "no/:smile:")[2]


def test_what_is_made_visible() -> None:
    assert render.visible(f"a{ESC}[0m\x00\x7f\x9b\u202e\udcff\tü\n") == "a␛[0m␀␡\\u009b\\u202e\\udcff\tü\n"


@pytest.mark.parametrize("module", ["rich", "torch"])
def test_ctrl_c_while_libraries_load_ends_with_a_message(tmp_path: Path, module: str) -> None:
    (tmp_path / "press.py").write_text(f"""
import sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Press())
sys.argv = ["gradgate", "train", "--out", {str(tmp_path / "run")!r}]
from gradgate.__main__ import main
main()
""")
    done = subprocess.run([sys.executable, str(tmp_path / "press.py")], capture_output=True, text=True)
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
