"""Compare memory estimates with what others measured on GPUs: PEFT's suite (one decoder), Quick-Tune (images).

Nothing is trained. PEFT's suite has the mean memory allocated after a step: weights, gradients, optimizer states, and
whatever of the step is still referenced. Quick-Tune has the peak of a whole run on an RTX 2080 Ti, for models of timm;
those that transformers has are built with their sizes. If a regularizer stores a second copy of the model, the
estimate has it, but not what else it computes. Shares far below one belong to runs whose memory their settings do not
explain, such as 9.5 GB for two images: perhaps an attempt with a larger batch.
"""

from __future__ import annotations

import csv
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from peft import get_peft_model
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

import gradgate as gg

_MB = 10**6
_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adamp": torch.optim.AdamW,  # the same states
    "sgd": torch.optim.SGD,
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
}
_BEIT = {"layer_scale_init_value": 0.1, "use_mean_pooling": True, "patch_size": 16}
_DEIT = _BEIT | {"use_absolute_position_embeddings": True, "use_mean_pooling": False, "image_size": 384}
_MOBILE = {"image_size": 256, "expand_ratio": 2.0}
_VISION: dict[str, tuple[str, dict[str, Any]]] = {
    "beit_base_patch16_384": ("Beit", _BEIT | {"image_size": 384, "use_relative_position_bias": True}),
    "beit_large_patch16_512": (
        "Beit",
        _BEIT
        | {"image_size": 512, "use_relative_position_bias": True, "hidden_size": 1024, "num_hidden_layers": 24}
        | {"num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "deit3_small_patch16_384_in21ft1k": (
        "Beit",
        _DEIT | {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},
    ),
    "convnext_small_384_in22ft1k": ("ConvNext", {"image_size": 384, "depths": [3, 3, 27, 3]}),
    "swinv2_base_window12to24_192to384_22kft1k": (
        "Swinv2",
        {"image_size": 384, "embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 24},
    ),
    "mobilevit_xs": (
        "MobileViT",
        _MOBILE | {"expand_ratio": 4.0, "hidden_sizes": [96, 120, 144]}
        | {"neck_hidden_sizes": [16, 32, 48, 64, 80, 96, 384]},
    ),
    "mobilevit_xxs": (
        "MobileViT",
        _MOBILE | {"hidden_sizes": [64, 80, 96], "neck_hidden_sizes": [16, 16, 24, 48, 64, 80, 320]},
    ),
    "mobilevitv2_075": ("MobileViTV2", {"image_size": 256, "width_multiplier": 0.75}),
    "tf_efficientnet_b4_ns": (
        "EfficientNet", {"image_size": 380, "width_coefficient": 1.4, "depth_coefficient": 1.8, "hidden_dim": 1792},
    ),
    "tf_efficientnet_b6_ns": (
        "EfficientNet", {"image_size": 528, "width_coefficient": 1.8, "depth_coefficient": 2.6, "hidden_dim": 2304},
    ),
    "tf_efficientnet_b7_ns": (
        "EfficientNet", {"image_size": 600, "width_coefficient": 2.0, "depth_coefficient": 3.1, "hidden_dim": 2560},
    ),
}  # fmt: skip


def run() -> list[str]:
    """Return both tables; a note if the results of others are not there."""
    results = Path(os.environ.get("GRADGATE_SHARED", "../shared"), "results")
    if not results.is_dir():
        return [f"{results} is absent; GRADGATE_SHARED names the folder that has results/"]
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    return [*after_steps(results / "peft-metamathqa"), "", *peaks(results / "quicktune-memory" / "memory.csv")]


def after_steps(folder: Path) -> list[str]:
    """Compare what is allocated after a step, in 65 runs of one library version, one row per kind of adapter."""
    last = {row["run"]: row["memory_allocated_avg_bytes"] for row in _rows(folder / "curves.csv")}
    rows = [row for row in _rows(folder / "runs.csv") if row["created"] >= "2026-07" and last.get(row["run"])]
    left: list[str] = []
    found: list[tuple[str, int, float, str]] = []
    for row in rows:
        try:
            model = _llama(row)
            state = _state(model)
        except Exception as error:  # each kind of PEFT has errors of its own on tensors without values
            left.append(f"  {row['run']} {row['peft_type']}: {str(error).splitlines()[0][:90]}")
            continue
        learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
        differs = "" if learning == int(row["trainable_parameters"]) else f"stated {row['trainable_parameters']}"
        found.append((f"{row['run']} {row['peft_type']}", state, float(last[row["run"]]), differs))
    constant = median(measured - state for _, state, measured, _ in found)
    off = [abs(measured - state - constant) / measured for _, state, measured, _ in found]
    lines = [
        f"PEFT's suite, Llama-3.2-3B in bfloat16: {len(found)} of {len(rows)} states estimated; measured less estimate "
        f"is {constant / _MB:,.0f} MB in the median",
        f"after this constant: within 0.1 % {_count(off, 0.001)}, within 1 % {_count(off, 0.01)}, within 5 % "
        f"{_count(off, 0.05)} of {len(off)}; the others:",
    ]
    for (name, state, measured, differs), share in zip(found, off, strict=True):
        if share > 0.001:
            rest = (measured - state - constant) / _MB
            lines.append(f"  {name:<20}{measured / _MB:>10,.0f} MB, rest {rest:>+8,.0f} MB  {differs}".rstrip())
    return [*lines, "not estimated:", *left]


def peaks(file: Path) -> list[str]:
    """Compare peaks of runs that began with their final batch size, in which all layers or the head alone learn."""
    rows = [row for row in _rows(file) if row["retried"] == "0"]
    built = [row for row in rows if row["model"] in _VISION]
    compared = [row for row in built if row["frozen_share"] in ("0", "1")]
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    known: dict[tuple[str, ...], tuple[int, int]] = {}
    for row in compared:
        setting = tuple(row[name] for name in ("model", "frozen_share", "batch_size_used", "amp", "optimizer"))
        if setting not in known:
            known[setting] = _peak(row)
        peak, weights = known[setting]
        has_copy = any(float(row[name] or 0) > 0 for name in ("delta_reg", "cotuning_reg"))
        learning = "head" if row["frozen_share"] == "1" else "all"
        key = (row["model"], learning, "with copy" if has_copy else "plain")
        ratios[key].append((peak + (weights if has_copy else 0)) / float(row["peak_allocated_bytes"]))
    lines = [
        f"Quick-Tune: {len(rows)} peaks of runs without a second attempt, {len(built)} of models in transformers, "
        f"{len(compared)} of these with all or the head learning; estimate / measured, median (least to most)"
    ]
    for (model, learning, kind), values in sorted(ratios.items(), key=lambda each: (each[0][2] != "plain", each[0])):
        lines.append(
            f"  {model:<44}{learning:<6}{kind:<11}{len(values):>3}   {median(values):.2f} "
            f"({min(values):.2f} to {max(values):.2f})"
        )
    return lines


def _llama(row: dict[str, str]) -> Any:
    """Build the shape of Llama-3.2-3B with the adapter of a run, without values."""
    config = transformers.LlamaConfig(
        vocab_size=128_256, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=131_072, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        if row["peft_type"] == "FULL":
            return model
        made = PEFT_TYPE_TO_CONFIG_MAPPING[row["peft_type"]]
        names = {each.name for each in fields(made)}
        given: dict[str, Any] = json.loads(row["other"] or "{}")
        numbers = {("r" if "r" in names else "rank"): row["rank"], "lora_alpha": row["alpha"], "alpha": row["alpha"]}
        given |= {name: int(text) for name, text in numbers.items() if text and name not in given}
        given |= {"target_modules": row["targets"].split("|")} if row["targets"] else {}
        asked = {name: value for name, value in given.items() if name in names}
        cast = row["autocast_adapter_dtype"] == "1"
        return get_peft_model(model, made(task_type="CAUSAL_LM", **asked), autocast_adapter_dtype=cast)


def _state(model: Any) -> int:
    """Return the bytes of weights, of gradients, and of AdamW's states."""
    usage = gg.estimate_memory(model, "full", batch_size=1, max_length=16, master="none").worst.usage
    gradients = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return int(usage.weights + usage.optimizer) + gradients


def _peak(row: dict[str, str]) -> tuple[int, int]:
    """Return the estimated peak and the weights' bytes of a setting."""
    family, sizes = _VISION[row["model"]]
    config = getattr(transformers, f"{family}Config")(**sizes, num_labels=int(row["classes"]))
    config._attn_implementation = "eager"  # timm of that time had no fused attention
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForImageClassification")(config)
    method = "head" if row["frozen_share"] == "1" else "full"
    estimate = gg.estimate_memory(
        model,
        method,
        batch_size=int(row["batch_size_used"]),
        precision="fp16" if row["amp"] == "1" else "fp32",
        optim=_OPTIMIZERS[row["optimizer"]],
    )
    return estimate.peak_bytes, int(estimate.worst.usage.weights)


def _count(values: Iterable[float], most: float) -> int:
    return sum(value <= most for value in values)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))
