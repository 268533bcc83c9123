"""Each name that is typed wrong is answered with the nearest right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate import hub
from gradgate.errors import RunError
from support.command_line import Command

WORDS = {
    "a command": (("trian",), "Did you mean 'train'?"),
    "a setting's word": (("train", "--precision", "bf61"), "'fp32', 'bf16' or 'fp16'. Did you mean 'bf16' or 'fp16'?"),
    "a device": (("train", "--device", "cdua"), "Did you mean 'cuda' or 'cpu'?"),
    "a device that has another name": (("train", "--device", "gpu"), "Did you mean 'cuda'"),
    "an option that has another name": (("train", "--adapter", "lora:rank=8"), " or 'r'?"),
    "a kind of task": (("train", "--kind", "clasification"), "Did you mean 'classification'"),
    "a task": (("train", "--task", "smaple"), "Did you mean 'sample'"),
    "a method": (("train", "-m", "gradul"), "Did you mean 'gradual'"),
    "an arm of an adapter": (("train", "-m", "lora:rr=4"), "Did you mean 'r'?"),
    "an adapter twice": (("train", "-m", "lora:r=4", "--adapter", "houlsby"), "lora:r=4"),
    "an option": (("train", "-m", "gradual:evry=5"), "Did you mean 'every'?"),
    "an option's word": (("train", "-m", "gradual:order=bottomup"), "Did you mean 'bottom-up'?"),
    "an adapter": (("train", "--adapter", "pfeifer"), "Did you mean 'pfeiffer'"),
    "what is tracked": (("train", "--track", "fischer"), "Did you mean 'fisher'?"),
    "what is searched": (("compare", "-m", "full", "--search", "lrr=1,2"), "Did you mean 'lr'?"),
    "a preset": (("reproduce", "elsa-tabel4"), "Did you mean 'elsa-table4'"),
    "a paper": (("papers", "--paper", "elas"), "Did you mean 'elsa'?"),
    "a quickstart": (("quickstart", "--kind", "generaton"), "Did you mean 'generation'"),
}


@pytest.mark.parametrize(("words", "answer"), WORDS.values(), ids=WORDS)
def test_the_nearest_name_is_offered(command: Command, words: tuple[str, ...], answer: str) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert answer in err


def test_a_column_is_offered(command: Command, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("review,label\n" + "good,y\nbad,n\n" * 10)
    code, _, err = command("tasks", str(tmp_path / "train.csv"), "--text", "reviev", "--split", "80/10/10")
    assert code == 1
    assert "its columns are 'review', 'label'. Name one with " in err
    assert "Did you mean 'review'?" in err


def test_a_file_is_offered(command: Command, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\n")
    code, _, err = command("train", "--task", str(tmp_path / "review.csv"))
    assert code == 2
    assert f"Did you mean '{tmp_path}/reviews.csv'" in err
    assert "Correct the path, or name a task" in err


def test_a_language_is_offered(command: Command, tmp_path: Path) -> None:
    code, _, err = command("train", "--task", "udpos", "--data", str(tmp_path), "--languages", "en,qde")
    assert code == 2
    assert "has no qde" in err
    assert "Did you mean 'de'" in err


def test_an_embedded_model_or_a_folder_is_offered(tmp_path: Path) -> None:
    (tmp_path / "my-bert").mkdir()
    (tmp_path / "my-bert" / "config.json").write_text("{}")
    assert hub.nearest_model("samle") == " Did you mean 'sample' or 'sample-decoder'?"
    with pytest.raises(RunError, match=r"There is no folder .*Did you mean '.*my-bert'"):
        hub.model_source(str(tmp_path / "my-brt"))
