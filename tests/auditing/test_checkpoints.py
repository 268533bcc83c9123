"""Compare two checkpoints, in every form that people have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import save_file
from torch import Tensor, nn

from support.audited_models import bert
from support.command_line import Command, Said
from support.tiny_models import TINY


def test_steps_of_two_checkpoints_are_refused(command: Command) -> None:
    said = command("audit", "sample", "sample", "--steps", "3")
    assert said.code == 2
    assert "--steps 3: two checkpoints have no steps" in said.err


def test_a_command_without_two_dashes_is_told_where_they_belong(command: Command) -> None:
    said = command("audit", "python", "train.py")
    assert said.code == 2
    assert "'python' is a command, and a command comes after --. Write gradgate audit -- python train.py." in said.err


def test_two_checkpoints(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.save_pretrained(tmp_path / "base")
    with torch.no_grad():
        model.classifier.weight += 1.0
    model.save_pretrained(tmp_path / "trained")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "trained"), "--json"]
    done = command(*words, "--expect", "head")
    report = json.loads(done.out)
    assert report["learned"] == {"names": ["classifier.weight"], "elements": 48}
    assert (done.code, report["expected"]) == (1, False)  # the bias did not learn
    assert command("audit", str(tmp_path / "base")).code == 2


def test_an_adapter_on_a_base_that_was_stored_without_a_head(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.bert.save_pretrained(tmp_path / "base")  # its names have no "bert."
    adapted = get_peft_model(model, LoraConfig(target_modules=["query"], layers_to_transform=[2], r=2))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.ones_(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "adapter")]
    assert json.loads(command(*words, "--expect", "layers.top1", "--json").out)["expected"] is True
    assert json.loads(command(*words, "--expect", "layers.0", "--json").out)["expected"] is False
    assert "layers.2" in command(*words).out


def test_a_file_of_tensors_without_names_is_refused(command: Command, tmp_path: Path) -> None:
    torch.save({0: torch.zeros(2)}, tmp_path / "list.pt")
    said = command("audit", "sample", str(tmp_path / "list.pt"))
    assert said.code != 0
    assert "list.pt has no tensors. Expected tensors by name" in said.err


def differing(tmp_path: Path, content: object, command: Command) -> Said:
    torch.save({"layer.weight": torch.zeros(8, 8)}, tmp_path / "base.pt")
    torch.save(content, tmp_path / "trained.pt")
    return command("audit", str(tmp_path / "base.pt"), str(tmp_path / "trained.pt"), "--json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_tensor_that_became_nan_or_infinite(command: Command, tmp_path: Path, value: float) -> None:
    broken = torch.ones(8, 8)
    broken[3, 5] = value
    report = json.loads(differing(tmp_path, {"layer.weight": broken}, command).out)
    assert [(each["kind"], each["names"]) for each in report["findings"]] == [("not_finite", ["layer.weight"])]
    said = command("audit", str(tmp_path / "base.pt"), str(tmp_path / "trained.pt"))
    assert "not finite" in said.out


TRAINED = {"layer.weight": torch.ones(8, 8)}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({**TRAINED, "graph": torch.eye(4).to_sparse()}, ["layer.weight", "graph"]),
        ({**TRAINED, "rotation": torch.ones(4, dtype=torch.complex64)}, ["layer.weight", "rotation"]),
        ({**TRAINED, "rotation": torch.ones(4, dtype=torch.complex128)}, ["layer.weight", "rotation"]),
        ({"layer": {"weight": torch.ones(8, 8)}, "head": {"bias": torch.ones(3)}}, ["layer.weight", "head.bias"]),
        ({"model": TRAINED, "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}}, "epoch": 3}, ["layer.weight"]),
        ({"net.layer.weight": torch.ones(8, 8), "lr": 1e-3, "empty": torch.empty(0, 4)}, ["net.layer.weight"]),
    ],
)
def test_what_torch_saves_beside_plain_tensors(
    command: Command, tmp_path: Path, content: object, names: list[str]
) -> None:
    done = differing(tmp_path, content, command)
    assert json.loads(done.out)["learned"]["names"] == names


def quantized(parts: Tensor) -> Tensor:
    return torch.quantize_per_tensor(torch.view_as_real(parts), 0.5, 0, torch.qint8)


OLD_DTYPES = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:TypedStorage is deprecated")


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("kind", ["safetensors", "pt"])
@pytest.mark.parametrize("stored", [Tensor.clone, Tensor.to_sparse, pytest.param(quantized, marks=OLD_DTYPES)])
def test_tensors_are_compared_by_their_numbers_in_any_file(
    command: Command, tmp_path: Path, stored: Callable[[Tensor], Tensor], kind: str, moved: bool
) -> None:
    start = torch.tensor([[1.0 + 2.0j, 0.0], [0.0, 3.0j]])
    end = start + torch.tensor([[0.0, 0.0], [0.0, 1.0j]]) * moved
    torch.save({"rotation": stored(start), "other": torch.ones(2)}, tmp_path / "base.pt")
    if kind == "safetensors":
        plain = torch.view_as_real(end) if stored is quantized else end
        save_file({"rotation": plain, "other": torch.zeros(2)}, tmp_path / "trained.safetensors")
    else:
        torch.save({"rotation": stored(end), "other": torch.zeros(2)}, tmp_path / "trained.pt")
    said = command("audit", str(tmp_path / "base.pt"), str(tmp_path / f"trained.{kind}"), "--full")
    row = next(line for line in said.out.splitlines() if "rotation" in line).split()
    assert row[1:] == (["8", "1", "of", "1", "12.5%", "0.27"] if moved else ["8", "-", "0.0%", "-"])
    assert "absent" not in said.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.ones(2)], "holds a list. Expected tensors by name"),
        ({**TRAINED, "mask": torch.empty(2, device="meta")}, "mask has no values: it was saved from the meta device"),
        ({**TRAINED, "arguments": Path("x")}, "it holds a pathlib.PosixPath, which could run code"),
        (nn.Linear(2, 2), "it holds a torch.nn.modules.linear.Linear, which could run code"),
        ({"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": []}, "has no tensors"),
    ],
)
def test_a_file_that_cannot_be_compared_is_refused_in_a_sentence(
    command: Command, tmp_path: Path, content: object, message: str
) -> None:
    done = differing(tmp_path, content, command)
    assert done.code != 0
    assert message in done.err
    assert "Traceback" not in done.err


def test_one_checkpoint_twice_is_refused(command: Command, tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path / "model")
    said = command("audit", str(tmp_path / "model"), f"{tmp_path}/./model")
    assert said.code == 2
    assert "are the same checkpoint" in said.err


def test_a_head_that_an_adapter_brings_is_selected_as_head(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.bert.save_pretrained(tmp_path / "base")
    wanted = LoraConfig(target_modules=["query"], layers_to_transform=[2], r=2, modules_to_save=["classifier"])
    adapted = get_peft_model(model, wanted)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name or name.endswith("modules_to_save.default.bias"):
            nn.init.ones_(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "adapter"), "--json", "--expect"]
    report = json.loads(command(*words, "layers.2/head").out)
    assert (report["expected"], report["findings"]) == (True, [])
    assert json.loads(command(*words, "layers.2").out)["expected"] is False


def adapter_on(folder: Path, model: nn.Module, wanted: PeftConfig) -> list[str]:
    """Save a base and an adapter whose tensors are not zero; return the words that audit them."""
    model.save_pretrained(folder / "base")
    adapted = get_peft_model(model, wanted)
    for parameter in adapted.parameters():
        if parameter.requires_grad and not parameter.any():
            nn.init.ones_(parameter)
    adapted.save_pretrained(folder / "adapter")
    return ["audit", str(folder / "base"), str(folder / "adapter"), "--json", "--expect"]


def test_the_adapter_of_a_run_is_in_its_folder_model(command: Command, tmp_path: Path) -> None:
    model = bert()
    words = adapter_on(tmp_path, model, LoraConfig(target_modules=["query"], r=2))
    (tmp_path / "run").mkdir()
    (tmp_path / "adapter").rename(tmp_path / "run" / "model")
    model.config.save_pretrained(tmp_path / "run" / "model")
    report = json.loads(command("audit", words[1], str(tmp_path / "run"), "--json").out)
    assert all("lora_" in name for name in report["learned"]["names"])
    (tmp_path / "run" / "model" / "adapter_model.safetensors").rename(tmp_path / "run" / "model/adapter.safetensors")
    said = command("audit", words[1], str(tmp_path / "run"))
    assert "holds adapter.safetensors, an adapter in AdapterHub's format, which cannot be compared" in said.err


def test_what_an_adapter_saved_and_did_not_train_has_not_changed(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(model, LoraConfig(target_modules=["query"], r=2, modules_to_save=["classifier"]))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.ones_(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    assert expected(command, tmp_path / "base", tmp_path / "adapter", "layers.*") == (True, [])
    torch.save(adapted.state_dict(), tmp_path / "state.pt")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "state.pt")]
    assert all("lora_" in name for name in json.loads(command(*words, "--json").out)["learned"]["names"])
    assert "absent from" not in command(*words).out


def test_what_did_not_change_between_two_adapters_is_not_zero(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.name_or_path = str(tmp_path / "base")
    model.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(model, LoraConfig(target_modules=["query"], r=2))
    for folder in ("first", "second"):
        adapted.save_pretrained(tmp_path / folder)
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name and "layer.2" in name:
                    parameter += 1.0
    assert expected(command, tmp_path / "first", tmp_path / "second", "layers.2") == (True, [])


def test_a_prompt_is_no_head(command: Command, tmp_path: Path) -> None:
    words = adapter_on(tmp_path, TINY["llama"](), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4))
    report = json.loads(command(*words, "head").out)
    assert report["learned"]["names"] == ["prompt_embeddings"]
    assert report["expected"] is False
    assert [each["names"] for each in report["findings"]] == [["prompt_embeddings"]]
    assert "(model)" in command(*words[:3]).out


def test_tokens_that_an_adapter_trains_are_rows_of_their_table(command: Command, tmp_path: Path) -> None:
    wanted = LoraConfig(target_modules=["q_proj"], trainable_token_indices=[90, 91])
    words = adapter_on(tmp_path, TINY["llama"](), wanted)
    assert json.loads(command(*words, "layers.*/embeddings").out)["expected"] is True
    assert json.loads(command(*words, "layers.*/head").out)["expected"] is False


def test_a_head_that_peft_saves_without_noting_it_is_a_head(command: Command, tmp_path: Path) -> None:
    model = bert()
    words = adapter_on(tmp_path, model, LoraConfig(target_modules=["query"], modules_to_save=["classifier"]))
    model.bert.save_pretrained(tmp_path / "base")  # without the classifier
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "modules_to_save": None}), encoding="utf-8")
    assert json.loads(command(*words, "layers.*/head").out)["expected"] is True


def expected(command: Command, base: Path, trained: Path, selector: str) -> tuple[bool | None, list[str]]:
    report = json.loads(command("audit", str(base), str(trained), "--expect", selector, "--json").out)
    return report["expected"], [name for each in report["findings"] for name in each["names"]]


def test_tied_weights_that_a_file_stores_twice_are_selected_by_either_name(command: Command, tmp_path: Path) -> None:
    model = TINY["gpt2"]()
    for folder in ("base", "trained"):
        model.save_pretrained(tmp_path / folder)
        (tmp_path / folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), tmp_path / folder / "pytorch_model.bin")  # with lm_head.weight
        with torch.no_grad():
            model.transformer.wte.weight += 1.0
            model.transformer.wpe.weight += 1.0
    assert expected(command, tmp_path / "base", tmp_path / "trained", "embeddings") == (True, [])


def test_a_pooler_that_no_loss_uses_need_not_learn(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.bert.save_pretrained(tmp_path / "base")
    with torch.no_grad():
        for name, parameter in model.bert.named_parameters():
            parameter += 1.0 * ("pooler" not in name)
    model.bert.save_pretrained(tmp_path / "trained")
    assert expected(command, tmp_path / "base", tmp_path / "trained", "embeddings/layers.*/head") == (True, [])


def test_a_table_that_grew_is_not_absent(command: Command, tmp_path: Path) -> None:
    model = TINY["gpt2"]()
    model.save_pretrained(tmp_path / "base")
    model.resize_token_embeddings(model.config.vocab_size + 3)
    model.save_pretrained(tmp_path / "trained")
    assert "absent from" not in command("audit", str(tmp_path / "base"), str(tmp_path / "trained")).out


def test_statistics_of_batches_learn_nothing(command: Command, tmp_path: Path) -> None:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    model = ResNetForImageClassification(ResNetConfig(**sizes))
    model.save_pretrained(tmp_path / "base")
    model.train()(pixel_values=torch.ones(2, 3, 32, 32))
    with torch.no_grad():
        model.classifier[1].weight += 1.0
        model.classifier[1].bias += 1.0
    model.save_pretrained(tmp_path / "trained")
    assert expected(command, tmp_path / "base", tmp_path / "trained", "head") == (True, [])
