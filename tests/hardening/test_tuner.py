"""What a tuner, its saved state and the activation cache do with input that cannot be right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate import ActivationCache, GateCallback, Tuner
from gradgate.errors import RunError, UsageError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from gradgate.tuner.state import STATE_FILE, TENSORS_FILE, read_state, write_state
from support.loop import adamw, build

STATES: dict[str, tuple[Any, str]] = {
    "nothing": ("", "Expecting value"),
    "cut": ('{"version": 1,', "Expecting"),
    "a list": ("[]", "expected a JSON object, got list"),
    "bytes that are no text": (b"\xff\xfe\x00", "utf-8"),
    "very deep": ('{"notes":' + "[" * 100_000, "nested too deeply"),
    "another object": ('{"method": "full"}', "it has no 'version'"),
    "of a version to come": ({"version": 9}, "version=9; expected 1"),
    "steps as text": ({"step": "3"}, "step='3'; expected a whole number from 0"),
    "a step before the first": ({"step": -1}, "step=-1; expected a whole number from 0"),
    "a seed that is true": ({"seed": True}, "seed=True; expected a whole number"),
    "notes as a list": ({"notes": []}, r"notes=\[\]; expected a mapping"),
    "no number": ({"open_sum": None}, "open_sum=None; expected a number from 0"),
    "infinite": ('{"open_sum": Infinity}', "expected a finite number"),
    "a timeline as text": ({"timeline": "open"}, "timeline='open'; expected a list of phases"),
    "phases that are numbers": ({"timeline": [1, 2]}, "a timeline that cannot be read"),
    "a phase without a step": ({"timeline": [{"open": []}]}, "a timeline that cannot be read.*'step'"),
    "a gate that lets nothing pass": (
        {"timeline": [{"step": 0, "open": [], "sparse": {"head": {"lo": 2, "hi": 1}}}]},
        "expected 0 <= lo < hi <= 1",
    ),
    "parameters as a number": ({"optimizer_parameters": 7}, "optimizer_parameters=7; expected a list of names"),
}


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    model = build("bert")
    with Tuner(model, adamw(model), "mixout:p=0.5") as tuner:
        return tuner.state_dict()


@pytest.mark.parametrize("case", STATES)
def test_a_damaged_state_is_named_with_its_file(case: str, state: dict[str, Any], tmp_path: Path) -> None:
    content, message = STATES[case]
    write_state(tmp_path, {name: value for name, value in state.items() if name != "tensors"})
    file = tmp_path / STATE_FILE
    if isinstance(content, dict):
        content = json.dumps(json.loads(file.read_text()) | content)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RunError, match=rf"gradgate\.json is damaged: .*{message}.*Remove {tmp_path} to resume"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [lambda whole: whole[:40], lambda whole: b"", lambda whole: b"\xff" * 8 + whole[8:], lambda whole: whole[:-9]],
    ids=["cut in its header", "empty", "a header of any size", "cut in its values"],
)
def test_damaged_tensors_are_named_with_their_file(
    damage: Callable[[bytes], bytes], state: dict[str, Any], tmp_path: Path
) -> None:
    write_state(tmp_path, state)
    file = tmp_path / TENSORS_FILE
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RunError, match=r"gradgate\.safetensors is damaged: .*Remove"):
        read_state(tmp_path)


@pytest.mark.parametrize("case", [case for case in STATES if isinstance(STATES[case][0], dict)])
def test_a_state_that_cannot_be_is_refused_by_the_tuner_too(case: str, state: dict[str, Any]) -> None:
    model = build("bert")
    changes, message = STATES[case]
    with Tuner(model, adamw(model), "mixout:p=0.5") as tuner, pytest.raises(RunError, match=message):
        tuner.load_state_dict(state | changes)


def test_a_state_without_its_tensors_is_refused(state: dict[str, Any], tmp_path: Path) -> None:
    write_state(tmp_path, state)
    (tmp_path / TENSORS_FILE).unlink()
    model = build("bert")
    with pytest.raises(RunError, match="initial weights of mixout are not those of this model"):
        Tuner(model, adamw(model), "mixout:p=0.5", state=read_state(tmp_path))
    Tuner(model, adamw(model), "full").detach()


def test_what_was_written_is_read(state: dict[str, Any], tmp_path: Path) -> None:
    write_state(tmp_path, state)
    found = read_state(tmp_path)
    tensors, theirs = found.pop("tensors"), dict(state)["tensors"]
    assert found == {name: value for name, value in state.items() if name != "tensors"}
    assert tensors.keys() == theirs.keys()
    assert all(tensor.equal(theirs[name]) for name, tensor in tensors.items())
    assert {path.name for path in tmp_path.iterdir()} == {STATE_FILE, TENSORS_FILE}


FOLDERS: dict[str, tuple[str, str]] = {
    "a file": ("file", "file is a file; expected a folder"),
    "below a file": ("file/cache", "file/cache cannot be written"),
    "where nothing can be written": ("/proc/gradgate", "/proc/gradgate cannot be written"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_cache_that_cannot_be_kept_is_said_before_the_run(
    case: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    folder, message = FOLDERS[case]
    config = make_config(**settings | {"method": "head", "steps": 2, "activation_cache": folder})
    with pytest.raises(UsageError, match=message):
        train(config, tmp_path / "run")
    assert Path("file").read_text() == "mine"


def test_an_empty_cache_folder_is_not_the_current_one() -> None:
    with pytest.raises(UsageError, match="activation_cache= has an empty value"):
        make_config(activation_cache="")
    with pytest.raises(UsageError, match="expected a folder"):
        GateCallback("head", activation_cache="")


def test_a_cache_at_a_file_is_refused_by_the_library_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file; expected a folder"):
        ActivationCache(folder=tmp_path / "file")
