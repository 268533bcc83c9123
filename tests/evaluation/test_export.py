"""What a finished run is exported as loads without gradgate, and gives the same outputs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import GenerationConfig

import gradgate as gg
from gradgate.errors import DeltaError, RunError, UsageError
from gradgate.evaluation.export.export import export
from gradgate.runs.card import CardSource
from gradgate.runs.folder import RunFolder
from gradgate.settings.command_line import train_command, without_places
from gradgate.settings.finished import ExportSettings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.command_line import Command
from support.exported_runs import Comparison, compare
from support.generators import save_generator, save_prompts
from support.kind_folders import SAVE
from support.spoken_folders import save_language_adapters, save_spoken_task

ADAPTERHUB = os.environ.get("GRADGATE_ADAPTERHUB", "")
MERGED_DIFFERENCE = 1e-5
"""The most that float32 outputs differ by where an adapter is merged into weights."""
PEFT = ("lora:r=2", "dora:r=2", "rslora:r=2", "ia3", "shira:r=2", "peft:loha,r=2")
FEW = ("full", "delta", "lora:r=2", "both", "generation", "generation-lora")
OTHERS = ("head", "bfloat16", "regression", *(kind for kind in SAVE if kind != "generation"), *PEFT[1:])


def settings_of(name: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of a small run of one kind; its data is written into the folder."""
    own: dict[str, dict[str, Any]] = {
        "full": {},
        "head": {"method": "head"},
        "bfloat16": {"weights": "bfloat16"},
        "delta": {"method": "freeze:layers=1", "store": "delta"},
        **{text: {"adapter": text, "lr": 1e-2} for text in (*PEFT, "houlsby:size=4", "pfeiffer:reduction=4")},
    }
    if name in SAVE and name != "generation":
        return {**settings, "task": str(SAVE[name](folder)), "max_length": 64}
    if name.startswith("generation"):
        data = {"model": str(save_generator(folder / "model")), "task": str(save_prompts(folder / "data"))}
        return {**settings, **data, "max_new_tokens": 8, "lr": 1e-2, "adapter": "lora:r=2" if "lora" in name else None}
    if name == "regression":
        rows = "".join(f"row {number} of many\t{number % 5}.5\n" for number in range(60))
        (folder / "scores.tsv").write_text(f"text\tscore\n{rows}")
        return {**settings, "task": str(folder / "scores.tsv"), "kind": "regression", "label": "score"}
    if name == "both":
        SAVE["multi-label"](folder)
        moods = f"{{task: '{settings['task']}', name: moods}}"
        (folder / "both.yaml").write_text(
            f"kind: multitask\ntasks:\n  - {moods}\n  - {{task: '{folder}', name: several}}\n"
        )
        return {**settings, "task": str(folder / "both.yaml")}
    return {**settings, **own[name]}


def trained(names: Iterable[str], settings: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Train a run of each kind for two steps."""
    found = {}
    for name in names:
        place = folder / name.replace(":", "-")
        place.mkdir()
        train(make_config(**settings_of(name, settings | {"steps": 2}, place)), place / "run")
        found[name] = place / "run"
    return found


def compared(runs: dict[str, Path], folder: Path) -> dict[str, list[Comparison]]:
    """Compare each run with its export in the form that it has by default."""
    found: dict[str, list[Comparison]] = {name: [] for name in runs}
    names = {str(path): name for name, path in runs.items()}
    for each in compare([(path, ExportSettings()) for path in runs.values()], folder):
        found[names[str(each.made.run)]].append(each)
    return found


@pytest.fixture(scope="module")
def runs(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    for package in ("trl", "peft"):
        pytest.importorskip(package)
    return trained((*FEW, "houlsby:size=4"), settings, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def few(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Comparison]]:
    return compared({name: runs[name] for name in FEW}, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def others(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Comparison]]:
    made = trained(OTHERS, settings, tmp_path_factory.mktemp("others"))
    return compared(made, tmp_path_factory.mktemp("compared"))


def assert_same_bits(each: Comparison) -> None:
    assert each.ours.keys() <= each.theirs.keys()
    for name, value in each.ours.items():
        assert value.dtype == each.theirs[name].dtype
        assert torch.equal(value, each.theirs[name]), (each.made, each.difference)


@pytest.mark.parametrize("name", FEW)
def test_export_gives_the_bits_of_the_run(name: str, few: dict[str, list[Comparison]]) -> None:
    assert few[name]
    for each in few[name]:
        assert_same_bits(each)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_export_of_other_kinds_gives_the_bits_of_the_run(name: str, others: dict[str, list[Comparison]]) -> None:
    (each,) = others[name]
    assert_same_bits(each)


def test_several_tasks_become_a_model_each(few: dict[str, list[Comparison]]) -> None:
    assert [each.made.task for each in few["both"]] == ["moods", "several"]
    assert [sorted(each.said["labels"].values()) for each in few["both"]] == [["bad", "good"], ["bad", "dull", "good"]]


def test_labels_have_their_names(few: dict[str, list[Comparison]]) -> None:
    for name in ("full", "delta", "lora:r=2"):
        assert few[name][0].said["labels"] == {"0": "bad", "1": "good"}


@pytest.mark.parametrize("name", ["generation", "generation-lora"])
def test_export_generates_by_default_what_the_scores_are_of(name: str, few: dict[str, list[Comparison]]) -> None:
    (each,) = few[name]
    assert each.generated is not None
    assert each.said["new"][: len(each.generated)] == each.generated
    assert len(each.said["new"]) <= 8


@pytest.mark.slow
def test_merged_adapters_differ_by_rounding_alone(
    settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = trained(PEFT, settings, tmp_path_factory.mktemp("adapters"))
    merged = [(path, ExportSettings(to="transformers")) for path in made.values()]
    for each in compare(merged, tmp_path_factory.mktemp("merged")):
        assert each.said["class"] == "BertForSequenceClassification"
        assert each.difference < MERGED_DIFFERENCE


@pytest.fixture(scope="module")
def stacked(settings: dict[str, Any], tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on language adapters."""
    folder = tmp_path_factory.mktemp("stacked")
    spoken = save_language_adapters(tiny_model, folder / "adapters")
    own = {"task": str(save_spoken_task(folder / "moods")), "adapter": "pfeiffer:reduction=4"}
    train(make_config(**settings | own | {"language_adapters": f"{spoken}/{{language}}", "steps": 2}), folder / "run")
    return folder / "run"


def test_language_adapters_become_a_folder_each(stacked: Path, tmp_path: Path) -> None:
    place = gg.Run(stacked).export(tmp_path / "out")
    assert sorted(folder.name for folder in (place / "languages").iterdir()) == ["de", "en", "sw"]
    for language in ("de", "en", "sw"):
        copied = load_file(place / "languages" / language / "adapter.safetensors")
        original = load_file(stacked / "language-adapters" / language / "adapter.safetensors")
        assert sorted(map(str, map(torch.Tensor.tolist, copied.values()))) == sorted(
            map(str, map(torch.Tensor.tolist, original.values()))
        )
    assert "base.set_active_adapters(Stack(language, task))" in (place / "README.md").read_text()


@pytest.mark.skipif(not ADAPTERHUB, reason="GRADGATE_ADAPTERHUB names no Python that has AdapterHub's library")
def test_adapterhub_loads_bottleneck_adapters(
    settings: dict[str, Any], stacked: Path, tmp_path: Path, runs: dict[str, Path]
) -> None:
    (tmp_path / "own").mkdir()
    plain = trained(["pfeiffer:reduction=4"], settings, tmp_path / "own")
    every = [*plain.values(), runs["houlsby:size=4"], stacked]
    for each in compare([(path, ExportSettings()) for path in every], tmp_path, ADAPTERHUB):
        assert each.difference < MERGED_DIFFERENCE
        tests = json.loads((each.made.run / "scores.json").read_text())["tests"]
        assert each.said["accuracy"] == next(iter(tests.values()))["accuracy"]


def test_adapterhub_form_has_a_base_with_the_tuned_layer_norms(runs: dict[str, Path], tmp_path: Path) -> None:
    export([runs["houlsby:size=4"]], tmp_path / "out", ExportSettings())
    tuned = load_file(runs["houlsby:size=4"] / "model/layer_norms.safetensors")
    base = load_file(tmp_path / "out/base/model.safetensors")
    assert tuned
    assert all(torch.equal(base[name], tensor) for name, tensor in tuned.items())
    assert not any("adapter" in name for name in base)


def test_refused_form_names_those_that_fit(runs: dict[str, Path], tmp_path: Path, command: Command) -> None:
    said = command("export", str(runs["houlsby:size=4"]), "-o", str(tmp_path / "out"), "--as", "transformers")
    assert said.code == 2
    assert "--as transformers: the run in" in said.err
    assert "bottleneck adapter" in said.err
    assert "adapterhub (" in said.err
    with pytest.raises(UsageError, match=r"to=adapterhub: .* can be exported as: transformers \(.*; delta \("):
        gg.Run(runs["full"]).export(tmp_path / "out", to="adapterhub")
    with pytest.raises(UsageError, match=r"merge=True: .* bottleneck adapter"):
        gg.Run(runs["houlsby:size=4"]).load(merge=True)
    assert not (tmp_path / "out").exists()


def test_other_precision_is_that_of_the_weights(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("full", "lora:r=2", "houlsby:size=4"):
        place = gg.Run(runs[name]).export(tmp_path / name.replace(":", "-"), dtype="bfloat16")
        for file in place.rglob("*.safetensors"):
            assert {tensor.dtype for tensor in load_file(file).values()} == {torch.bfloat16}, file
        assert json.loads((place / "config.json").read_text())["dtype"] == "bfloat16"
    with pytest.raises(UsageError, match="dtype=float16: a delta stores exactly"):
        gg.Run(runs["full"]).export(tmp_path / "delta", to="delta", dtype="float16")


def test_delta_makes_the_trained_model_again(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("full", "delta"):
        gg.Run(runs[name]).export(tmp_path / name, to="delta")
        gg.deltas.apply(tmp_path / name / "delta.safetensors", None, tmp_path / f"{name}-whole")
        gg.Run(runs[name]).export(tmp_path / f"{name}-model")
        again, whole = (load_file(tmp_path / f"{name}-{which}/model.safetensors") for which in ("whole", "model"))
        assert again.keys() == whole.keys()
        assert all(torch.equal(again[key], tensor) for key, tensor in whole.items())


def test_lines_of_a_delta_generate_by_default_what_the_scores_are_of(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = export([runs["generation"]], tmp_path / "out", ExportSettings(to="delta"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(made.code, names)
    stored = GenerationConfig.from_pretrained(tmp_path / "out")
    assert (stored.max_new_tokens, stored.do_sample) == (8, False)
    assert names["model"].generation_config.to_dict() == stored.to_dict()


def test_folder_in_use_is_left_alone(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        gg.Run(runs["full"]).export(tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        gg.Run(runs["full"]).export(tmp_path / "letter.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_failed_export_leaves_no_folder(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DeltaError, match=r"to=peft: the run in .* changed no single weights .* transformers or delta"):
        gg.Run(runs["delta"]).export(tmp_path / "out", to="peft")
    assert list(tmp_path.iterdir()) == []


def test_single_changed_weights_become_shira(settings: dict[str, Any], tmp_path: Path) -> None:
    train(make_config(**settings | {"method": "sparse:share=0.02", "steps": 2}), tmp_path / "run/sparse")
    place = gg.Run(tmp_path / "run/sparse").export(tmp_path / "out", to="peft")
    config = json.loads((place / "adapter_config.json").read_text())
    assert config["peft_type"] == "SHIRA"
    assert config["base_model_name_or_path"] == settings["model"]
    assert "classifier" in config["modules_to_save"]
    assert not (place / "delta.safetensors").exists()


def test_card_says_what_was_trained_and_names_no_path(runs: dict[str, Path], tmp_path: Path) -> None:
    run = gg.Run(runs["lora:r=2"])
    card = (run.export(tmp_path / "out") / "README.md").read_text()
    record = json.loads((run.path / "run.json").read_text())
    data = yaml.safe_load(card.split("---")[1])
    assert data["library_name"] == "peft"
    assert data["pipeline_tag"] == "text-classification"
    results = data["model-index"][0]["results"]
    assert results[0]["metrics"] == [{"type": "accuracy", "value": run.best.dev}]
    assert record["task"]["fingerprint"] in card
    assert "Method: `lora:r=2 + full`" in card
    assert f"{run.scores['cost']['parameters_trained']:,} of" in card
    assert f"| dev | 30 | {run.best.dev:.4f} |" in card
    command = card.partition("```console\n$ ")[2].partition("\n```")[0]
    assert max(map(len, command.splitlines())) < 90
    words = shlex.split(command.replace("\\\n", ""))
    assert words == shlex.split(train_command(without_places(run.config), "RUN")), command
    assert str(Path(run.config.model).parent) not in card
    assert str(tmp_path) not in card


def test_a_folder_that_has_moved_is_not_a_base_of_the_hub(runs: dict[str, Path]) -> None:
    source = CardSource.of(RunFolder(runs["full"]))
    (runs["full"].parent / "models/tiny").mkdir(parents=True)
    names = {"../models/tiny": None, "./tiny": None, "a/b/c": None, "models/tiny": None, "google/tiny": "google/tiny"}
    for name, expected in names.items():
        assert replace(source, config=source.config.model_copy(update={"model": name})).hub_base == expected


@pytest.mark.slow
def test_best_run_of_a_study_is_exported(settings: dict[str, Any], tmp_path: Path, command: Command) -> None:
    config = tmp_path / "study.yaml"
    names = ("model", "task", "max_length", "batch_size", "lr", "device")
    config.write_text(json.dumps({name.replace("_", "-"): settings[name] for name in names} | {"steps": 2}))
    words = ("-m", "full", "-m", "head", "--seeds", "2", "--out", str(tmp_path / "study"), "-q")
    assert command("compare", "--config", str(config), *words).code == 0
    said = command("export", str(tmp_path / "study"), "-o", str(tmp_path / "out"))
    assert said.code == 0, said.err
    scores = {
        file.parent: json.loads(file.read_text())["dev"]["accuracy"]
        for file in (tmp_path / "study").glob("runs/*/*/scores.json")
    }
    named = next(folder for folder in scores if str(folder) in said.err)
    of_arm = [score for folder, score in scores.items() if folder.parent == named.parent]
    assert scores[named] == max(of_arm)
    assert sum(of_arm) == max(
        sum(scores[each] for each in scores if each.parent == parent) for parent in {each.parent for each in scores}
    )
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (named / "model", tmp_path / "out"))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_card_of_one_of_several_tasks_names_the_run(few: dict[str, list[Comparison]]) -> None:
    moods, several = ((each.made.folder / "README.md").read_text() for each in few["both"])
    assert "# tiny-bert0 on moods" in moods
    assert all("--task both.yaml" in card for card in (moods, several))
    assert "sigmoid of its output reaches 0.5" in several


def test_several_runs_become_a_folder_each(runs: dict[str, Path], tmp_path: Path, command: Command) -> None:
    for name in ("full", "lora:r=2"):
        shutil.copytree(runs[name], tmp_path / name[:4])
    said = command("export", str(tmp_path / "full"), str(tmp_path / "lora"), "-o", str(tmp_path / "out"), "--json")
    assert [each["as"] for each in json.loads(said.out)] == ["transformers", "peft"]
    assert (tmp_path / "out/full/model.safetensors").is_file()
    assert (tmp_path / "out/lora/adapter_model.safetensors").is_file()
    said = command("export", str(tmp_path / "full"), str(tmp_path / "lora"), "-o", str(tmp_path / "again"))
    assert f"{tmp_path / 'again/full'} loads without gradgate:\n" in said.out
