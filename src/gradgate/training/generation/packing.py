"""Pack several examples into a row, in models that keep them apart. Needs ``gradgate[llm]``."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from trl import pack_dataset
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from gradgate.errors import RunError
from gradgate.torch_state import preserved_state

_LENGTHS, _FIRST = (16, 8), 5  # lengths of the examples that are tried, and the first id
_NEAR = 0.25  # of what the examples change in each other; rounding in 16 bits is a tenth of that


def pack(features: Dataset, length: int) -> Dataset:
    """Pack several examples into each row of up to ``length`` tokens, as TRL does."""
    return pack_dataset(features.select_columns(["input_ids", "labels"]), length)


def packing_collator(padding: int) -> DataCollatorForLanguageModeling:
    """Return the collator that joins packed rows to one row, whose positions separate the examples."""
    return DataCollatorForLanguageModeling(padding, padding_free=True)


def check_packing(model: Any, name: str) -> None:
    """Check with two examples in one row that the second one does not read the first.

    A model has to conclude from positions that start again at 0 that another example begins. Many do, but those
    without attention, and those that take no positions, do not.

    Args:
        model: a decoder of transformers.
        name: of the model, for the message.

    Raises:
        RunError: if the second example's logits are not those that it has alone.
    """
    ids = torch.arange(_FIRST, _FIRST + sum(_LENGTHS)) % model.config.get_text_config().vocab_size
    first, second = ids.split(_LENGTHS)
    rows = [{"input_ids": part.tolist(), "labels": part.tolist()} for part in (first, second)]
    packed = {key: cells for key, cells in packing_collator(0)(rows).items() if key != "labels"}
    with preserved_state(model, training=False):
        alone = _logits(model, {"input_ids": second.unsqueeze(0)})
        joined = _logits(model, {"input_ids": packed["input_ids"]})[-len(second) :]
        try:
            apart = _logits(model, packed)[-len(second) :]
        except TypeError:  # it takes no positions
            apart = joined
    if (apart - alone).norm() > _NEAR * (joined - alone).norm():
        raise RunError(
            f"packing=True: in {name!r}, an example would read those that are packed before it, as a model of the kind "
            f"{model.config.model_type} does not separate them by their positions. Leave packing= out."
        )


def _logits(model: Any, inputs: dict[str, Any]) -> Tensor:
    """Return the logits of a batch of one row, of the shape (tokens, vocabulary), in float32."""
    here = {name: part.to(model.device) if isinstance(part, Tensor) else part for name, part in inputs.items()}
    logits: Tensor = model(**here, use_cache=False).logits
    return logits[0].float()
