"""Hugging Face's Trainer on a small model, stopped where a test wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from support.tiny_models import tiny_batch

ROWS, BATCH = 24, 4  # 6 steps an epoch


def rows(model: PreTrainedModel, count: int = ROWS) -> list[dict[str, Tensor]]:
    columns = tiny_batch(model, size=count)
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]


def trainer_of(
    model: PreTrainedModel, folder: Path, *callbacks: TrainerCallback, count: int = ROWS, **options: Any
) -> Trainer:
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": BATCH,
        "num_train_epochs": 2,
        "learning_rate": 1e-2,
        "weight_decay": 0.1,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "use_cpu": True,
        "seed": 3,
    }
    args = TrainingArguments(**settings | options)
    data = rows(model, count)
    return Trainer(model, args, train_dataset=data, eval_dataset=data[:8], callbacks=list(callbacks))


class StopAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt
