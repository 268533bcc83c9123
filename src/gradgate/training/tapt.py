"""Task-adaptive pre-training: the adapter first learns to fill in masked words of the task's own training texts.

AdapterEff (He et al. 2021), Sec. 3.1: https://arxiv.org/abs/2106.03164; Gururangan et al. 2020:
https://arxiv.org/abs/2004.10964. Labels, dev and test texts are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from gradgate.training.adapted import NAME
from gradgate.training.adapter_choice import read_choice
from gradgate.training.config import RunConfig
from gradgate.training.folder import RunFolder
from gradgate.training.masked_stage import Stage, train_masked
from gradgate.training.masking import Row
from gradgate.training.progress import RunProgress

PROBABILITY = 0.15
_PER_TOKEN = ("input_ids", "token_type_ids")


@dataclass(frozen=True)
class _Settings:
    """The run that an adapter is trained for: its method does not matter."""

    config: RunConfig

    def record(self) -> dict[str, Any]:
        return {name: value for name, value in self.config.record().items() if name != "method"}


def adapt(config: RunConfig, tokenizer: Any, features: Any, folder: Path, progress: RunProgress, stop: Event) -> None:
    """Train the run's adapter on the texts of its training split; what is done already is not done again.

    The adapter is then in ``folder/task``, as :func:`gradgate.adapters.restore` reads it.

    Args:
        config: of the run; learning rate, batch size, schedule and seed hold here too.
        features: the encoded training split, of which the token ids are read, as long as the run's ``max_length``.
    """
    choice = read_choice(config.adapter or "")
    length = config.model_copy(update={**(config.tapt or {}), "lr": config.peak_lr, "adapter": None})
    stage = Stage(length, _Settings(config), NAME, choice.kind, PROBABILITY, list(_rows(features)))
    progress.note("First the adapter learns from the task's texts (TAPT).")
    train_masked(stage, tokenizer, RunFolder(folder), folder / NAME, progress, stop)


def _rows(features: Any) -> Iterator[Row]:
    """The token ids of each text; of multiple choice, of each text with each choice."""
    names = [name for name in _PER_TOKEN if name in features.column_names]
    for row in features.select_columns(names):
        if row["input_ids"] and isinstance(row["input_ids"][0], list):
            yield from ({name: row[name][choice] for name in names} for choice in range(len(row["input_ids"])))
        else:
            yield row
