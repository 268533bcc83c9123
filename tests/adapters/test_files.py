"""Adapter files: what is written, what is read, and what is refused with nothing changed."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from gradgate import adapters
from gradgate.errors import AdapterError, AdapterFileError
from support.adapter_files import edit, edit_tensors, refused, save_task
from support.adapter_models import EVERY_MODEL_AND_KIND, disturb, output, tiny
from support.loop import assert_same_weights, same
from support.tiny_models import BARE, LAYERS, TINY


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_task(tmp_path / "task")


# What is written is read.


@EVERY_MODEL_AND_KIND
def test_what_is_saved_is_loaded_bit_for_bit(name: str, kind: str, tmp_path: Path) -> None:
    model = tiny(name)
    adapters.add(model, "task", kind)
    disturb(model)
    for key, parameter in model.named_parameters():
        if ".tuned." in key:
            parameter.data.add_(0.1)
    adapters.save(model, "task", tmp_path / "task")
    other = tiny(name)
    assert adapters.load(other, tmp_path / "task") == "task"
    assert adapters.active(other) == ()
    assert torch.equal(output(other), output(tiny(name)))
    adapters.activate(other, "task")
    assert torch.equal(output(other), output(model))
    assert_same_weights(model, other)
    assert not any(p.requires_grad for key, p in other.named_parameters() if ".task." in key)
    assert not list((tmp_path / "task").glob("*.bin"))


def test_an_adapter_is_loaded_under_another_name_and_with_fewer_layers(saved: Path) -> None:
    model = tiny("bert")
    assert adapters.load(model, saved, "other", leave_out=[0, 2]) == "other"
    assert adapters.added(model)["other"].leave_out == (0, 2)
    assert [("other" in layer.output.adapters) for layer in model.bert.encoder.layer] == [False, True, False]
    assert adapters.load(model, saved) == "task"


def test_every_layer_is_counted_from_the_bottom(saved: Path) -> None:
    model = TINY["bert"]()
    adapters.load(model, saved, leave_out=[LAYERS - 1])
    assert isinstance(model.bert.encoder.layer[0].output.adapters["task"], nn.Module)
    assert "task" not in model.bert.encoder.layer[LAYERS - 1].output.adapters


def test_a_folder_of_a_bare_model_and_of_one_with_a_head_are_interchangeable(saved: Path, tmp_path: Path) -> None:
    bare = BARE["bert"]()
    adapters.load(bare, saved)
    adapters.save(bare, "task", tmp_path / "bare")
    assert all(key.startswith("bert.") for key in load_file(saved / "adapter.safetensors"))
    assert not any(key.startswith("bert.") for key in load_file(tmp_path / "bare" / "adapter.safetensors"))
    assert not (tmp_path / "bare" / "head_config.json").exists()
    model = tiny("bert")
    adapters.load(model, tmp_path / "bare")
    one, other = (m.base_model.embeddings.invertible_adapters["task"] for m in (model, bare))
    assert same(one.F[0].weight, other.F[0].weight)


def test_files_of_older_versions_of_the_library_are_read(saved: Path) -> None:
    expected = tiny("bert")
    adapters.load(expected, saved, head=False)
    tensors = {
        key.replace("invertible_adapters", "invertible_lang_adapters").replace(
            "output.adapters", "output.layer_text_lang_adapters"
        ): tensor
        for key, tensor in load_file(saved / "adapter.safetensors").items()
    }
    (saved / "adapter.safetensors").unlink()
    torch.save(tensors, saved / "pytorch_adapter.bin")

    def older(values: dict[str, Any]) -> None:
        del values["version"], values["model_type"]
        values["type"] = "text_lang"
        config = values["config"]
        nested = {
            "block_type": config.pop("inv_adapter"),
            "reduction_factor": config.pop("inv_adapter_reduction_factor"),
        }
        config |= {"invertible_adapter": nested, "non_linearity": "gelu", "attention_type": "sent-lvl-dynamic"}

    edit(saved, older)
    model = tiny("bert")
    adapters.load(model, saved, head=False)
    assert_same_weights(model, expected)
    config = adapters.added(model)["task"]
    assert (config.inv_adapter, config.non_linearity) == ("nice", "gelu_new")
    assert config.extra["attention_type"] == "sent-lvl-dynamic"


def test_a_block_that_an_old_task_adapter_does_not_have_is_not_asked_for(saved: Path) -> None:
    edit_tensors(saved, lambda tensors: [tensors.pop(key) for key in list(tensors) if "invertible" in key])
    refused(saved, r"lacks 8 tensors.*invertible_adapters\.task\.F\.0\.weight")
    edit(saved, lambda values: values.update(type="text_task"))
    model = tiny("bert")
    adapters.load(model, saved)
    assert adapters.added(model)["task"].inv_adapter is None


def test_no_path_of_this_machine_is_written(saved: Path, tmp_path: Path) -> None:
    model = tiny("bert")
    model.save_pretrained(tmp_path / "private" / "bert-of-mine")
    model = type(model).from_pretrained(tmp_path / "private" / "bert-of-mine")
    adapters.load(model, saved)
    adapters.save(model, "task", tmp_path / "again")
    for file in ("adapter_config.json", "head_config.json"):
        values = json.loads((tmp_path / "again" / file).read_text())
        assert values["model_name"] == "bert-of-mine"
        assert "private" not in (tmp_path / "again" / file).read_text()


def test_saving_again_leaves_nothing_of_what_was_there(saved: Path) -> None:
    torch.save({}, saved / "pytorch_adapter.bin")
    bare = BARE["bert"]()
    adapters.add(bare, "task", "houlsby:size=4")
    adapters.save(bare, "task", saved)
    assert {file.name for file in saved.iterdir()} == {
        "adapter_config.json", "adapter.safetensors", "layer_norms.safetensors"
    }  # fmt: skip


def test_a_folder_that_cannot_be_written_is_named(saved: Path, tmp_path: Path) -> None:
    model = tiny("bert")
    adapters.load(model, saved)
    (tmp_path / "file").write_text("")
    with pytest.raises(AdapterFileError, match=r"Cannot write the adapter to .*file"):
        adapters.save(model, "task", tmp_path / "file")
    with pytest.raises(AdapterError, match="no adapter 'tusk'"):
        adapters.save(model, "tusk", tmp_path / "x")
    with pytest.raises(AdapterError, match="no adapters"):
        adapters.save(tiny("bert"), "task", tmp_path / "x")


# What is damaged or another model's is refused.


def test_a_place_without_an_adapter_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "There is no adapter at .*nowhere")
    refused(tmp_path, "has no adapter_config.json")
    (tmp_path / "file").write_text("no archive")
    refused(tmp_path / "file", "is neither a folder nor a zip or tar archive")
    refused("no-such-owner/no-such-adapter", "HF_HUB_OFFLINE is set.*")
    refused("what is this", "There is no adapter at 'what is this'")


@pytest.mark.parametrize(
    "file", ["adapter_config.json", "adapter.safetensors", "head_config.json", "model_head.safetensors"]
)
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_named(saved: Path, file: str, keep: float) -> None:
    data = (saved / file).read_bytes()
    (saved / file).write_bytes(data[: int(len(data) * keep)])
    refused(saved, rf"{file} in .* is damaged")


@pytest.mark.parametrize("file", ["adapter.safetensors", "head_config.json", "adapter_config.json"])
def test_a_damaged_file_is_named(saved: Path, file: str) -> None:
    (saved / file).write_bytes(b"\xff" * 200)
    refused(saved, rf"{file} in .* is damaged")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("evil"),)


def test_no_pickle_is_run(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (saved / "adapter.safetensors").unlink()
    for data in (
        pickle.dumps({"x": Evil()}, protocol=2),
        saved_with_torch({"x": Evil()}),
        saved_with_torch([1, 2]),
        b"\x80\x02.",
        b"",
        b"x" * 99,
    ):
        (saved / "pytorch_adapter.bin").write_bytes(data)
        refused(saved, r"pytorch_adapter\.bin in .* is damaged")
    (saved / "pytorch_adapter.bin").write_bytes(saved_with_torch({"x": 1}))
    refused(saved, "contains objects other than tensors")
    assert not Path("evil").exists()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.complex64])
def test_numbers_of_another_dtype_are_refused(saved: Path, dtype: torch.dtype) -> None:
    key = "bert.encoder.layer.1.output.adapters.task.adapter_up.weight"
    edit_tensors(saved, lambda tensors: tensors.update({key: torch.zeros(16, 8).to(dtype)}))
    refused(saved, rf"adapter_up\.weight' is {dtype}.*Expected dense tensors of float16, bfloat16, float32")


def saved_with_torch(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_tensors_that_do_not_fit_are_named(saved: Path) -> None:
    key = "bert.encoder.layer.1.output.adapters.task.adapter_up.weight"
    whole = load_file(saved / "adapter.safetensors")
    edit_tensors(saved, lambda tensors: tensors.update({key: torch.zeros(3, 3)}))
    refused(saved, r"layer\.1\.output\.adapters\.task\.adapter_up\.weight has shape \(3, 3\), expected \(16, 8\)")
    edit_tensors(saved, lambda tensors: tensors.pop(key))
    refused(saved, r"lacks 1 tensors.*layer\.1\.output\.adapters\.task\.adapter_up\.weight")
    save_file(whole | {key.replace("layer.1", "layer.7"): torch.zeros(3, 3)}, saved / "adapter.safetensors")
    refused(saved, r"has 1 tensors that have no place in this model, such as .*layer\.7")
    save_file(whole, saved / "adapter.safetensors")
    edit(saved, lambda values: values["config"].update(reduction_factor=4))
    refused(saved, r"has shape \(8, 16\), expected \(4, 16\)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(hidden_size=768), "hidden_size 768; BertForSequenceClassification has 16"),
        (lambda v: v.update(model_type="roberta"), "model_type 'roberta'"),
        (lambda v: v.pop("config"), "no configuration of a bottleneck adapter"),
        (lambda v: v["config"].update(phm_layer=True), "phm_layer=True, which is not supported"),
        (lambda v: v["config"].update(architecture="lora"), "only bottleneck adapters"),
        (lambda v: v["config"].update(non_linearity="no"), "non_linearity='no'"),
        (lambda v: v["config"].update(dropout="much"), "'much' of 'dropout' cannot be read"),
        (lambda v: v["config"].update(leave_out=[9]), "names layer 9"),
        (lambda v: v.update(name="a.b"), "'a.b' cannot be the name"),
        (lambda v: v.update(name="other"), "no place in this model"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(saved: Path, change: Any, message: str) -> None:
    edit(saved, change)
    refused(saved, message)


def test_a_name_that_is_taken_is_refused(saved: Path) -> None:
    model = tiny("bert")
    adapters.load(model, saved)
    refused(saved, "already has an adapter 'task'", model)


def test_an_unsupported_model_is_refused(saved: Path) -> None:
    refused(saved, "Supported: bert", BARE["gpt2"]())
