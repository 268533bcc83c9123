"""Measure methods for large models: peak memory and step time, against LoRA of rank 32 and full training.

Predicted for Llamas of 1, 8 and 70 B (the last on eight shards): weights in bfloat16, batch 1 x 1024, checkpointing,
AdamW, without and with float32 masters. Counted on a decoder of 134 M parameters: the storages alive in real steps on
the CPU. Timed on the same decoder in float32, as ratios within one process. The goal is 1.1 of LoRA's peak at 8 B
without masters, and 1.0 of its time. GaLore is absent: neither torch nor a maintained library has it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import gradgate as gg
from benchmarks.timing import medians, repeated
from gradgate.memory import GIB, LiveBytes
from gradgate.settings.arms.adapter import read_adapter
from gradgate.training.adapted import put_adapter

LORA = "lora:r=32"
RIVALS = {  # name -> method and adapter; the first is the reference
    "LoRA, rank 32": ("full", LORA),
    "blocks:size=1": ("blocks:size=1,every=2", None),
    "lisa:layers=2,ends=closed": ("lisa:layers=2,every=2,ends=closed,state=drop", None),
    "lisa:layers=2": ("lisa:layers=2,every=2,state=drop", None),
    "full": ("full", None),
}
SHAPES = {  # name -> width, inner width, layers and heads; and shards
    "1 B": ((2048, 8192, 16, 32), 1),
    "8 B": ((4096, 14336, 32, 32), 1),
    "70 B": ((8192, 28672, 80, 64), 8),
}
STEPS = 4
TURNS = 200  # each layer has its turn, so that the worst one is included


def run(rounds: int = 5) -> list[str]:
    """Return a table per shape, then the counted peaks and the times."""
    lines: list[str] = []
    for name, (shape, shards) in SHAPES.items():
        width, inner, layers, heads = shape
        config = LlamaConfig(
            vocab_size=128256, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=8, tie_word_embeddings=name == "1 B",
        )  # fmt: skip
        lines += predicted(name, config, shards)
    return [*lines, *counted(), *timed(rounds)]


def predicted(name: str, config: LlamaConfig, shards: int) -> list[str]:
    """Predict peaks without and with masters."""
    on = f", each of {shards} shards" if shards > 1 else ""
    lines = [f"{name}{on}: predicted peak, without and with float32 masters"]
    peaks = {}
    for rival, (method, adapter) in RIVALS.items():
        for master in ("none", "float32"):
            peaks[rival, master] = gg.estimate_memory(
                config, method, adapter=adapter, batch_size=1, max_length=1024, weights="bfloat16",
                checkpointing=True, master=master, shards=shards, total_steps=TURNS,
            ).peak_bytes  # fmt: skip
    for rival in RIVALS:
        both = [peaks[rival, master] for master in ("none", "float32")]
        of_lora = [peak / peaks[next(iter(RIVALS)), "none"] for peak in both]
        lines.append(
            f"  {rival:<28}{both[0] / GIB:8.2f} GiB {of_lora[0]:6.3f}x{both[1] / GIB:9.2f} GiB {of_lora[1]:6.3f}x"
        )
    return lines


def decoder() -> LlamaForCausalLM:
    """Build a decoder of 134 M parameters, the same at every call."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
            use_cache=False,
        )
    ).train()  # fmt: skip


def counted() -> list[str]:
    """Compare real storages with the prediction."""
    lines = ["134 M decoder, float32, batch 1 x 64: counted peak, and the prediction for it"]
    reference = 0
    for rival, (method, adapter) in RIVALS.items():
        model = decoder()
        if adapter is not None:
            put_adapter(model, read_adapter(adapter), (), seed=0)
        live = LiveBytes()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
        batch = _batch(1, 64)
        live.count([*model.parameters(), *model.buffers(), *batch.values()])
        gc.collect()
        with live, gg.Tuner(model, optimizer, method, total_steps=STEPS):
            for _ in range(STEPS):
                _step(model, optimizer, batch)
        guess = gg.estimate_memory(
            decoder(), method, adapter=adapter, batch_size=1, max_length=64, total_steps=STEPS,
        ).peak_bytes  # fmt: skip
        reference = reference or live.peak
        lines.append(
            f"  {rival:<28}{live.peak / 2**20:8.1f} MiB {live.peak / reference:6.3f}x   predicted / counted "
            f"{guess / live.peak:.4f}"
        )
    return lines


def timed(rounds: int) -> list[str]:
    """Time the median of several steps, so that each layer has its turn."""
    steps: dict[str, Callable[[], object]] = {}
    for rival, (method, adapter) in RIVALS.items():
        model = decoder()
        if adapter is not None:
            put_adapter(model, read_adapter(adapter), (), seed=0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
        gg.Tuner(model, optimizer, method, total_steps=10**6)
        steps[rival] = repeated(_stepper(model, optimizer), 6)
    times = medians(steps, rounds)
    reference = next(iter(times.values()))
    return [
        "134 M decoder, float32, batch 2 x 128: time of a step",
        *(f"  {rival:<28}{1e3 * each / 6:8.1f} ms  {each / reference:6.3f}x" for rival, each in times.items()),
    ]


def _stepper(model: Any, optimizer: torch.optim.Optimizer) -> Callable[[], object]:
    batch = _batch(2, 128)
    return lambda: _step(model, optimizer, batch)


def _step(model: Any, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> None:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def _batch(rows: int, tokens: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 32000, (rows, tokens), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "labels": ids.clone()}
