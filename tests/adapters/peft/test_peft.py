"""Runs with adapters of PEFT: what PEFT itself makes of their files, that they resume exactly, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from gradgate.errors import AdapterError, AdapterFileError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks import find_task, kind_of, load_task
from gradgate.training.preview import preview
from gradgate.training.run import train
from support.crossed import some_fast
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history, weights

peft = pytest.importorskip("peft")

FLOAT = 4
ADAPTERS = ("lora:r=2", "dora:r=2", "rslora:r=2,lora_dropout=0.1", "ia3", "shira:r=1", "peft:loha,r=2", "peft:vera,r=4")


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch, with dropout."""
    return make_config(**settings | {"adapter": "lora:r=2", "eval_every": 4, "save_every": 5, "lr": 1e-2} | changes)


@pytest.fixture(scope="module")
def done(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora") / "run"
    train(config_of(settings, adapter="lora:r=2,lora_dropout=0.1", method="gradual:every=4"), folder)
    return folder


def record(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def pretrained(settings: dict[str, Any], folder: Path) -> Any:
    """The model before training, with a head that no run has had."""
    torch.manual_seed(99)
    config = AutoConfig.from_pretrained(folder / "model")
    return AutoModelForSequenceClassification.from_pretrained(settings["model"], config=config)


def dev_loss(model: Any, settings: dict[str, Any], folder: Path) -> float:
    data, tokenizer = load_task(find_task(settings["task"])), AutoTokenizer.from_pretrained(folder / "model")
    rows = kind_of(data.spec).encode(data.dev, tokenizer, 32)
    with torch.no_grad():
        return float(model.eval()(**kind_of(data.spec).collator(tokenizer)(list(rows))).loss)


@some_fast("adapter", ADAPTERS, ["lora:r=2", "peft:vera,r=4"])
def test_peft_loads_what_a_run_keeps_and_gets_the_scores_that_were_reported(
    settings: dict[str, Any], adapter: str, tmp_path: Path
) -> None:
    scores = train(config_of(settings, adapter=adapter, steps=6), tmp_path / "run")
    kept = tmp_path / "run/model"
    model = peft.PeftModel.from_pretrained(pretrained(settings, tmp_path / "run"), kept)
    assert isinstance(model, peft.PeftModelForSequenceClassification)
    assert dev_loss(model, settings, tmp_path / "run") == pytest.approx(scores["dev"]["loss"], abs=1e-6)
    assert evaluate(tmp_path / "run")["tests"] == scores["tests"]
    stored = sum(
        tensor.numel() * tensor.element_size() for tensor in load_file(kept / "adapter_model.safetensors").values()
    )
    assert scores["cost"]["bytes_stored"] == stored
    assert scores["cost"]["parameters_trained"] < scores["cost"]["parameters"] / 4


@some_fast("step", [3, 7, 12], [7])  # tests/training/test_resume.py has more moments
def test_a_run_without_power_ends_as_if_unbroken(
    settings: dict[str, Any], done: Path, step: int, tmp_path: Path
) -> None:
    config = config_of(settings, adapter="lora:r=2,lora_dropout=0.1", method="gradual:every=4")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(step))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", done)


def test_only_the_adapter_and_the_head_are_kept_and_learn(settings: dict[str, Any], done: Path) -> None:
    names = weights(done).keys()
    assert {name.partition("lora_")[0].rpartition(".layer.")[0] for name in names if "lora_" in name} == {
        "base_model.model.bert.encoder"
    }
    assert {name for name in names if "lora_" not in name} == {
        f"base_model.model.{module}.{kind}"
        for module in ("bert.pooler.dense", "classifier")
        for kind in ("weight", "bias")
    }
    assert record(done, "scores.json")["cost"]["parameters_trained"] == sum(t.numel() for t in weights(done).values())
    config = record(done, "model/adapter_config.json")
    assert config["base_model_name_or_path"] == settings["model"]
    assert config["modules_to_save"] == ["bert.pooler", "classifier"]
    assert record(done, "run.json")["model"]["adapter"].endswith("on query, value (PEFT's own choice for bert)")


def test_an_adapter_begins_as_its_seed_says_and_moves_no_other_draw(settings: dict[str, Any], tmp_path: Path) -> None:
    for name, adapter, seed in (("one", "lora:r=2", 0), ("two", "lora:r=4", 0), ("three", "lora:r=2", 1)):
        config = config_of(settings, adapter=adapter, seed=seed, method="head", steps=1, dropout=0.0, skip_test=True)
        train(config, tmp_path / name)
    one, two, three = (weights(tmp_path / name) for name in ("one", "two", "three"))
    assert all(torch.equal(one[name], two[name]) for name in one if "lora_" not in name)
    first = next(name for name in one if "lora_A" in name)
    assert not torch.equal(one[first], three[first])


@some_fast(
    "method",
    ["full", "freeze:layers=1", "lisa:layers=1,every=2", "fun:every=4,batches=1", "graddrop:p=0.5",
     "layer-graddrop:p=0.5", "layerwise-lr:decay=0.5", "mixout:p=0.5", "bitfit"],
    ["fun:every=4,batches=1"],  # tests/methods/test_catalog_backbones.py has the others in a loop
)  # fmt: skip
def test_every_kind_of_method_runs_on_them(settings: dict[str, Any], method: str, tmp_path: Path) -> None:
    scores = train(config_of(settings, method=method, audit=True, steps=8), tmp_path / "run")
    assert evaluate(tmp_path / "run")["tests"] == scores["tests"]


def test_the_cache_of_closed_layers_changes_nothing_that_is_learned(settings: dict[str, Any], tmp_path: Path) -> None:
    for name in ("auto", "off"):
        own = {"train_size": 24, "steps": 9, "eval_every": 9, "save_every": 9}  # three epochs
        train(config_of(settings, method="freeze:layers=1", activation_cache=name, **own), tmp_path / name)
    assert record(tmp_path / "auto", "scores.json")["cost"]["prefix_rows"]["read"] > 0
    mine, theirs = history(tmp_path / "auto"), history(tmp_path / "off")
    assert [line["loss"] for line in mine] == pytest.approx([line["loss"] for line in theirs], abs=2e-6)


def test_an_adapter_learns_from_the_texts_of_its_task_first(settings: dict[str, Any], tmp_path: Path) -> None:
    scores = train(
        config_of(settings, adapter="lora:r=2,tapt_steps=4,target_modules=query/dense", steps=4), tmp_path / "run"
    )
    first = load_file(tmp_path / "run/tapt/task/adapter_model.safetensors")
    assert all("lora_" in name and ".encoder.layer." in name for name in first)
    assert any(float(tensor.abs().max()) > 0 for name, tensor in first.items() if "lora_B" in name)
    assert evaluate(tmp_path / "run")["tests"] == scores["tests"]


def test_its_own_learning_rate_is_used(settings: dict[str, Any], tmp_path: Path) -> None:
    adapter = "lora:r=2,lr=0.02"
    train(config_of(settings, adapter=adapter, schedule="constant", warmup=0.0, steps=2), tmp_path / "own")
    assert {line["lr"] for line in history(tmp_path / "own", "train")} == {0.02}


def test_models_that_peft_does_not_know_get_it_on_all_linear_modules_of_the_layers(tmp_path: Path) -> None:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    from gradgate.settings.arms.adapter import read_adapter

    sizes = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 40}
    model = DistilBertForSequenceClassification(DistilBertConfig(**sizes))
    before = {
        name: (parameter.detach().clone(), parameter.requires_grad) for name, parameter in model.named_parameters()
    }
    setting = read_adapter("lora:r=2")
    assert setting is not None
    setting.kind.put(model, (), 0)
    assert setting.kind.described(model).endswith(
        "on k_lin, lin1, lin2, out_lin, q_lin, v_lin (all linear modules of the layers)"
    )
    learns = {name.partition(".lora_")[0] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name in learns if "layer." not in name} == {
        f"{module}.{kind}" for module in ("pre_classifier", "classifier") for kind in ("weight", "bias")
    }
    setting.kind.save(model, tmp_path)
    again = peft.PeftModel.from_pretrained(DistilBertForSequenceClassification(DistilBertConfig(**sizes)), tmp_path)
    state = again.get_base_model().state_dict()
    assert torch.equal(state["pre_classifier.modules_to_save.default.weight"], model.pre_classifier.weight)
    setting.kind.remove(model)
    after = {name: (parameter, parameter.requires_grad) for name, parameter in model.named_parameters()}
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name][0], old) and after[name][1] == flag for name, (old, flag) in before.items())


def test_restoring_leaves_the_head_as_it_is(settings: dict[str, Any], done: Path, tmp_path: Path) -> None:
    from gradgate.settings.arms.adapter import read_adapter

    setting, model = read_adapter("lora:r=2,init_lora_weights=gaussian"), pretrained(settings, done)
    assert setting is not None
    setting.kind.put(model, (), 0)
    setting.kind.save(model, tmp_path)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    setting.kind.restore(model, tmp_path)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name] + ("lora_" not in name)), name


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("lora:rr=8", r"'lora:rr=8' has no option 'rr'\. Did you mean 'r'\? Expected one of PEFT's LoraConfig"),
        ("lora:r=0", r"'lora:r=0' cannot have r=0 \(expected 1 or more\)"),
        ("lora:r=many", r"The value 'many' of 'r' cannot be read: expected a whole number"),
        ("lora:lora_dropout=1", r"cannot have lora_dropout=1\.0 \(expected a number in \[0, 1\)\)"),
        ("dora:use_dora=false", r"has no option 'use_dora'"),
        ("lora:task_type=SEQ_CLS", r"has no option 'task_type'"),
        (
            "ia3:target_modules=query,feedforward_modules=dense",
            r"PEFT rejects .*`feedforward_modules` should be a subset",
        ),
        (
            "lora:init_lora_weights=pisa",
            r"expected true or false, or 'gaussian', .*'pissa'",
        ),
        (
            "lora:init_lora_weights=eva",
            r"cannot start with init_lora_weights=eva: PEFT computes that from passes over data",
        ),
        ("peft:lohaa", r"PEFT has no type 'lohaa'\. Did you mean 'loha'"),
        (
            "peft:prefix_tuning",
            r"'peft:prefix_tuning' does not only change modules of the model's layers.*Expected one of lora",
        ),
        ("peft:adalora", r"does not only change modules of the model's layers"),
    ],
)
def test_what_no_model_could_take_is_refused_before_one_is_loaded(adapter: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        train(make_config(model=str(tmp_path / "absent"), adapter=adapter), tmp_path / "run")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("lora:target_modules=qery", r"Target modules \{'qery'\} not found.*linear: query, key, value, dense"),
        ("shira:r=32", r"rank 32 results in more shira params than"),
        ("lora:rank_pattern=qery:2", r"rank_pattern keys did not match any targeted module"),
        (
            "peft:beft,target_modules=dense",
            r"also changes bert\.pooler\.dense, which is trained in full with the head",
        ),
        ("peft:ln_tuning", r"PEFT has no default modules of 'bert' models.*as in target_modules=LayerNorm"),
    ],
)
def test_what_the_model_cannot_take_is_refused_before_a_study_begins(
    settings: dict[str, Any], adapter: str, message: str
) -> None:
    config = config_of(settings, adapter=adapter)
    assert config.adapter is not None
    with pytest.raises(AdapterError, match=message):
        preview(config, [config.adapter])


@pytest.mark.parametrize("adapter", ["peft", "peft:", "peft:r=4"])
def test_a_type_has_to_be_named(adapter: str) -> None:
    with pytest.raises(UsageError, match=r"is not a PEFT type\. Expected peft:TYPE,option=value"):
        make_config(adapter=adapter)


def test_texts_of_one_adapter_are_equal() -> None:
    one, other = make_config(adapter="lora: r=4, bias=all"), make_config(adapter="lora:bias=all,r=4")
    assert one.adapter == other.adapter != make_config(adapter="dora:bias=all,r=4").adapter


def test_without_peft_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gradgate.adapters.peft.kind.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"'lora:r=2' needs PEFT, which is not installed.*gradgate\[peft\]"):
        train(make_config(adapter="lora:r=2"), tmp_path / "run")


def test_damaged_files_are_named(settings: dict[str, Any], done: Path, tmp_path: Path) -> None:
    from shutil import copytree

    def broken(name: str) -> Path:
        return Path(copytree(done, tmp_path / name, ignore=lambda *_: ["evaluations"]))

    file = broken("cut") / "model/adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(AdapterFileError, match=r"adapter_model\.safetensors in .* is damaged"):
        evaluate(tmp_path / "cut")
    tensors = weights(done)
    first = next(name for name in tensors if "lora_A" in name)
    lacking = {name: tensor for name, tensor in tensors.items() if name != first}
    save_file(lacking, broken("lacking") / "model/adapter_model.safetensors")
    with pytest.raises(AdapterFileError, match=r"is incomplete: it has no .*lora_A"):
        evaluate(tmp_path / "lacking")
    save_file(
        {name: tensor for name, tensor in tensors.items() if "classifier.bias" not in name},
        broken("headless") / "model/adapter_model.safetensors",
    )
    with pytest.raises(AdapterFileError, match=r"is incomplete: it has no .*classifier\.bias"):
        evaluate(tmp_path / "headless")
    save_file(tensors | {first: torch.zeros(3, 3)}, broken("other") / "model/adapter_model.safetensors")
    with pytest.raises(AdapterFileError, match=r"does not fit BertForSequenceClassification.*size mismatch"):
        evaluate(tmp_path / "other")
    file = broken("kind") / "model/adapter_config.json"
    file.write_text(json.dumps(record(done, "model/adapter_config.json") | {"peft_type": "LOHA"}))
    with pytest.raises(AdapterFileError, match=r"has 'LOHA', but the run trained a 'LORA'"):
        evaluate(tmp_path / "kind")
