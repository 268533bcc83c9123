"""What kinds share whose model gives one label, out of those of the task, to a row of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from datasets import Dataset

from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.labels import head_of, labels_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gradgate.tasks.data import TaskData


class OneLabel:
    """The head, and the features that it takes."""

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification  # type: ignore[no-any-return]

    def num_outputs(self, data: TaskData) -> int:
        return len(labels_of(data))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {**head_of(labels_of(data)), "problem_type": "single_label_classification"}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        return sequence.encode(dataset, tokenizer, max_length, "int64")

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]
