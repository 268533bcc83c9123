"""Estimates against the storages that are counted while real models are trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from gradgate import MethodInfo, adapters, estimate_memory, map_layers
from gradgate.adapters.languages import LanguageAdapters
from gradgate.errors import RunError
from gradgate.memory import LiveBytes
from gradgate.memory.estimate import Estimator, Setup
from gradgate.memory.request import estimate_arms
from gradgate.memory.workload import Workload
from gradgate.methods.catalog import method as read_method
from gradgate.settings.arms.adapter import read_adapter
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.base import checked_settings
from gradgate.settings.memory import MemorySettings
from gradgate.training.adapted import put_adapter
from support.catalog_table import MODELS, ROWS, build, layers_of, method_of
from support.counted import counted_peak
from support.crossed import some_fast
from support.tiny_models import _DECODER, _ENCODER, _T5, TINY, tiny

STEPS, PER_EPOCH, SEED = 6, 2, 5


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2, foreach=False)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False)


OPTIMIZERS: dict[str, Any] = {"encoder": adamw, "decoder": momentum, "encoder-decoder": adamw}


def on_one_model(row: MethodInfo | str, place: int) -> str:
    """Each method on one of the models in turns; those that measure or need Adam on the encoder, which has it."""
    method = method_of(row)
    return "encoder" if method.traits.decides_by_measuring or method.name == "mofo" else list(MODELS)[place % 3]


# These take what another method in the table takes: they open and close layers, or mask elements, at other steps,
# or leave all as it is, which the tests of formats and of images estimate for the method ``full``.
# So do most of the same method with other options, which are slow too.
ALIKE = {
    "full",
    "freeze",
    "head",
    "groups",
    "gradfreeze",
    "lpft",
    "random",
    "order",
    "anneal-graddrop",
    "anneal-layer-graddrop",
    "graddrop-epoch",
    "graddrop-epoch-toggle",
    "gradual",
    "hft",
    "layer-graddrop",
    "layerwise-lr",
}
NAMED = {row if isinstance(row, str) else row.name: row for row in ROWS}


@pytest.mark.parametrize(
    ("row", "name"),
    [
        pytest.param(
            row, on_one_model(row, place), id=text, marks=pytest.mark.slow if text in ALIKE or ":" in text else ()
        )
        for place, (text, row) in enumerate(NAMED.items())
    ],
)
def test_every_method_takes_what_was_estimated(row: MethodInfo | str, name: str) -> None:
    method, layers, work, make = method_of(row), layers_of(name), Workload(2, 8), OPTIMIZERS[name]
    setup = Setup(work, make, total_steps=STEPS, steps_per_epoch=PER_EPOCH, seed=SEED)
    estimate = Estimator(build(name), setup, layers).of(method)
    real = counted_peak(
        build(name), method, make, work, steps=STEPS, steps_per_epoch=PER_EPOCH, layers=layers, seed=SEED
    )
    assert estimate.peak_bytes == pytest.approx(
        real, rel=0.02 if row == "spectrum" or getattr(row, "name", "") == "spectrum" else 0.01
    )


@pytest.mark.parametrize(
    ("method", "master"),
    [
        pytest.param("full", "float32", marks=pytest.mark.slow),
        ("full", "none"),
        ("blocks:every=1", "float32"),
    ],
)
def test_weights_in_16_bits_take_what_was_estimated_with_and_without_masters(method: str, master: Any) -> None:
    layers, work = layers_of("encoder"), Workload(2, 8, weights="bfloat16")
    model = build("encoder").to(torch.bfloat16)
    estimate = Estimator(model, Setup(work, adamw, master, total_steps=3), layers).of(method)
    real = counted_peak(model, method, adamw, work, steps=3, layers=layers, master=master)
    assert estimate.peak_bytes == pytest.approx(real, rel=0.01)
    assert (estimate.worst.usage.masters > 0) == (master == "float32")


def test_an_adapter_on_a_language_adapter_takes_what_was_estimated(tmp_path: Path) -> None:
    config = {"num_labels": 2} | _ENCODER
    adapters.add(
        host := tiny("BertConfig", "BertForSequenceClassification", **config)(), "en", "pfeiffer+inv:reduction=2"
    )
    adapters.save(host, "en", tmp_path / "en", head=False)
    model = tiny("BertConfig", "BertForSequenceClassification", **config)()
    put_adapter(model, setting := read_adapter("pfeiffer:reduction=2"), (), seed=0)
    LanguageAdapters(str(tmp_path / "en"), "en").put(model)
    real = counted_peak(model, "full", adamw, Workload(4, 16), steps=2)
    sizes = {"batch_size": 4, "max_length": 16, "optim": adamw, "total_steps": 2, "head": "sequence"}
    estimate = estimate_memory(model.config, adapter=setting, language_adapters=str(tmp_path / "en"), **sizes)
    alone = estimate_memory(model.config, adapter=setting, **sizes)
    assert estimate.peak_bytes == pytest.approx(real, rel=0.01)
    assert alone.peak_bytes < 0.95 * real


def test_arms_without_an_adapter_have_no_language_adapter_in_a_comparison(tiny_model: Path, tmp_path: Path) -> None:
    host = AutoModel.from_pretrained(tiny_model)
    adapters.add(host, "en", "pfeiffer+inv:reduction=2")
    adapters.save(host, "en", tmp_path / "en", head=False)
    plain, adapted = read_arm("head"), read_arm("pfeiffer:reduction=2")
    own = {"model": str(tiny_model), "max_length": 16}
    stacked = checked_settings(MemorySettings, own | {"language_adapters": str(tmp_path / "{language}")})
    usages = [each.estimate.worst.usage for each in estimate_arms(stacked, [plain, adapted])]
    (without,) = estimate_arms(checked_settings(MemorySettings, own), [plain])
    assert usages[0] == without.estimate.worst.usage
    # More than the task's adapter takes, which has no invertible part.
    language = sum(tensor.nbytes for tensor in load_file(tmp_path / "en/adapter.safetensors").values())
    assert usages[1].weights > usages[0].weights + language


@some_fast("method", ["full", "freeze:layers=2", "graddrop:p=0.5"], ["graddrop:p=0.5"])
def test_accumulated_gradients_take_what_was_estimated(method: str) -> None:
    layers, work = layers_of("encoder"), Workload(8, 32, accumulate=2)
    estimate = Estimator(build("encoder"), Setup(work, adamw, total_steps=2), layers).of(method)
    alone = Estimator(build("encoder"), Setup(Workload(8, 32), adamw, total_steps=2), layers).of(method)
    real = counted_peak(build("encoder"), method, adamw, work, steps=2, layers=layers)
    assert estimate.peak_bytes == pytest.approx(real, rel=0.01)
    assert estimate.peak_bytes > alone.peak_bytes


def test_questions_with_choices_take_what_was_estimated() -> None:
    make, work = tiny("BertConfig", "BertForMultipleChoice", **_ENCODER), Workload(2, 8, choices=4)
    estimate = Estimator(make(), Setup(work, adamw, total_steps=2)).of("full")
    assert estimate.peak_bytes == pytest.approx(counted_peak(make(), "full", adamw, work, steps=2), rel=0.01)


@pytest.mark.parametrize(("batch", "grows"), [(2, True), (64, False)])
def test_scoring_dev_takes_what_was_estimated(batch: int, grows: bool) -> None:
    make, work = tiny("BertConfig", "BertForSequenceClassification", **_ENCODER), Workload(batch, 32)
    alone, scored = (
        Estimator(make(), Setup(work, adamw, total_steps=2, scores_dev=scores_dev)).of("groups:open=layers.2/head")
        for scores_dev in (False, True)
    )
    assert (scored.peak_bytes > alone.peak_bytes) == grows
    if grows:
        model, live = make().eval(), LiveBytes()
        inputs = Workload(64, 32).inputs(model)
        live.count([*model.parameters(), *model.buffers(), *inputs.values()])
        with torch.no_grad(), live:
            model(**inputs)
        states, rest = scored.worst.usage.optimizer, work.input_bytes(model)
        assert scored.peak_bytes == pytest.approx(live.peak + states + rest, rel=0.01)


PAIRS = {
    "accumulation": ("decoder", "lisa:layers=1,every=1", Workload(4, 32, accumulate=2), {}),
    "spectrum of parts": ("decoder", "spectrum:share=0.5,unit=part", Workload(4, 32), {}),
    "spectrum with accumulation": ("encoder", "spectrum:share=0.5", Workload(4, 32, accumulate=2), {}),
    "experts": ("mixtral", "full", Workload(4, 32), {}),
    "closed experts under autocast": ("mixtral", "blocks:every=1", Workload(4, 32, "bf16"), {}),
    "released": ("encoder", "full", Workload(4, 32, released=True), {"release_gradients": True}),
    "released masks": ("decoder", "graddrop:p=0.5", Workload(4, 32, released=True), {"release_gradients": True}),
    "released experts": ("mixtral", "blocks:every=1", Workload(4, 32, released=True), {"release_gradients": True}),
}


# Other pairs and tests have what these have: experts, released and accumulated gradients, and a measured choice.
COVERED = ("accumulation", "spectrum with accumulation", "experts", "released", "released experts")


@pytest.mark.parametrize(
    ("name", "method", "work", "options"),
    [pytest.param(*pair, id=name, marks=pytest.mark.slow if name in COVERED else ()) for name, pair in PAIRS.items()],
)
def test_each_pair_takes_what_was_estimated(name: str, method: str, work: Workload, options: dict[str, Any]) -> None:
    made = TINY[name] if name in TINY else lambda: build(name)
    estimate = Estimator(made(), Setup(work, adamw, total_steps=3, seed=SEED)).of(method)
    real = counted_peak(made(), method, adamw, work, steps=3, seed=SEED, **options)
    assert estimate.peak_bytes == pytest.approx(real, rel=0.02)
    assert estimate.choice == ("measured" if "spectrum" in method else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_unknown_weights_suppose_the_costliest_choice(name: str) -> None:
    setup = Setup(Workload(4, 32), adamw, total_steps=3)
    measured = Estimator(TINY[name](), setup).of("spectrum:share=0.5")
    supposed = Estimator(TINY[name]().to("meta"), setup).of("spectrum:share=0.5")
    assert supposed.choice == "supposed"
    assert supposed.peak_bytes >= measured.peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("formats", [("float32", "fp32"), ("float32", "fp16"), ("bfloat16", "bf16")])
def test_experts_are_estimated_in_every_format(formats: Any) -> None:
    (weights, precision), config = formats, TINY["mixtral"]().config
    estimate = estimate_memory(config, weights=weights, precision=precision, batch_size=2, max_length=16)
    assert estimate.peak_bytes > 0


EIGHT = {"num_hidden_layers": 8}
DEEP: dict[str, Callable[[], PreTrainedModel]] = {
    "BERT": tiny("BertConfig", "BertForSequenceClassification", **(_ENCODER | EIGHT)),
    "Llama": tiny("LlamaConfig", "LlamaForCausalLM", **(_DECODER | EIGHT)),
    "T5": tiny("T5Config", "T5ForConditionalGeneration", **(_T5 | {"num_layers": 6, "num_decoder_layers": 7})),
}


@pytest.mark.parametrize(
    ("name", "work"),
    [
        pytest.param("BERT", Workload(2, 16), marks=pytest.mark.slow),
        pytest.param("BERT", Workload(2, 16, "bf16"), marks=pytest.mark.slow),
        ("Llama", Workload(2, 16, checkpointing=True)),
        ("T5", Workload(2, 16)),
    ],
    ids=["encoder", "autocast", "decoder with checkpoints", "encoder-decoder"],
)
@pytest.mark.parametrize("method", [pytest.param("full", marks=pytest.mark.slow), "groups:open=layers.2/layers.5"])
def test_few_layers_stand_for_all(name: str, work: Workload, method: str) -> None:
    model = DEEP[name]()
    layers = map_layers(model)
    estimate = Estimator(model, Setup(work, adamw, total_steps=2), layers).of(method)
    real = counted_peak(model, method, adamw, work, steps=2, layers=layers)
    assert estimate.peak_bytes == pytest.approx(real, rel=0.01)


def test_the_model_is_left_as_it_was() -> None:
    model = build("encoder").eval()
    before = {name: (p, p.requires_grad) for name, p in model.named_parameters()}
    settings = model.config.to_dict()
    Estimator(model, Setup(Workload(2, 8, checkpointing=True), total_steps=2), layers_of("encoder")).of(
        "freeze:layers=2"
    )
    assert not model.training
    assert all(p is before[name][0] and p.requires_grad == before[name][1] for name, p in model.named_parameters())
    assert model.config.to_dict() == settings
    assert not any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    for adapter in ("lora:r=2", "pfeiffer:reduction=2"):
        estimate_memory(model, adapter, batch_size=1, max_length=8)
    assert all(p is before[name][0] and p.requires_grad == before[name][1] for name, p in model.named_parameters())


def test_a_head_that_looks_for_end_tokens_can_be_estimated() -> None:
    model = TINY["bart"]()
    estimate = Estimator(model, Setup(Workload(2, 8), adamw, total_steps=2)).of("full")
    weights = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert 4 * weights < estimate.peak_bytes < 5 * weights


IMAGES: dict[str, dict[str, Any]] = {
    "ViT": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2},
    "Swinv2": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4},
    "ConvNext": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]},
}


@pytest.mark.parametrize("method", ["full", pytest.param("freeze:layers=1", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=() if each == "ViT" else pytest.mark.slow) for each in IMAGES]
)
def test_classifiers_of_images_take_what_was_estimated(family: str, method: str) -> None:
    make = tiny(f"{family}Config", f"{family}ForImageClassification", image_size=32, patch_size=4, **IMAGES[family])
    model, work = make(), Workload(3, 8)
    estimate = Estimator(model, Setup(work, adamw, total_steps=2)).of(read_method(method))
    assert estimate.peak_bytes == pytest.approx(counted_peak(model, method, adamw, work, steps=2), rel=0.02)


def test_images_of_unknown_size_are_refused() -> None:
    model = tiny("ViTConfig", "ViTForImageClassification", image_size=32, patch_size=4, **IMAGES["ViT"])()
    model.config = PreTrainedConfig()
    with pytest.raises(RunError, match="image_size=None"):
        Workload(1, 8).inputs(model)
