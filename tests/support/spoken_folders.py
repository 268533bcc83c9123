"""A task in three languages and language adapters for them, written to folders as a user would have them."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from gradgate import adapters
from support.tiny_folders import save_texts

KINDS = {"en": "pfeiffer+inv", "de": "pfeiffer+inv", "sw": "pfeiffer"}
"""Language to the kind of its adapter."""
_TASK = """
languages: [en, de, sw]
files: {train: train.tsv, dev: dev.tsv, test: "{language}.tsv"}
"""


def save_spoken_task(folder: Path) -> Path:
    """A task with the same rows in each language, so that scores differ by their language adapters alone."""
    folder.mkdir(exist_ok=True)
    save_texts(folder)
    for code in ("de", "sw"):
        shutil.copy(folder / "test.tsv", folder / f"{code}.tsv")
    (folder / "test.tsv").rename(folder / "en.tsv")
    (folder / "task.yaml").write_text(_TASK)
    return folder


def save_language_adapters(model: Path, folder: Path) -> Path:
    """One adapter for each language, which changes what the model gives."""
    for seed, (code, kind) in enumerate(KINDS.items()):
        save_language_adapter(model, folder / code, kind, seed)
    return folder


def save_language_adapter(model: Path, folder: Path, kind: str, seed: int) -> None:
    """An adapter of large random weights."""
    host = AutoModelForSequenceClassification.from_pretrained(model)
    adapters.add(host, "lang", kind, train=False, seed=seed)
    with torch.no_grad():
        for parameter in adapters.parameters(host, "lang"):
            parameter.mul_(40)
    adapters.save(host, "lang", folder, head=False)
