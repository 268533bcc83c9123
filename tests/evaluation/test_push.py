"""``--push-to-hub``: what arrives on a stand-in of the hub, and what is said where nothing can."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import constants
from safetensors.torch import load_file

import gradgate as gg
from gradgate.api.pushing import refuse_several_models
from gradgate.errors import GradgateError, RunError, UsageError
from support.command_line import Command
from support.hub_server import BREAK, TOKEN, Hub, Repository, running_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


@pytest.fixture(scope="module")
def run(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> gg.Run:
    """A finished run."""
    out = tmp_path_factory.mktemp("pushed") / "run"
    named = {name: settings[name] for name in settings if name not in ("model", "task")} | {"steps": 4}
    return gg.train(settings["model"], settings["task"], "gradual:every=4", out=out, quiet=True, **named)


def test_files_and_card_arrive(run: gg.Run, hub: Hub, tmp_path: Path) -> None:
    address = run.push_to_hub("ada/moods")
    assert address == f"{hub.endpoint}/ada/moods"
    repository = hub.repositories["ada/moods"]
    assert repository.private
    exported = run.export(tmp_path / "out")
    names = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert repository.files.keys() - {".gitattributes"} == names
    same = names - {"README.md"}
    assert all(repository.files[name] == (exported / name).read_bytes() for name in same)
    (tmp_path / "arrived.safetensors").write_bytes(repository.files["model.safetensors"])
    ours, theirs = load_file(exported / "model.safetensors"), load_file(tmp_path / "arrived.safetensors")
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_card_has_what_a_reader_needs(run: gg.Run, hub: Hub) -> None:
    run.push_to_hub("moods")  # in the namespace of the token's user
    card = hub.repositories["ada/moods"].card
    record, scores = json.loads((run.path / "run.json").read_text()), run.scores
    assert yaml.safe_load(card.split("---")[1])["tags"] == ["gradgate"]
    assert 'AutoModelForSequenceClassification.from_pretrained("ada/moods")' in card
    (header,) = [line for line in card.splitlines() if line.startswith("| split |")]
    names = [cell.strip().replace("\\", "") for cell in header.strip("|").split("|")]
    assert names == ["split", "rows", "accuracy", "95 % interval", "f1", "macro_f1", "matthews", "weighted_f1"]
    assert "micro" not in card  # it is accuracy, where a row has one label
    test = scores["tests"]["test"]["accuracy"]
    (line,) = [line for line in card.splitlines() if line.startswith("| test |")]
    low, high = (float(end) for end in line.split("|")[4].split("\u00a0to\u00a0"))
    assert low <= test <= high
    assert low < high
    assert "Method: `gradual:every=4`" in card
    assert f"What learned: {scores['cost']['parameters_trained']:,} of" in card
    assert f"{scores['cost']['seconds_per_step'] * 1e3:,.1f} ms per step" in card
    assert record["task"]["fingerprint"] in card
    assert "## Study" not in card
    assert str(run.path.parent) not in card


def test_card_of_a_delta_says_how_to_download_it(run: gg.Run, hub: Hub) -> None:
    run.push_to_hub("ada/moods", to="delta")
    card = hub.repositories["ada/moods"].card
    assert "`hf download ada/moods --local-dir moods`" in card
    assert 'gg.deltas.apply("moods/delta.safetensors"' in card


def test_public_is_only_what_is_asked_for(run: gg.Run, hub: Hub) -> None:
    run.push_to_hub("ada/open", private=False)
    assert not hub.repositories["ada/open"].private
    with pytest.raises(UsageError, match="the repository is public, but a private one was requested"):
        run.push_to_hub("ada/open")


def test_a_second_push_replaces_the_first(run: gg.Run, hub: Hub) -> None:
    run.push_to_hub("ada/moods")
    repository = hub.repositories["ada/moods"]
    repository.files["adapter_config.json"] = b"{}"  # of an earlier form
    before = repository.files.keys() - {"adapter_config.json"}
    run.push_to_hub("ada/moods")
    assert repository.files.keys() == before
    assert repository.commits == 2


def test_files_of_others_are_left_alone(run: gg.Run, hub: Hub) -> None:
    theirs = Repository(private=True, files={".gitattributes": b"", "model.bin": b"theirs"})
    hub.repositories["ada/theirs"] = theirs
    with pytest.raises(UsageError, match=r"files that gradgate did not push \(model\.bin\)"):
        run.push_to_hub("ada/theirs")
    assert theirs.files["model.bin"] == b"theirs"
    assert not theirs.commits


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("repos/create", 401, r"rejects the token \(401\).*hf auth login"),
        ("repos/create", 403, r"may not write there \(403\)"),
        ("repos/create", 500, "the hub answers with 500"),
        ("repos/create", BREAK, "cannot be reached"),
        ("preupload/main", 403, r"may not write there \(403\).*gradgate export .*--push-to-hub ada/moods"),
        ("commit/main", 409, r"has changed in the meantime \(409.*Push again"),
    ],
)
def test_what_the_hub_refuses_is_said(run: gg.Run, hub: Hub, path: str, status: int, said: str) -> None:
    hub.faults[path] = status
    with pytest.raises(RunError, match=said) as caught:
        run.push_to_hub("ada/moods")
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda patch: patch.setattr(constants, "HF_HUB_OFFLINE", True), "HF_HUB_OFFLINE is set"),
        (lambda patch: patch.setattr("huggingface_hub.get_token", lambda: None), "no token.*hf auth login"),
    ],
    ids=["offline", "no token"],
)
def test_what_cannot_work_is_refused_before_the_training(
    change: Any, said: str, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    with pytest.raises(UsageError, match=said):
        gg.train(out=tmp_path / "run", push_to_hub="ada/moods", quiet=True)
    assert not (tmp_path / "run").exists()
    assert not hub.requests


def test_public_without_a_repository_is_refused(run: gg.Run, hub: Hub, tmp_path: Path, command: Command) -> None:
    said = command("export", str(run.path), "--out", str(tmp_path / "model"), "--public")
    assert (said.code, "Name one with --push-to-hub." in " ".join(said.err.split())) == (2, True)
    with pytest.raises(UsageError, match="Name one with push_to_hub="):
        gg.train(out=tmp_path / "run", public=True, quiet=True)
    assert (list(tmp_path.iterdir()), hub.requests) == ([], [])


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("a/b/c", {}, "push_to_hub='a/b/c'"),
        ("ada/moods", {"task": "cola+sst2"}, "several tasks with one model each"),
        ("ada/moods", {"keep_model": False}, "no model to push"),
    ],
)
def test_what_has_no_place_in_a_repository_is_refused(
    name: str, settings: dict[str, Any], said: str, hub: Hub, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        gg.train(out=tmp_path / "run", push_to_hub=name, quiet=True, **settings)
    assert not hub.requests


def test_a_refusal_comes_before_the_training(hub: Hub, settings: dict[str, Any], tmp_path: Path) -> None:
    hub.faults["repos/create"] = 403
    with pytest.raises(GradgateError, match="403"):
        gg.train(**settings, out=tmp_path / "run", push_to_hub="ada/moods", quiet=True)
    assert not (tmp_path / "run").exists()


def test_commands_push(hub: Hub, settings: dict[str, Any], tmp_path: Path, command: Command) -> None:
    out = str(tmp_path / "run")
    given = settings | {"steps": 2}
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    said = command("train", *words, "--out", out, "-q")
    assert said.code == 0, said.err
    assert not hub.requests  # nothing is pushed without the flag
    assert command("train", *words, "--out", out, "-q", "--push-to-hub", "trained").code == 0
    said = command("export", out, "--push-to-hub", "ada/exported", "--public")
    assert said.code == 0, said.err
    assert f"The model is at {hub.endpoint}/ada/exported" in said.out
    assert {name: found.private for name, found in hub.repositories.items()} == {
        "ada/trained": True,
        "ada/exported": False,
    }
    trained, exported = (hub.repositories[f"ada/{name}"].files for name in ("trained", "exported"))
    assert trained["model.safetensors"] == exported["model.safetensors"]
    said = command("export", out)
    assert said.code == 2
    assert "Pass --out FOLDER, --push-to-hub NAME, or both" in said.err


def test_a_private_repository_is_not_taken_for_a_public_one(run: gg.Run, hub: Hub) -> None:
    run.push_to_hub("ada/closed")
    with pytest.raises(UsageError, match="the repository is private, but a public one was requested"):
        run.push_to_hub("ada/closed", private=False)
    assert hub.repositories["ada/closed"].private


def test_the_command_after_a_failure_pushes_in_the_same_form(run: gg.Run, hub: Hub) -> None:
    hub.faults["preupload/main"] = 403
    with pytest.raises(RunError) as caught:
        run.push_to_hub("ada/moods", private=False, to="delta")
    command = shlex.join(
        ["gradgate", "export", str(run.path), "--push-to-hub", "ada/moods", "--public", "--as", "delta"]
    )
    assert f"push it with '{command}'" in str(caught.value)


def test_a_folder_with_a_plus_is_one_task_and_a_file_may_be_several(tmp_path: Path) -> None:
    (tmp_path / "c++").mkdir()
    (tmp_path / "c++/t.csv").write_text("text,label\n")
    refuse_several_models(str(tmp_path / "c++/t.csv"), "moods")
    (tmp_path / "mt.yaml").write_text("kind: multitask\ntasks: [sample, sample-nli]\n")
    with pytest.raises(UsageError, match="are several tasks with one model each"):
        refuse_several_models(str(tmp_path / "mt.yaml"), "moods")
