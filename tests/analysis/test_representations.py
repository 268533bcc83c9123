"""`gradgate analyze representations`: what it finds on known models, goes on with, writes, and refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gradgate.analysis.finished import Loader
from gradgate.analysis.hidden_states import hidden_states, measure, sample_tokens
from gradgate.analysis.representations import caption, representations_folder, similarities
from gradgate.analysis.runs import find_runs
from gradgate.errors import RunError, UsageError
from gradgate.runs.progress import Silent
from gradgate.settings.analysis import ComputeSettings, RepresentationSettings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.generators import save_generator, save_prompts
from support.tiny_folders import save_bert

HERE = ComputeSettings(device="cpu", batch_size=7)


@pytest.fixture(scope="module")
def runs(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the whole model, of its upper layer, and of an adapter."""
    folder = tmp_path_factory.mktemp("runs")
    for name, method, adapter in (
        ("full", "full", None),
        ("frozen", "freeze:layers=1", None),
        ("houlsby", "full", "houlsby:size=4"),
    ):
        train(make_config(**settings | {"method": method, "lr": 1e-2}, adapter=adapter), folder / name)
    return folder


def measured(paths: list[Path], out: Path, tokens: int = 60, **request: Any):
    (group,) = find_runs(paths, lambda text: None)
    return measure(
        group.runs, representations_folder(out), RepresentationSettings(tokens=tokens, **dict(HERE) | request), Silent()
    )


def test_frozen_layers_are_unchanged_and_trained_ones_are_not(runs, tmp_path):
    rows = measured([runs / "full", runs / "frozen", runs / "houlsby"], tmp_path / "out")
    frozen = {row.layer: row for row in rows if row.arm == "freeze:layers=1"}
    assert (frozen[0].rsa, frozen[0].cka) == pytest.approx((1, 1), abs=1e-6)
    assert (frozen[1].rsa, frozen[1].cka) == pytest.approx((1, 1), abs=1e-6)
    assert frozen[2].rsa < 0.99
    assert all(row.rsa < 0.999 for row in rows if row.arm == "full" and row.layer > 0)
    assert {row.tokens for row in rows} == {60}
    arms = similarities(rows, "dev")
    assert [len(arm.rsa) for arm in arms] == [3, 3, 3]
    assert "full changes most" in caption(arms)


def test_tokens_are_content_drawn_once_and_the_same_whatever_the_batches(runs):
    (group,) = find_runs([runs / "full"], lambda text: None)
    loaded = Loader(HERE).load(group.runs[0].files.path)
    sample = sample_tokens(loaded, "dev", RepresentationSettings(tokens=10**6))
    words = [len(text.split()) for text in loaded.rows("dev")["text"]]  # the tokenizer takes words whole
    assert sample.count == sum(words)
    some = sample_tokens(loaded, "dev", RepresentationSettings(tokens=25, seed=1))
    assert some.count == 25
    assert all(len(set(place)) == len(place) for place in some.places)
    one = hidden_states(loaded, loaded.found.model, some)
    other = Loader(ComputeSettings(device="cpu", batch_size=1)).load(group.runs[0].files.path)
    for mine, theirs in zip(one, hidden_states(other, other.found.model, some), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


def test_only_padding_and_boundaries_are_left_out(settings, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(settings["task"], data)
    (data / "dev.tsv").write_text("text\tlabel\n" + "good unheard [MASK] day\tgood\nbad unseen\tbad\n" * 8)
    train(make_config(**settings | {"task": str(data), "method": "head"}), tmp_path / "run")
    loaded = Loader(HERE).load(find_runs([tmp_path / "run"], lambda text: None)[0].runs[0].files.path)
    sample = sample_tokens(loaded, "dev", RepresentationSettings())
    assert sample.count == 8 * (4 + 2)
    ids = {name: getattr(loaded.found.tokenizer, f"{name}_token_id") for name in ("unk", "mask", "pad", "cls", "sep")}
    assert {ids["pad"], ids["cls"], ids["sep"]} == set(sample.special.tolist())


def test_what_is_measured_stays_and_is_not_measured_again(runs, tmp_path, monkeypatch):
    first = measured([runs / "full"], tmp_path / "out")
    second = measured([runs / "frozen"], tmp_path / "out")
    assert {row.arm for row in second} == {"freeze:layers=1"}
    more = measured([runs / "full", runs / "frozen"], tmp_path / "out")
    assert more == first + second == representations_folder(tmp_path / "out").read()
    monkeypatch.setattr(Loader, "load", None)  # no run is loaded any more
    assert measured([runs / "full", runs / "frozen"], tmp_path / "out") == more
    with pytest.raises(RunError, match=r"tokens: 60 there, 61 here"):
        measured([runs / "full"], tmp_path / "out", tokens=61)


def test_a_decoder_and_a_peft_adapter_are_measured(settings, tiny_gpt2, tmp_path):
    pytest.importorskip("peft")
    train(make_config(**settings | {"model": str(tiny_gpt2), "lr": 1e-2}, adapter="lora:r=2"), tmp_path / "run")
    rows = measured([tmp_path / "run"], tmp_path / "out")
    assert [row.layer for row in rows] == [0, 1, 2]
    assert rows[0].rsa == pytest.approx(1, abs=1e-6)
    assert 0 < rows[2].rsa < 1


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_of_an_encoder_decoder_the_encoder_is_measured(family, tmp_path):
    pytest.importorskip("trl")
    own = {"model": str(save_generator(tmp_path / family, family)), "task": str(save_prompts(tmp_path / "prompts"))}
    sizes = {"max_length": 32, "batch_size": 4, "steps": 4, "device": "cpu", "skip_test": True}
    train(make_config(**own, **sizes, method="full", lr=1e-2), tmp_path / "run")
    rows = measured([tmp_path / "run"], tmp_path / "out", tokens=10)
    assert [(row.layer, row.tokens) for row in rows] == [(0, 10), (1, 10), (2, 10)]
    assert 0 < rows[2].rsa < 1


def test_the_command_writes_csv_figures_and_a_sentence(command, runs, tmp_path):
    out = tmp_path / "out"
    words = ("analyze", "representations", str(runs / "full"), "--device", "cpu", "--tokens", "50", "-o", str(out))
    said = command(*words)
    assert said.code == 0, said.err
    assert "full keeps an RSA of" in said.out
    assert "less than a minute" in said.err
    files = {path.name for path in out.iterdir()}
    assert files == {"representations.csv", "representations.svg", "representations.pdf", "settings.json"}
    assert "RSA by layer from 0 up" in (out / "representations.svg").read_text()
    records = json.loads(command(*words, "--json").out)
    assert [record["layer"] for record in records] == [0, 1, 2]


def test_bad_input_is_said(command, runs, settings, tmp_path):
    def said(*words: str) -> str:
        result = command("analyze", "representations", *words, "--device", "cpu")
        assert result.code in (1, 2)
        assert "gradgate: " in result.err
        assert "Traceback" not in result.err
        return result.err

    assert "holds neither a run nor a study" in said(str(tmp_path))
    assert "--split 'tset': the task" in said(str(runs / "full"), "--split", "tset", "-o", str(tmp_path / "a"))
    assert "which needs --out" in said(str(runs / "full"), str(runs / "frozen"))
    assert "are both full with seed 0" in said(str(runs / "full"), str(runs / "full"), "-o", str(tmp_path / "b"))
    shutil.copytree(runs / "full", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    assert "run/model has been removed. Put it back" in said(str(tmp_path / "run"))
    (tmp_path / "run" / "run.json").write_text("{")
    (tmp_path / "run" / "model").mkdir()
    assert "run.json is damaged" in said(str(tmp_path / "run"))


def test_runs_of_different_models_are_refused_each_time(runs, settings, tmp_path):
    deeper = save_bert(tmp_path / "bert")
    deepen(deeper)
    train(make_config(**settings | {"model": str(deeper), "method": "head"}), tmp_path / "run")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"run has .*bert on .*tiny-bert0 on .* expected runs of the same"):
            measured([runs / "full", tmp_path / "run"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_that_have_changed_are_refused(settings, tiny_task, tmp_path):
    data = tmp_path / "moods"
    shutil.copytree(tiny_task, data)
    train(make_config(**settings | {"task": str(data), "method": "head"}), tmp_path / "run")
    (data / "dev.tsv").write_text((data / "train.tsv").read_text())
    with pytest.raises(RunError, match="have changed since the run"):
        measured([tmp_path / "run"], tmp_path / "out")


def deepen(folder: Path) -> None:
    """Give the model in a folder a third layer, equal to its second."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    tensors = load_file(folder / "model.safetensors")
    more = {name.replace("layer.1.", "layer.2."): torch.clone(t) for name, t in tensors.items() if "layer.1." in name}
    save_file({**tensors, **more}, folder / "model.safetensors", metadata={"format": "pt"})
