"""Time an epoch with the lowest layers closed, with and without the activation cache, in Trainer: MRPC, batch 16.

The floor is a model with only the open layers, which never runs the closed ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Condition, Thread
from time import perf_counter, process_time
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import gradgate as gg
from benchmarks.models import encoder

BATCH, TEXTS = 16, 192
FLOOR = "floor: open layers alone"
DIVIDES_BY_OURS = True
DEPTHS = ((12, 9), (6, 3), (6, 4))  # layers, and how many of them are closed


def run(rounds: int = 4) -> list[str]:
    """Return a table per depth: medians of the epochs after the first, which fills the cache; wall and CPU time."""
    shared = Path(os.environ.get("GRADGATE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (shared / "data/glue/MRPC").is_dir() or not (shared / "models/all-MiniLM-L6-v2").is_dir():
        return [f"skipped: no real texts at {shared}; set GRADGATE_SHARED"]
    texts, tokenizer = _texts(shared)
    return [line for depth in DEPTHS for line in _at(*depth, texts, tokenizer, rounds)]


def _at(layers: int, closed: int, texts: Any, tokenizer: Any, rounds: int) -> list[str]:
    method = f"freeze:layers={closed}"
    with TemporaryDirectory() as folder:
        cache = gg.ActivationCache(folder=Path(folder) / "cache")
        rivals: dict[str, Callable[[Any], Any]] = {
            "full": lambda model: [],
            "by hand in Trainer": partial(_freeze, closed),
            method: lambda model: [gg.GateCallback(method)],
            "with the cache": lambda model: [gg.GateCallback(method, activation_cache=cache)],
            FLOOR: partial(_keep_open_layers, closed),
        }
        turns = _Turns(list(rivals))
        threads = [
            Thread(target=_train, args=(name, layers, prepare, texts, tokenizer, turns, rounds, folder))
            for name, prepare in rivals.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [f"{closed} of {layers} layers closed", *_report(turns.seconds)]


def _report(seconds: dict[str, list[tuple[float, float]]]) -> list[str]:
    epochs = {name: _medians(times[1:]) for name, times in seconds.items()}
    epochs["filling the cache"] = seconds["with the cache"][0]
    wall, busy = epochs["with the cache"]
    return [
        f"  {name:<24}{mine:8.2f} s an epoch {mine / wall:6.2f}x   processor {own:8.2f} s {own / busy:6.2f}x"
        for name, (mine, own) in epochs.items()
    ]


def _medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    return median(wall for wall, _ in times), median(busy for _, busy in times)


class _Turns:
    """Lets the rivals take turns of one epoch each, so that a slow moment of the machine affects all of them."""

    def __init__(self, names: list[str]) -> None:
        self.seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        self._waiting = list(names)
        self._changed = Condition()

    def wait(self, name: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[0] == name)

    def end(self, name: str) -> None:
        with self._changed:
            self._waiting = [*self._waiting[1:], name]
            self._changed.notify_all()

    def leave(self, name: str) -> None:
        with self._changed:
            self._waiting.remove(name)
            self._changed.notify_all()


class _Epochs(TrainerCallback):  # type: ignore[misc]
    def __init__(self, name: str, turns: _Turns) -> None:
        self.name, self.turns, self.start = name, turns, (0.0, 0.0)

    def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
        self.turns.wait(self.name)
        self.start = perf_counter(), process_time()

    def on_epoch_end(self, *args: Any, **kwargs: Any) -> None:
        wall, busy = self.start
        self.turns.seconds[self.name].append((perf_counter() - wall, process_time() - busy))
        self.turns.end(self.name)


def _train(
    name: str,
    layers: int,
    prepare: Callable[[Any], Any],
    texts: Any,
    tokenizer: Any,
    turns: _Turns,
    rounds: int,
    folder: str,
) -> None:
    try:
        turns.wait(name)
        torch.manual_seed(0)
        model = encoder(layers)
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                per_device_train_batch_size=BATCH,
                num_train_epochs=rounds,
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
                dataloader_pin_memory=False,
            ),
            data_collator=DataCollatorWithPadding(tokenizer),
            train_dataset=texts,
            callbacks=[*prepare(model), _Epochs(name, turns)],
        )
        trainer.remove_callback(PrinterCallback)
        turns.end(name)
        trainer.train()
    finally:
        turns.leave(name)


def _freeze(closed: int, model: BertForSequenceClassification) -> list[Any]:
    for module in (model.bert.embeddings, *model.bert.encoder.layer[:closed]):
        module.requires_grad_(False)
    return []


def _keep_open_layers(closed: int, model: BertForSequenceClassification) -> list[Any]:
    model.bert.embeddings.requires_grad_(False)
    del model.bert.encoder.layer[:closed]
    return []


def _texts(shared: Path) -> tuple[list[dict[str, Any]], Any]:
    tokenizer = AutoTokenizer.from_pretrained(shared / "models/all-MiniLM-L6-v2")
    lines = (shared / "data/glue/MRPC/train.tsv").read_text(encoding="utf-8").splitlines()[1 : TEXTS + 1]
    columns = [line.split("\t") for line in lines]
    encoded = tokenizer([c[-2] for c in columns], [c[-1] for c in columns], truncation=True, max_length=128)
    return [
        {name: encoded[name][row] for name in ("input_ids", "token_type_ids", "attention_mask")}
        | {"labels": int(columns[row][0])}
        for row in range(len(columns))
    ], tokenizer
