"""Trainer resumes from any folder: the tuner's state is that of the checkpoint, wherever it lies."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from gradgate import GateCallback
from gradgate.errors import RunError
from gradgate.layers import map_layers
from gradgate.tuner.state import STATE_FILE
from support.crossed import some_fast
from support.loop import assert_same_weights, build
from support.trainers import trainer_of

STEPS, SAVED = 6, 3
SHORT: dict[str, Any] = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": SAVED}


METHODS = [
    "fun:every=2,batches=1",
    "mixout:p=0.5",
    "spectrum:share=0.5",
    "blocks:every=2",
    "lisa:layers=1,every=2",
    "lisa:layers=1,every=2,draw=gradient",
    "graddrop:p=0.4,mask_target=update",
    "child-tuning:mode=D,keep=0.3",
]


# Those that keep a measurement, tensors, a draw, and masks; the others are slow.
@some_fast(
    "method",
    METHODS,
    [
        "fun:every=2,batches=1",
        "mixout:p=0.5",
        "lisa:layers=1,every=2",
        "graddrop:p=0.4,mask_target=update",
        "child-tuning:mode=D,keep=0.3",
    ],
)
def test_a_moved_checkpoint_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    unbroken, resumed = (build("bert", dropout=True).bfloat16() for _ in range(2))
    gate, again = GateCallback(method), GateCallback(method)
    trainer_of(unbroken, tmp_path / "a", gate, **SHORT).train()
    moved = shutil.move(tmp_path / "a" / f"checkpoint-{SAVED}", tmp_path / "elsewhere")
    trainer_of(resumed, tmp_path / "b", again, **SHORT).train(resume_from_checkpoint=str(moved))
    assert_same_weights(unbroken, resumed)
    assert gate.tuner is not None
    assert again.tuner is not None
    assert again.tuner.timeline.phases == gate.tuner.timeline.phases


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folders of trainings, with checkpoints of steps 3 and 6, by their methods. Tests leave them as they are."""

    @cache
    def made(method: str) -> Path:
        folder = tmp_path_factory.mktemp("trained")
        trainer_of(build("bert"), folder, *([GateCallback(method)] if method else []), **SHORT).train()
        return folder

    return made


PATHS: dict[str, Callable[[Path], Any]] = {
    "with a slash at its end": lambda folder: f"{folder}/",
    "relative": lambda folder: os.path.relpath(folder),
    "through a link": lambda folder: (folder.with_name("link").symlink_to(folder), str(folder.with_name("link")))[1],
    "the latest": lambda folder: True,
    "a Path": lambda folder: folder,
    "like a name on the hub": lambda folder: "me/model",
}


@pytest.mark.parametrize("path", PATHS)
def test_the_path_may_have_any_form(
    path: str, trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained("full"), "me")
    folder = tmp_path / "me" / f"checkpoint-{STEPS}"
    shutil.copytree(folder, tmp_path / "me" / "model")
    trainer = trainer_of(build("bert"), Path("me"), GateCallback("gradual"), **SHORT | {"max_steps": STEPS + 1})
    with pytest.raises(RunError, match="has method 'full', this tuner has 'gradual'"):
        trainer.train(resume_from_checkpoint=PATHS[path](folder))


def test_the_state_in_output_dir_is_of_another_training(trained: Callable[[str], Path], tmp_path: Path) -> None:
    """Both folders have a checkpoint of the same step."""
    for name, method in (("a", "gradual:every=2"), ("b", "full")):
        shutil.copytree(trained(method), tmp_path / name)
    trainer = trainer_of(build("bert"), tmp_path / "b", GateCallback("full"), **SHORT)
    with pytest.raises(RunError, match=r"Cannot resume from .*/a/checkpoint-3: .*'gradual:every=2'"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))
    (tmp_path / "a" / "checkpoint-3" / STATE_FILE).unlink()
    with pytest.warns(UserWarning, match=r"/a/checkpoint-3 has no gradgate\.json"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))


@pytest.mark.parametrize(
    ("method", "needed"),
    [("fun:every=2,batches=1", "what it measured"), ("mixout:p=0.5", "the weights that it began with")],
)
def test_without_a_state_it_says_what_to_do(
    method: str, needed: str, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    trainer = trainer_of(build("bert"), tmp_path, GateCallback(method), **SHORT)
    with pytest.raises(RunError, match=rf"checkpoint-3 has no gradgate\.json.*without {needed}\. Copy gradgate\.json"):
        trainer.train(resume_from_checkpoint=str(trained("") / "checkpoint-3"))


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "options of the method": ({"method": "gradual:every=3"}, "has method 'gradual:every=2'"),
    "seed": ({"seed": 9}, "has seed 3"),
    "factors": ({"lr_scale": {"head": 2.0}}, r"lr_scale=\{\}, this one has \{'head': 2\.0\}"),
    "dropout": ({"frozen_dropout": True}, "frozen_dropout=False, this one has True"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_tuner_with_other_settings_is_refused(other: str, trained: Callable[[str], Path], tmp_path: Path) -> None:
    changes, message = OTHERS[other]
    checkpoint = trained("gradual:every=2") / "checkpoint-3"
    gate = GateCallback(**{"method": "gradual:every=2"} | changes)
    with pytest.raises(RunError, match=rf"Cannot resume from .*checkpoint-3: .*{message}"):
        trainer_of(build("bert"), tmp_path, gate, **SHORT).train(resume_from_checkpoint=str(checkpoint))


def test_another_layer_map_is_refused(trained: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(trained("gradual:every=2"), tmp_path, dirs_exist_ok=True)
    file = tmp_path / "checkpoint-3" / STATE_FILE
    state = json.loads(file.read_text())
    assert list(state["settings"]["groups"]) == list(map_layers(build("bert")).names)
    for change, message in (({"layers.1": "0"}, "in the group layers.1"), ({"layers.9": "0"}, "the groups 'embedd")):
        changed = {**state, "settings": {**state["settings"], "groups": {**state["settings"]["groups"], **change}}}
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match=rf"{message}.*layers=.*Make the tuner"):
            trainer_of(build("bert"), tmp_path, GateCallback("gradual:every=2"), **SHORT).train(
                resume_from_checkpoint=str(file.parent)
            )


def test_a_state_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    unbroken, resumed = build("bert"), build("bert")
    trainer_of(unbroken, tmp_path, GateCallback("gradual:every=2"), **SHORT).train()
    file = tmp_path / "checkpoint-3" / STATE_FILE
    state = json.loads(file.read_text())
    del state["settings"]
    file.write_text(json.dumps(state))
    trainer_of(resumed, tmp_path, GateCallback("gradual:every=2"), **SHORT).train(str(file.parent))
    assert_same_weights(unbroken, resumed)


def test_the_state_follows_the_folder_of_a_search(tmp_path: Path) -> None:
    """In a search for hyperparameters, Trainer saves below ``output_dir``."""

    class Named(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            trainer._get_output_dir = lambda trial: str(tmp_path / "run-7")

    trainer = trainer_of(build("bert"), tmp_path, Named(), GateCallback("full"), **SHORT)
    trainer.train()
    assert (tmp_path / "run-7" / "checkpoint-3" / STATE_FILE).is_file()
    assert not (tmp_path / "checkpoint-3").exists()
