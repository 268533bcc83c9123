"""Run the head of a masked language model only on the tokens that are to be filled in.

The others have no loss. With a vocabulary of 250,000 (XLM-R), their logits take more time and memory than the encoder.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gradgate.tasks.types import IGNORED
from gradgate.torch_state import preserved_state

_ROWS, _LENGTH, _FIRST = 2, 8, 5  # shape and first id of the batch that a head is tried on
_TOLERANCE = 1e-3  # wide enough for 16 bits; the loss of a head that needs all tokens differs by far more, or fails


def head_on_chosen(model: Any) -> bool:
    """Let the head of a masked language model see only the tokens that have a label.

    The loss and all gradients are the same up to rounding, and the logits have the shape (1, chosen tokens,
    vocabulary).

    Args:
        model: from transformers, with a head for masked words.

    Returns:
        True if it does; a model whose head needs all tokens, or takes no label, is left unchanged.
    """
    if model.base_model is model:
        return False
    chosen = _LabelledTokens()
    hooks = []
    with preserved_state(model, training=False):
        try:
            expected = _loss(model)
            hooks.append(model.register_forward_pre_hook(chosen.of_labels, with_kwargs=True))
            hooks.append(model.base_model.register_forward_hook(chosen.of_states))
            same = math.isclose(_loss(model), expected, rel_tol=_TOLERANCE)
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
            same = False  # a head of another kind, or a model that takes no input as short as this
    if not same:
        for hook in hooks:
            hook.remove()
    return same


def _loss(model: Any) -> float:
    """Return the loss of a small batch in which every other token is to be filled in."""
    ids = torch.arange(_FIRST, _FIRST + _ROWS * _LENGTH, device=model.device).view(_ROWS, _LENGTH)
    ids = ids % model.config.get_text_config().vocab_size
    labels = torch.where(ids % 2 == 0, ids, IGNORED)
    return float(model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss)


class _LabelledTokens:
    """Two hooks of one model: the first finds the tokens that have a label, the second takes their states."""

    def __init__(self) -> None:
        self._where: Tensor | None = None

    def of_labels(
        self, model: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        labels = named.get("labels")
        self._where = None if labels is None else labels != IGNORED
        return None if labels is None else (args, {**named, "labels": labels[self._where].unsqueeze(0)})

    def of_states(self, encoder: Any, args: tuple[Any, ...], output: Any) -> Any:
        where, self._where = self._where, None  # the encoder may also be called by itself
        if where is None:
            return None
        states = output[0][where].unsqueeze(0)
        if isinstance(output, tuple):
            return states, *output[1:]
        output[next(iter(output))] = states
        return output
