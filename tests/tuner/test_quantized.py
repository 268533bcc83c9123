"""Quantized models: adapters on them learn by schedule, and methods that would open the base are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import gradgate as gg
from gradgate.errors import AttachError
from support.loop import adamw, build

peft = pytest.importorskip("peft")
METHODS = ["full", "gradual:every=2", "lisa:layers=1", "layerwise-lr", "fun:every=2,batches=1"]
LIBRARIES = ["nf4", "int8", "torchao"]
STEPS = 6


def stored_as_integers(model: nn.Module) -> nn.Module:
    """Store the matrices of the layers as integers, as quantization does; such a model cannot run."""
    for module in model.get_submodule("model.layers").modules():
        if type(module) is nn.Linear:
            module.weight = nn.Parameter(module.weight.detach().to(torch.int8), requires_grad=False)
    return model


@pytest.mark.parametrize("method", ["full", "freeze:layers=1", "gradual:every=2", "lisa:layers=1", "layerwise-lr"])
def test_a_method_that_would_open_a_quantized_matrix_is_refused(method: str) -> None:
    model = stored_as_integers(build("llama"))
    optimizer = adamw(model)
    with pytest.raises(AttachError, match=r"q_proj\.weight is quantized.*Expected an adapter"):
        gg.Tuner(model, optimizer, method, total_steps=4)


@pytest.mark.parametrize("method", ["head", "groups:open=embeddings"])
def test_a_method_that_opens_none_is_not(method: str) -> None:
    model = stored_as_integers(build("llama"))
    with gg.Tuner(model, adamw(model), method, total_steps=4) as tuner:
        assert tuner.open_fraction > 0


@pytest.mark.parametrize("method", ["full", "gradual:every=2", "lisa:layers=1", "layerwise-lr"])
def test_under_an_adapter_its_layers_open(method: str) -> None:
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(build("llama"), config)
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.Linear):
            whole = module.base_layer.weight.detach()
            module.base_layer.weight = nn.Parameter(whole.to(torch.int8), requires_grad=False)
    with gg.Tuner(model, adamw(model), method, total_steps=4) as tuner:
        groups = [tuner.layers[group] for group, gate in tuner.plan.items() if gate.open]
        opened = {name for group in groups for name in group.parameter_names}
    assert any("lora_" in name for name in opened)


def quantized(library: str | None) -> nn.Module:
    """Return the embedded decoder with its matrices quantized by a library, if any, under LoRA."""
    import transformers

    from gradgate.sample import DECODER

    settings: Any = None
    if library == "torchao":
        pytest.importorskip("torchao", reason="torchao is not installed")
        from torchao.quantization import Int8WeightOnlyConfig

        settings = transformers.TorchAoConfig(Int8WeightOnlyConfig())
    elif library is not None:
        pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
        own: dict[str, Any] = {
            "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32},
            "int8": {"load_in_8bit": True},
        }
        settings = transformers.BitsAndBytesConfig(**own[library])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(DECODER, quantization_config=settings, device_map="cpu")
    if library is not None:
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", target_modules="all-linear", init_lora_weights=False)
    adapted: nn.Module = peft.get_peft_model(model, config)
    return adapted


def trained(library: str, method: str) -> list[float]:
    """Train LoRA on a quantized model, check that the base computes the same bits, and return the losses."""
    model: Any = quantized(library)
    batch = {"input_ids": torch.arange(5, 37).reshape(4, 8)}
    batch["labels"] = batch["input_ids"]
    with torch.no_grad(), model.disable_adapter():
        before = model(**batch).logits
    optimizer, losses = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2), []
    with gg.Tuner(model, optimizer, method, total_steps=STEPS, audit=True, fisher_data=lambda step: [batch]):
        for _ in range(STEPS):
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    with torch.no_grad(), model.disable_adapter():
        assert torch.equal(model(**batch).logits, before)
    return losses


@pytest.mark.filterwarnings("ignore:bitsandbytes")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_lora_learns_by_schedule_on_a_base_that_stays(library: str, method: str) -> None:
    losses = trained(library, method)
    assert losses[-1] < losses[0]
    assert trained(library, method) == losses


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_lora_a_quantized_model_is_refused(library: str) -> None:
    model: Any = quantized(library)
    plain = model.unload()
    plain.lm_head.requires_grad_(True)
    with pytest.raises(AttachError, match="is quantized"):
        gg.Tuner(plain, adamw(plain), "full", total_steps=STEPS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_share_that_learns_counts_weights_and_not_bytes(library: str) -> None:
    """bitsandbytes packs two weights of 4 bits into a byte."""
    shares, maps = [], []
    for model in (quantized(library), quantized(None)):
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        with gg.Tuner(model, torch.optim.AdamW(learning), "gradual:every=2", total_steps=STEPS) as tuner:
            shares.append(tuner.open_fraction)
            maps.append([(group.name, group.parameter_count) for group in tuner.layers])
    assert maps[0] == maps[1]
    assert shares[0] == shares[1]
