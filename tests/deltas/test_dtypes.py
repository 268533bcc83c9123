"""A change of dtype costs a few bytes of metadata, and base and delta are still the trained model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from gradgate import deltas
from gradgate.errors import DeltaError
from support.bits import assert_same_bits, on_disk
from support.command_line import Command

Tensors = dict[str, Tensor]
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def folder_of(folder: Path, tensors: Tensors, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "bert"}))
    return folder


def table(dtype: torch.dtype = BF16) -> Tensors:
    draw = torch.Generator().manual_seed(0)
    return {name: torch.randn(8, 16, generator=draw).to(dtype) for name in ("a", "b", "c", "d")}


def changed(tensors: Tensors, name: str, places: tuple[int, ...] = (), dtype: torch.dtype | None = None) -> Tensors:
    after = tensors[name].to(dtype or tensors[name].dtype, copy=True)
    after.view(-1)[list(places)] += 1
    return {**tensors, name: after}


def special(value: float) -> Tensor:
    return torch.full((4, 4), value)


def not_a_number() -> Tensor:
    """One among numbers: processors cast it to different bits, so that it is stored."""
    tensor = special(1.0)
    tensor[1, 1] = torch.nan
    return tensor


# base, trained model, dtype of all, dtypes of single tensors, bytes of the stored tensors
CASES: dict[str, tuple[Tensors, Tensors, str | None, dict[str, str], int]] = {
    "one tensor to float32": (table(), changed(table(), "b", (), F32), None, {"b": "F32"}, 0),
    "one to float32, an element": (table(), changed(table(), "b", (3,), F32), None, {"b": "F32"}, 8),
    "one to float32, another trained": (
        table(), changed(changed(table(), "b", (), F32), "c", (1, 2)), None, {"b": "F32"}, 12,
    ),
    "one to half precision": (table(F32), changed(table(F32), "b", (), F16), None, {"b": "F16"}, 0),
    "all but one to float32": (
        table(), {n: t if n == "d" else t.float() for n, t in table().items()}, "F32", {"d": "BF16"}, 0,
    ),
    "half precision to bfloat16": (table(F16), {n: t.to(BF16) for n, t in table(F16).items()}, "BF16", {}, 0),
    "norms in float32, unlike the rest": (
        changed(table(), "a", (), F32), changed(changed(table(), "a", (5,), F32), "d", (1,)), None, {}, 14,
    ),
    "trained in one dtype": (changed(table(), "a", (), F32), changed(table(), "d", (1,)), "BF16", {}, 6),
    "integers of another size": (
        {**table(), "ids": torch.arange(40)}, {**table(), "ids": torch.arange(40).int()}, None, {"ids": "I32"}, 0,
    ),
    "not a number": (
        {**table(), "n": not_a_number()}, {**table(), "n": not_a_number().to(BF16)}, "BF16", {}, 6,
    ),
    "infinite and too large": (
        {**table(), "n": special(float("inf")), "m": special(1e30)},
        {**table(), "n": special(float("inf")).half(), "m": special(1e30).half()}, None, {"n": "F16", "m": "F16"}, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_what_changed_is_stored(tmp_path: Path, case: Any) -> None:
    before, after, dtype, dtypes, stored = case
    base, trained = folder_of(tmp_path / "base", before), folder_of(tmp_path / "trained", after)
    made = deltas.create(trained, base, tmp_path / "d.safetensors")
    assert (made.origin.dtype, made.origin.dtypes) == (dtype, dtypes)
    assert sum(entry.bytes for entry in made.entries.values()) == stored
    assert_same_bits(on_disk(deltas.apply(made, None, tmp_path / "again")), after)
    with safe_open(made.path, framework="pt") as file:
        assert file.metadata()["version"] == ("1.1" if dtypes else "1")


def test_patches_have_cast_tensors_in_full(tmp_path: Path) -> None:
    after = changed(changed(table(), "b", (3,), F32), "c", (1,))
    base, trained = folder_of(tmp_path / "base", table()), folder_of(tmp_path / "trained", after)
    made = deltas.create(trained, base, tmp_path / "d.safetensors")
    (sparse, whole) = deltas.weight_patches(made)
    assert (sparse.name, sparse.values.tolist()) == ("c", [after["c"].view(-1)[1].item()])
    assert (whole.name, whole.dtype, whole.indices) == ("b", F32, None)
    assert torch.equal(whole.values.view(8, 16), after["b"])


def test_the_command_names_cast_tensors(tmp_path: Path, command: Command) -> None:
    base, trained = (folder_of(tmp_path / n, t) for n, t in (("x", table()), ("y", changed(table(), "b", (), F32))))
    said = command("delta", "create", str(trained), "--base", str(base), "-o", str(tmp_path / "d.safetensors"))
    assert "other dtype  1 tensors: b" in said.out, said.err


def test_norms_keep_the_older_names_of_a_base(tmp_path: Path) -> None:
    base = {"a.LayerNorm.gamma": torch.ones(8), "a.LayerNorm.beta": torch.zeros(8), "w": torch.randn(4)}
    after = changed(base, "w", (1,))
    made = deltas.create(folder_of(tmp_path / "after", after), folder_of(tmp_path / "b", base), tmp_path / "d")
    assert made.names == ("w",)
    assert_same_bits(on_disk(deltas.apply(made, None, tmp_path / "again")), after)


def test_only_one_quantized_model_is_refused(tmp_path: Path) -> None:
    quantized = folder_of(tmp_path / "q", table(), {"quantization_config": {"quant_method": "gptq"}})
    plain = folder_of(tmp_path / "p", table())
    for trained, base in ((plain, quantized), (quantized, plain)):
        with pytest.raises(DeltaError, match=r"q is quantized \(gptq\)"):
            deltas.create(trained, base, tmp_path / "d.safetensors")
    made = deltas.create(quantized, quantized, tmp_path / "d.safetensors")
    assert not made.names
    for use in (lambda: deltas.export(made, None, tmp_path / "peft"), lambda: deltas.SharedPrefix(None, [made])):
        with pytest.raises(DeltaError, match=r"is quantized \(gptq\), and its weights are used as plain numbers"):
            use()


LLAMA = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
}  # fmt: skip


def saved(folder: Path, dtype: torch.dtype, change: Callable[[Any], Any] = lambda model: None) -> Path:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=False)).to(dtype)
    change(model)
    model.save_pretrained(folder)
    return folder


def bumped(model: Any) -> None:
    model.model.layers[0].mlp.up_proj.weight.data[1, 1] += 1


# dtype of the base, of the trained model, of the model in memory, then what training does
BANKS: dict[str, tuple[torch.dtype, torch.dtype, torch.dtype, Callable[[Any], Any]]] = {
    "one tensor to float32": (BF16, BF16, BF16, lambda model: model.model.norm.float()),
    "one to half precision": (F32, F32, F32, lambda model: model.model.norm.bfloat16()),
    "all to float32, base as saved": (BF16, F32, BF16, bumped),
    "all to float32, base as trained": (BF16, F32, F32, bumped),
    "half precision to bfloat16": (F16, BF16, F16, bumped),
}


@pytest.mark.parametrize(("base", "trained", "memory", "change"), BANKS.values(), ids=BANKS)
def test_a_bank_takes_the_base_as_loaded(
    tmp_path: Path, base: torch.dtype, trained: torch.dtype, memory: torch.dtype, change: Callable[[Any], Any]
) -> None:
    first = saved(tmp_path / "base", base)
    after = LlamaForCausalLM.from_pretrained(first, dtype=trained)
    change(after)
    made = deltas.create(after, first, tmp_path / "d.safetensors")
    bank = deltas.Bank(model := LlamaForCausalLM.from_pretrained(first, dtype=memory))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    bank.add("task", made)
    for _ in range(2):
        bank.activate("task")
        assert_same_bits(dict(model.state_dict()), dict(after.state_dict()))
        bank.base()
        assert_same_bits(dict(model.state_dict()), before)


def test_norms_that_loading_casts_stay_cast(tmp_path: Path) -> None:
    base, trained = saved(tmp_path / "base", BF16), saved(tmp_path / "trained", BF16, bumped)
    for folder in (base, trained):
        tensors = load_file(folder / "model.safetensors")
        mixed = {name: t.float() if "norm" in name else t for name, t in tensors.items()}
        save_file(mixed, folder / "model.safetensors", {"format": "pt"})
    bank = deltas.Bank(model := LlamaForCausalLM.from_pretrained(base))
    bank.add("task", deltas.create(trained, base, tmp_path / "d.safetensors"))
    bank.activate("task")
    assert_same_bits(dict(model.state_dict()), dict(LlamaForCausalLM.from_pretrained(trained).state_dict()))


def test_another_dtype_is_named_with_both_files(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", BF16)
    made = deltas.create(saved(tmp_path / "trained", BF16, bumped), base, tmp_path / "d.safetensors")
    model = LlamaForCausalLM.from_pretrained(base, dtype=F16)
    message = r"is F16 \[.*\] in the model, but BF16 \[.*\] in the base .* and BF16 in .* such as dtype=torch.bfloat16"
    with pytest.raises(DeltaError, match=message):
        deltas.Bank(model).add("task", made)
