"""Provide the embedded sample, made by one seeded generator.

It has a small multilingual encoder with five tasks in ten languages, and a small decoder with a task of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODEL: Path = Path(__file__).parent / "model"
"""The encoder's folder, as ``AutoModel`` and ``AutoTokenizer`` load it."""

DECODER: Path = Path(__file__).parent / "decoder"
"""The decoder's folder, as ``AutoModelForCausalLM`` and ``AutoTokenizer`` load it."""

DATA: Path = Path(__file__).parent / "data"
"""A folder per task, with its ``task.yaml``: train and dev in English, test in every language."""

OTHER_TEXT: Path = DATA / "opinions.txt"
"""Text of another register than the decoder's task, one example per line: what it may forget."""

MODELS: dict[str, Path] = {"sample": MODEL, "sample-decoder": DECODER}
"""A model's name -> its folder."""

TASKS: dict[str, Path] = {
    "sample": DATA / "sentiment",
    "sample-nli": DATA / "nli",
    "sample-pos": DATA / "pos",
    "sample-ner": DATA / "ner",
    "sample-qa": DATA / "qa",
    "sample-generation": DATA / "generation",
}
"""A task's name -> its folder."""

TEXTS: dict[str, Path] = {"sample-opinions": OTHER_TEXT}
"""A name of running text -> its file."""

QUICKSTART_METHODS: tuple[str, ...] = ("full", "freeze:layers=2", "gradual:every=48")
"""Methods that ``gradgate quickstart`` compares."""

QUICKSTART_SEEDS: int = 5
"""Runs per method: enough for a significant difference between the first and the last (p = 0.001, Holm)."""

QUICKSTART_SETTINGS: dict[str, Any] = {"epochs": 3.0, "lr": 1e-3, "batch_size": 16, "max_length": 64}
"""Settings of its runs; the learning rate suits a model of this size."""

QUICKSTART_EXECUTION: dict[str, Any] = {"workers": 2, "threads": 1}
"""Workers and threads: two models of this size train faster with one thread each than in turn with two."""

GENERATION_METHODS: tuple[str, ...] = ("full", "freeze:layers=5", "lora:r=8,lr=1e-2")
"""Methods that ``gradgate quickstart --kind generation`` compares."""

GENERATION_SEEDS: int = 5
"""Runs per method."""

GENERATION_SETTINGS: dict[str, Any] = {
    "model": "sample-decoder",
    "task": "sample-generation",
    "forgetting": "sample-opinions",
    "steps": 30,
    "eval_every": 30,
    "lr": 2e-3,
    "batch_size": 16,
    "max_length": 64,
    "max_new_tokens": 24,
}
"""Settings of its runs."""

__all__ = [
    "DATA",
    "DECODER",
    "GENERATION_METHODS",
    "GENERATION_SEEDS",
    "GENERATION_SETTINGS",
    "MODEL",
    "MODELS",
    "OTHER_TEXT",
    "QUICKSTART_EXECUTION",
    "QUICKSTART_METHODS",
    "QUICKSTART_SEEDS",
    "QUICKSTART_SETTINGS",
    "TASKS",
    "TEXTS",
]
