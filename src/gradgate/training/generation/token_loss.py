"""Compute the mean loss per token of a language model, independent of batches and processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gradgate.distributed import launch
from gradgate.tasks.types import IGNORED
from gradgate.training.generation.decoding import autocast_of

Row = Mapping[str, Sequence[int]]
"""``input_ids``, and ``labels`` of as many tokens, or in a model with an encoder of the response."""
Values = Callable[[Sequence[Tensor], Tensor], Tensor]
"""Takes the logits of each model for one row's labels that count, ``(tokens, vocabulary)``, and these labels; returns
one value per token."""


def blocks(ids: Sequence[int], length: int) -> list[list[int]]:
    """Split one text into blocks of at most ``length`` tokens.

    A block begins with the last token of the previous one, as context only, so that each token but the first is
    predicted exactly once.
    """
    starts = range(0, len(ids) - 1, length - 1)
    return [list(ids[start : start + length]) for start in starts]


def mean_token_loss(model: Any, rows: Sequence[Row], batch_size: int, padding: int, precision: str) -> float:
    """Return the mean negative log-likelihood of all labels that count, in nats.

    A mixture's loss that balances its experts is left out. The arguments are those of :func:`mean_over_tokens`.
    """
    return mean_over_tokens((model,), _losses, rows, batch_size, padding, precision)


def mean_over_tokens(
    models: Sequence[Any], values: Values, rows: Sequence[Row], batch_size: int, padding: int, precision: str
) -> float:
    """Return the mean of a value over all labels that count.

    Rows are padded on the right, and padding does not count. Sums are in float64, in the order of the batches, so that
    they do not depend on the number of processes.

    Args:
        models: in evaluation mode, on one device; each process calls this with the models or their shards.
        values: of the tokens of a row.
        rows: at least one with a label that counts.
        batch_size: rows in a forward pass.
        padding: id of the padding token.
        precision: of the forward pass, as of a run.
    """
    device = next(models[0].parameters()).device
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]["input_ids"]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    sums_of: dict[int, tuple[float, int]] = {}
    with torch.no_grad(), torch.autocast(device.type, **autocast_of(precision)):
        for number in launch.share(range(len(batches))):
            sums_of[number] = _summed(models, values, [rows[row] for row in batches[number]], padding, device)
    together = {number: sums for part in launch.gather(sums_of) for number, sums in part.items()}
    total = sum(together[number][0] for number in range(len(batches)))
    return total / sum(together[number][1] for number in range(len(batches)))


def _summed(
    models: Sequence[Any], values: Values, rows: Sequence[Row], padding: int, device: torch.device
) -> tuple[float, int]:
    """Return the sum of the values of a batch, and its number of tokens."""
    ids = _padded([row["input_ids"] for row in rows], padding).to(device)
    mask = _padded([[1] * len(row["input_ids"]) for row in rows], 0).to(device)
    labels = _padded([row["labels"] for row in rows], IGNORED).to(device)
    logits = [_logits(model, ids, mask, labels) for model in models]
    if not models[0].config.is_encoder_decoder:
        labels = labels[:, 1:]
    total = torch.zeros((), dtype=torch.float64, device="cpu")
    for number, wanted in enumerate(labels):  # row by row: a float32 copy of a batch may not fit
        counts = wanted != IGNORED
        found = values([scores[number][counts] for scores in logits], wanted[counts])
        total += found.cpu().double().sum()
    return float(total), int((labels != IGNORED).sum())


def _logits(model: Any, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Return the logits that predict the labels; for a decoder, those of all tokens but the first."""
    if model.config.is_encoder_decoder:
        of_labels: Tensor = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).logits
        return of_labels
    of_tokens: Tensor = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    return of_tokens


def _losses(logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    (scores,) = logits
    return functional.cross_entropy(scores.float(), labels, reduction="none")


def _padded(rows: Sequence[Sequence[int]], filling: int) -> Tensor:
    """Return rows as one tensor of shape ``(rows, tokens of the longest)``."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filling] * (width - len(row))] for row in rows])
