"""Batches of features, padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradgate.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


def pad(features: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """A batch padded at its end, whichever side the tokenizer pads: outputs are read by position.

    Raises:
        RunError: the tokenizer has no padding token.
    """
    check_padding(tokenizer)
    return dict(tokenizer.pad(features, padding_side="right", return_tensors="pt"))


def check_padding(tokenizer: PreTrainedTokenizerBase) -> None:
    """RunError for a tokenizer without a padding token."""
    if tokenizer.pad_token is None:
        raise RunError(
            f"The tokenizer {tokenizer.name_or_path or type(tokenizer).__name__} has no padding token. Set "
            "tokenizer.pad_token (often to tokenizer.eos_token) and model.config.pad_token_id before training"
        )
