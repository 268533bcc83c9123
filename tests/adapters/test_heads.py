"""What is saved with adapters: prediction heads, the active stack, and restoring all of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from gradgate import adapters
from gradgate.errors import AdapterError, AdapterFileError
from support.adapter_files import edit, refused, save_task
from support.adapter_models import disturb, tiny
from support.loop import assert_same_weights, same, weights


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_task(tmp_path / "task")


@pytest.mark.parametrize("name", ["bert", "bert-tokens", "bert-qa", "bert-lm", "roberta", "xlm-roberta", "distilbert",
                                  "electra", "deberta-v2", "mpnet", "llama-classifier"])  # fmt: skip
def test_a_head_is_saved_and_loaded_with_its_adapter(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    adapters.add(model, "task")
    for key, parameter in model.named_parameters():
        if parameter.requires_grad and ".task." not in key:
            parameter.data.add_(0.5)
    adapters.save(model, "task", tmp_path / "task")
    other = tiny(name)
    adapters.load(other, tmp_path / "task", head=True)
    assert_same_weights(model, other)
    plain = tiny(name)
    before = weights(plain)
    adapters.load(plain, tmp_path / "task", head=False)
    assert all(same(p, before[key]) for key, p in plain.named_parameters() if ".task." not in key)


def test_a_head_that_does_not_fit_is_left_out_with_a_warning_or_refused(saved: Path) -> None:
    other = BertForSequenceClassification(BertConfig(**tiny("bert").config.to_dict() | {"num_labels": 2}))
    refused(saved, r"classifier\.bias of shape \(3,\); the model's is \(2,\)", other, head=True)
    with pytest.warns(UserWarning, match="head was not loaded.*another number of labels"):
        adapters.load(other, saved)
    refused(
        saved, "head of a BertForSequenceClassification; this model is a BertForMaskedLM", tiny("bert-lm"), head=True
    )
    (saved / "head_config.json").unlink()
    refused(saved, "has no prediction head", head=True)


def flexible(saved: Path, **config: Any) -> None:
    edit(saved, lambda values: values.update(config=config, name="task"), "head_config.json")


@pytest.mark.parametrize(
    ("name", "config", "modules"),
    [
        ("bert", {"layers": 1, "use_pooler": True}, {1: "classifier"}),
        ("bert", {"layers": 2, "activation_function": "tanh"}, {1: "bert.pooler.dense", 4: "classifier"}),
        ("roberta", {"layers": 2, "activation_function": "tanh"}, {1: "classifier.dense", 4: "classifier.out_proj"}),
        ("electra", {"layers": 2, "activation_function": "gelu"}, {1: "classifier.dense", 4: "classifier.out_proj"}),
        ("distilbert", {"layers": 2, "activation_function": "relu"}, {1: "pre_classifier", 4: "classifier"}),
        ("deberta-v2", {"layers": 2, "activation_function": "gelu"}, {1: "pooler.dense", 4: "classifier"}),
        ("bert-tokens", {"head_type": "tagging", "layers": 1}, {1: "classifier"}),
        ("bert-qa", {"head_type": "question_answering", "layers": 1}, {1: "qa_outputs"}),
    ],
)
def test_a_flexible_head_becomes_the_models_own(name: str, config: Any, modules: Any, tmp_path: Path) -> None:
    model = tiny(name)
    adapters.add(model, "task")
    adapters.save(model, "task", tmp_path)
    flexible(
        tmp_path, **{"head_type": "classification", "use_pooler": False, "label2id": {"a": 0, "b": 1, "c": 2}} | config
    )
    head = {
        f"heads.task.{index}.{part}": torch.rand_like(getattr(model.get_submodule(path), part))
        for index, path in modules.items()
        for part in ("weight", "bias")
    }
    save_file(head, tmp_path / "model_head.safetensors")
    other = tiny(name)
    adapters.load(other, tmp_path, head=True)
    for index, path in modules.items():
        module: Any = other.get_submodule(path)
        assert same(module.weight, head[f"heads.task.{index}.weight"])
        assert same(module.bias, head[f"heads.task.{index}.bias"])
    if name != "bert-qa":
        assert other.config.id2label == {0: "a", 1: "b", 2: "c"}
    flexible(tmp_path, head_type="classification", layers=3, activation_function="tanh")
    refused(tmp_path, "layers=3.*has another head", tiny(name), head=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": "x"}, "its config is 'x'.*Expected a mapping"),
        ({"config": {"layers": 1}, "name": 5}, "its name 5.*Expected a mapping and a text"),
        ({"label2id": {"a": [1], "b": [2], "c": [3]}}, r"with the labels .*'a': \[1\].*a name for each number from 0"),
        ({"label2id": {"a": 0, "b": 0, "c": 1}}, "a name for each number from 0"),
        ({"label2id": ["a", "b", "c"]}, "a name for each number from 0"),
    ],
)
def test_an_odd_head_is_refused_before_the_model_changes(saved: Path, change: dict[str, Any], message: str) -> None:
    edit(saved, lambda values: values.update(change), "head_config.json")
    refused(saved, message, head=True)
    model = tiny("bert")
    with pytest.warns(UserWarning, match="head was not loaded"):
        adapters.load(model, saved)
    assert model.config.label2id == tiny("bert").config.label2id


def test_a_masked_language_head_that_is_not_tied_to_these_embeddings_is_refused(tmp_path: Path) -> None:
    model = tiny("bert-lm")
    adapters.add(model, "lang", "pfeiffer+inv:reduction=2")
    adapters.save(model, "lang", tmp_path)
    tensors = load_file(tmp_path / "model_head.safetensors")
    tensors["cls.predictions.decoder.weight"] += 1
    save_file(tensors, tmp_path / "model_head.safetensors")
    refused(
        tmp_path, "decoder.weight is not tied to the embeddings.*tie_word_embeddings=False", tiny("bert-lm"), head=True
    )


def test_a_stack_of_which_one_member_is_damaged_leaves_the_model_without_any(tmp_path: Path) -> None:
    model = tiny("bert")
    for name in ("lang", "task"):
        adapters.add(model, name)
    adapters.activate(model, "lang", "task")
    adapters.save_setup(model, tmp_path)
    (tmp_path / "task" / "adapter.safetensors").write_bytes(b"")
    other = tiny("bert")
    with pytest.raises(AdapterFileError, match="is damaged"):
        adapters.load_setup(other, tmp_path)
    assert adapters.added(other) == {}
    assert list(other.state_dict()) == list(tiny("bert").state_dict())
    for setup in ({"type": "Fuse", "children": []}, {"type": "single", "children": ["../task"]}, None, []):
        edit(tmp_path, lambda values, setup=setup: values.update(adapter_setup=setup), "adapter_setup.json")
        with pytest.raises(AdapterFileError, match=r"only a stack|cannot be the name"):
            adapters.load_setup(other, tmp_path)


def test_restoring_from_a_folder_that_is_gone_never_asks_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = tiny("bert")
    adapters.add(model, "task")
    with pytest.raises(AdapterFileError, match="There is no adapter at 'checkpoints/task'"):
        adapters.restore(model, "checkpoints")


def test_restoring_is_in_place_and_all_or_nothing(tmp_path: Path) -> None:
    model = tiny("bert")
    with pytest.raises(AdapterError, match="nothing to restore"):
        adapters.restore(model, tmp_path)
    for name in ("one", "two"):
        adapters.add(model, name, "houlsby:size=4")
        adapters.save(model, name, tmp_path / name)
    kept, pointers = weights(model), [p.data_ptr() for p in model.parameters()]
    disturb(model)
    moved = weights(model)
    data = (tmp_path / "two" / "adapter.safetensors").read_bytes()
    (tmp_path / "two" / "adapter.safetensors").write_bytes(data[:-8])
    with pytest.raises(AdapterFileError, match="is damaged"):
        adapters.restore(model, tmp_path)
    assert all(same(p, moved[key]) for key, p in model.named_parameters())
    (tmp_path / "two" / "adapter.safetensors").write_bytes(data)
    adapters.restore(model, tmp_path)
    assert all(same(p, kept[key]) for key, p in model.named_parameters())
    assert [p.data_ptr() for p in model.parameters()] == pointers
