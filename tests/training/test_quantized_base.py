"""Runs of an adapter on a quantized model: they store the adapter, resume exactly, and export what PEFT loads."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import gradgate as gg
from gradgate.errors import AdapterError, RunError
from gradgate.layers.quantized import keep_one_kernel
from gradgate.sample import DECODER
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.recommend.fitting import fitting, subject_of
from gradgate.study.recommend.portfolio import portfolio
from gradgate.training.checkpoint_weights import read_weights, write_weights
from gradgate.training.preview import preview
from gradgate.training.quantized import check_adapted
from gradgate.training.run import train
from support.loop import build
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, weights

peft = pytest.importorskip("peft")
FORMATS = {"nf4": "gradual:every=3", "int8": "layerwise-lr", "torchao": "lisa:layers=2,every=3"}
IDS = torch.arange(5, 37).reshape(4, 8)


def settings_of(form: str) -> Any:
    if form == "torchao":
        pytest.importorskip("torchao", reason="torchao is not installed")
        from torchao.quantization import Int8WeightOnlyConfig

        return transformers.TorchAoConfig(Int8WeightOnlyConfig())
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    if form == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
    )


@pytest.fixture(scope="module", params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def base(form: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded decoder, quantized and saved with its tokenizer."""
    folder = tmp_path_factory.mktemp(form)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        DECODER, quantization_config=settings_of(form), device_map="cpu"
    )
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(DECODER).save_pretrained(folder)
    return folder


def config_of(base: Path, method: str, settings: dict[str, Any]) -> RunConfig:
    changes = {"model": str(base), "method": method, "adapter": "lora:r=4", "steps": 6, "train_size": 30}
    return make_config(**settings | changes | {"eval_every": 3, "save_every": 2})


@pytest.fixture(scope="module")
def run(form: str, base: Path, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    train(config_of(base, FORMATS[form], settings), folder)
    return folder


@pytest.mark.filterwarnings("ignore:bitsandbytes")
def test_a_run_without_power_ends_as_if_unbroken(
    form: str, base: Path, run: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    """From step 2; dev is scored at step 3, and layers open at step 3."""
    with pytest.raises(PowerCutError):
        train(config_of(base, FORMATS[form], settings), tmp_path / "run", Falls(4))
    train(config_of(base, FORMATS[form], settings), tmp_path / "run")
    assert_same_run(tmp_path / "run", run)


def test_only_the_adapter_is_stored(run: Path) -> None:
    assert all("lora_" in name or "score" in name for name in weights(run))


def test_the_stored_adapter_scores_as_the_run_did(run: Path) -> None:
    assert gg.evaluate(run)["tests"] == gg.Run(run).scores["tests"]


def test_an_export_loads_with_peft_on_the_quantized_base(base: Path, run: Path, tmp_path: Path) -> None:
    gg.Run(run).export(tmp_path / "out")
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=2, pad_token_id=0)
    keep_one_kernel(plain)
    exported = peft.PeftModel.from_pretrained(plain, tmp_path / "out").eval()
    own, _ = gg.Run(run).load()
    with torch.no_grad():
        assert torch.equal(exported(input_ids=IDS).logits, own(input_ids=IDS).logits)


def test_an_adapter_on_a_quantized_base_is_not_merged(run: Path) -> None:
    with pytest.raises(AdapterError, match=r"quantized .* Export it as peft"):
        gg.Run(run).load(merge=True)


@pytest.mark.parametrize("arm", ["full", "freeze:layers=2", "houlsby:size=8"])
def test_a_quantized_model_without_peft_is_refused_before_it_trains(
    base: Path, settings: dict[str, Any], arm: str, tmp_path: Path
) -> None:
    own = {"model": str(base), "steps": 2, "train_size": 30, "out": tmp_path / "run"}
    with pytest.raises(RunError, match=r"is quantized .* 'lora:r=16"):
        gg.train(**settings | own, method=arm)
    with pytest.raises(RunError, match=r"is quantized .* 'lora:r=16"):
        gg.train(**settings | own, method=arm, dry_run=True)


@pytest.mark.parametrize(("arm", "fitting"), [("full", "lora:r=16"), ("lisa:layers=2", "lora:r=16 + lisa:layers=2")])
def test_the_refusal_names_what_fits(arm: str, fitting: str) -> None:
    with pytest.raises(RunError, match=re.escape(f"such as '{fitting}'")):
        check_adapted("bitsandbytes", read_arm(arm), "M")
    check_adapted("bitsandbytes", read_arm(fitting), "M")
    check_adapted(None, read_arm(arm), "M")


@pytest.mark.slow
def test_arms_are_compared_on_a_quantized_base(base: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    arms = ["lora:r=4", "lora:r=4 + gradual:every=2", "lora:r=4 + fun:every=2,batches=2"]
    own = {"model": str(base), "steps": 4, "train_size": 30, "seeds": 1, "out": tmp_path / "study", "quiet": True}
    runs = gg.compare(**settings | own, method=arms).runs()
    assert runs["cost.steps"].drop_duplicates().tolist() == [4]
    assert runs["test.accuracy"].notna().sum() == len(arms)


def test_arms_that_are_recommended_fit_a_quantized_base(base: Path, settings: dict[str, Any]) -> None:
    config = make_config(**settings | {"model": str(base), "steps": 12, "train_size": 30})
    seen = preview(config)
    found = fitting(portfolio(subject_of(config, seen)), config, seen)
    adapters = [arm.adapter for arm in found.arms]
    assert [arm.method.name for arm in found.arms] == ["full", "full", "gradual", "graddrop", "layerwise-lr"]
    assert all(str(adapter).startswith("lora:") for adapter in adapters)


def stored_as_integers() -> Any:
    """A model that says it is quantized, with one matrix of integers; such a model cannot run."""
    model: Any = build("bert")
    model.config.quantization_config = {"quant_method": "invented"}
    layer = model.bert.encoder.layer[0].attention.self.query
    layer.weight = nn.Parameter(torch.ones_like(layer.weight, dtype=torch.int8), requires_grad=False)
    return model


def test_a_checkpoint_holds_all_but_what_is_quantized(tmp_path: Path) -> None:
    model, other = stored_as_integers(), stored_as_integers()
    write_weights(model, tmp_path / "weights.safetensors")
    for parameter in other.parameters():
        parameter.data.zero_()
    read_weights(other, tmp_path / "weights.safetensors")
    unequal = [n for n, p in other.named_parameters() if not torch.equal(p, model.get_parameter(n))]
    assert unequal == ["bert.encoder.layer.0.attention.self.query.weight"]
    with pytest.raises(RunError, match="belongs to another model"):
        read_weights(build_with_more(), tmp_path / "weights.safetensors")


def build_with_more() -> Any:
    model = stored_as_integers()
    model.more = nn.Linear(1, 1)
    return model


def test_a_base_without_gradients_is_refused_before_a_study_trains(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = SimpleNamespace(is_trainable=False)
    monkeypatch.setattr(transformers.BertForSequenceClassification, "hf_quantizer", frozen, raising=False)
    for dry_run in (True, False):
        with pytest.raises(RunError, match="transformers computes no gradients"):
            gg.train(**settings, adapter="lora:r=2", out=tmp_path / "run", quiet=True, dry_run=dry_run)
    with pytest.raises(RunError, match="transformers computes no gradients"):
        gg.compare(**settings, method=["lora:r=2"], out=tmp_path / "study", quiet=True)
    assert not list((tmp_path / "study").rglob("run.json"))
