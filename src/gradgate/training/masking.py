"""Masked texts whose order and masks are a function of seed and place, so that a training resumes exactly.

Masks drawn from a generator with a state would depend on how far ahead batches were fetched before a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

Row = Mapping[str, Sequence[int]]
_NUMBER = "number"


class Shuffled(Dataset[dict[str, Any]]):
    """So many rows as a training meets, in a fresh order for each pass over them; to be read in sequence.

    Args:
        rows: ``input_ids`` and what goes with them, by name.
        total: how many to give out; more than there are begins another pass.
        seed: of the orders.
    """

    def __init__(self, rows: Sequence[Row], total: int, seed: int) -> None:
        self._rows, self._total, self._seed = rows, total, seed
        self._order: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, number: int) -> dict[str, Any]:
        turn, place = divmod(number, len(self._rows))
        if self._order[0] != turn:
            self._order = turn, np.random.default_rng((self._seed, turn)).permutation(len(self._rows))
        return {**self._rows[int(self._order[1][place])], _NUMBER: number}


def in_order(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows to evaluate on, each as it is; their masks are the same each time, and no training row's."""
    return [{**row, _NUMBER: -1 - number} for number, row in enumerate(rows)]


class SeededMasking:
    """Makes batches for masked language modelling, as BERT has it: of the chosen tokens 80% are masked and 10% random.

    Args:
        tokenizer: with a mask token.
        probability: of each token to be chosen.
        seed: with the number of a batch's first row, of the choice.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, probability: float, seed: int) -> None:
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=probability)
        self._seed = seed

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        number = rows[0][_NUMBER]
        state = np.random.SeedSequence((self._seed, abs(number), int(number < 0))).generate_state(1, np.uint64)
        self._collator.generator = torch.Generator().manual_seed(int(state[0] >> 1))
        plain = [{name: value for name, value in row.items() if name != _NUMBER} for row in rows]
        batch: dict[str, Tensor] = dict(self._collator(plain))
        if bool((batch["labels"] == -100).all()):  # few short texts: a loss over nothing is no number
            place = min(1, len(plain[0]["input_ids"]) - 1)
            batch["labels"][0, place] = plain[0]["input_ids"][place]
        return batch
