"""Models whose tensors transformers renames or joins as it loads them: every kind of delta, and wrapped models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import gradgate as gg
from gradgate import deltas
from gradgate.errors import DeltaError
from support.bits import assert_same_bits, on_disk
from support.crossed import each_once

INPUTS = {"input_ids": torch.tensor([[1, 2, 3, 4]])}
SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ROUTED = {"num_experts": 3, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}

# Options of the configuration; the classes are named like the key.
KINDS: dict[str, dict[str, Any]] = {
    "Mixtral": {"num_local_experts": 3},
    "Qwen2Moe": {**ROUTED, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "decoder_sparse_step": 1},
    "Qwen3Moe": {**ROUTED, "moe_intermediate_size": 8, "head_dim": 8},
    "Olmoe": ROUTED,
    "DeepseekV3": {
        **LATENT, "moe_intermediate_size": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
        "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1,
    },
    "GptOss": {"num_local_experts": 3, "num_experts_per_tok": 2, "head_dim": 8, "layer_types": ["full_attention"] * 2},
    "GraniteMoe": {"num_local_experts": 3, "num_experts_per_tok": 2},
    "Phimoe": {"num_local_experts": 3},
}  # fmt: skip
Change = Callable[[Any], object]


def saved(kind: str, folder: Path, dtype: torch.dtype = torch.bfloat16, **options: Any) -> tuple[Path, Any]:
    """A base on disk, and the function that loads it."""
    torch.manual_seed(0)
    factory = getattr(transformers, f"{kind}ForCausalLM")
    config = getattr(transformers, f"{kind}Config")(**SIZES, **KINDS.get(kind, {}), **options)
    factory(config).to(dtype).save_pretrained(folder)
    return folder, lambda: factory.from_pretrained(folder).eval()


def experts(model: nn.Module) -> list[nn.Parameter]:
    found = [p for name, p in model.named_parameters() if ("expert" in name or "moe" in name) and p.dim() == 3]
    assert found
    return found


def some(model: nn.Module) -> None:
    """One element in two experts, and one elsewhere."""
    with torch.no_grad():
        for parameter in experts(model)[:2]:
            parameter[0, 1, 2] += 1
            parameter[-1, 2, 1] += 1
        next(model.parameters())[3, 3] += 1


def all_of_them(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in experts(model):
            parameter += torch.randn_like(parameter)


@each_once("kind", list(KINDS), "change", [some, all_of_them])
def test_a_bank_becomes_experts_and_base(tmp_path: Path, kind: str, change: Change) -> None:
    base, load = saved(kind, tmp_path / "base")
    trained = load()
    change(trained)
    trained.save_pretrained(tmp_path / "trained")
    made = deltas.create(tmp_path / "trained", base, tmp_path / "d.safetensors")
    if change is some:
        assert sum(entry.bytes for entry in made.entries.values()) == 5 * (4 + 2)
    assert_same_bits(on_disk(deltas.apply(made, None, tmp_path / "again")), on_disk(tmp_path / "trained"))

    bank = deltas.Bank(model := load())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    places = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    bank.add("task", made)
    bank.activate("task")
    assert_same_bits(dict(model.state_dict()), dict(trained.state_dict()))
    assert torch.equal(model(**INPUTS).logits, trained(**INPUTS).logits)
    bank.base()
    assert_same_bits(dict(model.state_dict()), before)
    assert {name: tensor.data_ptr() for name, tensor in model.state_dict().items()} == places


def test_experts_in_shards_and_in_float32(tmp_path: Path) -> None:
    _, load = saved("Mixtral", tmp_path / "base")
    load().save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    trained = load()
    trained.model.layers[1].mlp.experts.float()
    some(trained)
    made = deltas.create(trained, tmp_path / "shards", tmp_path / "d.safetensors")
    assert set(made.origin.dtypes.values()) == {"F32"}
    bank = deltas.Bank(model := load(), base=tmp_path / "shards")
    bank.add("task", made)
    bank.activate("task")
    assert_same_bits(dict(model.state_dict()), dict(trained.state_dict()))


def test_experts_that_were_saved_fused(tmp_path: Path) -> None:
    _, load = saved("Mixtral", tmp_path / "base")
    load().save_pretrained(tmp_path / "fused", save_original_format=False)
    trained = transformers.MixtralForCausalLM.from_pretrained(tmp_path / "fused")
    some(trained)
    made = deltas.create(trained, tmp_path / "fused", tmp_path / "d.safetensors")
    bank = deltas.Bank(model := transformers.MixtralForCausalLM.from_pretrained(tmp_path / "fused"))
    bank.add("task", made)
    bank.activate("task")
    assert_same_bits(dict(model.state_dict()), dict(trained.state_dict()))


def test_a_bank_refuses_other_experts(tmp_path: Path) -> None:
    base, load = saved("Mixtral", tmp_path / "base")
    trained = load()
    some(trained)
    made = deltas.create(trained, base, tmp_path / "d.safetensors")
    moved = load()
    experts(moved)[0].data[0, 0, 0] += 1
    with pytest.raises(DeltaError, match=r"experts\.gate_up_proj in the model differs from the base"):
        deltas.Bank(moved).add("task", made)
    _, fewer = saved("Mixtral", tmp_path / "fewer", num_experts_per_tok=1, tie_word_embeddings=True)
    with pytest.raises(DeltaError, match="are one tensor in the model"):
        deltas.Bank(fewer()).add("task", made)


def test_a_shared_prefix_of_experts(tmp_path: Path) -> None:
    base, load = saved("Qwen3Moe", tmp_path / "base")
    models = [load(), load()]
    for place, model in enumerate(models):
        model.model.layers[1].mlp.experts.down_proj.data[place, 0, 0] += 1
    made = [deltas.create(model, base, tmp_path / f"{place}.safetensors") for place, model in enumerate(models)]
    shared = deltas.SharedPrefix(base, made)
    assert shared.depth == 1
    for output, model in zip(shared(**INPUTS), models, strict=True):
        assert torch.equal(output.logits, model(**INPUTS).logits)


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "torch.compile": lambda model: torch.compile(model, backend="eager"),
    "data parallelism": nn.DataParallel,
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapped_model_switches(tmp_path: Path, wrap: Callable[[nn.Module], nn.Module]) -> None:
    base, load = saved("Mixtral", tmp_path / "base", torch.float32)
    trained = load()
    some(trained)
    bank = deltas.Bank(wrap(model := load()))
    bank.add("task", deltas.create(trained, base, tmp_path / "d.safetensors"))
    bank.activate("task")
    assert_same_bits(dict(model.state_dict()), dict(trained.state_dict()))


def _peft(model: Any, *, injected: bool) -> Any:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj"])
    return peft.inject_adapter_in_model(config, model) if injected else peft.get_peft_model(model, config)


def _own(model: Any) -> Any:
    gg.adapters.add(model, "task", "pfeiffer")
    return model


def _quantized(model: Any) -> Any:
    model.config.quantization_config = {"quant_method": "bitsandbytes"}
    return model


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a PEFT model": (lambda model: _peft(model, injected=False), "has an adapter"),
    "an injected LoRA": (lambda model: _peft(model, injected=True), "has an adapter"),
    "an adapter of gradgate": (_own, "has an adapter"),
    "a quantized model": (_quantized, r"is quantized \(bitsandbytes\)"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bank_names_what_it_refuses(tmp_path: Path, change: Callable[[Any], Any], message: str) -> None:
    _, load = saved("Llama", tmp_path / "base")
    with pytest.raises(DeltaError, match=message):
        deltas.Bank(change(load()))


def _linear(model: Any) -> None:
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[0, 0] += 1


def _cast_norm(model: Any) -> None:
    model.model.norm.weight.data[3] += 1
    model.model.norm.float()


EXPORTED: dict[str, tuple[str, Change, str]] = {
    "joined experts": ("Mixtral", some, "model.layers.0.mlp.experts"),
    "fused experts": ("GptOss", some, "model.layers.0.mlp.experts"),
    "a cast norm": ("Llama", _cast_norm, "model.norm"),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # of PEFT's forward
@pytest.mark.parametrize(("kind", "change", "module"), EXPORTED.values(), ids=EXPORTED)
def test_peft_stores_experts_and_casts_whole(tmp_path: Path, kind: str, change: Change, module: str) -> None:
    peft = pytest.importorskip("peft")
    base, load = saved(kind, tmp_path / "base")
    trained = load()
    _linear(trained)
    change(trained)
    made = deltas.export(deltas.create(trained, base, tmp_path / "d.safetensors"), base, tmp_path / "peft")
    assert "model.layers.0.self_attn.q_proj" in made.shira
    assert module in made.modules
    loaded = peft.PeftModel.from_pretrained(load(), made.folder).eval()
    trained.bfloat16()
    torch.testing.assert_close(loaded(**INPUTS).logits, trained(**INPUTS).logits)


def test_peft_refuses_what_no_module_has(tmp_path: Path) -> None:
    base, load = saved("Llama", tmp_path / "base")
    trained = load()
    trained.register_parameter("scale", nn.Parameter(torch.ones(2)))
    _linear(trained)
    made = deltas.create(trained, base, tmp_path / "d.safetensors")
    with pytest.raises(DeltaError, match="changes scale, which is in no module of a LlamaForCausalLM"):
        deltas.export(made, base, tmp_path / "peft")
