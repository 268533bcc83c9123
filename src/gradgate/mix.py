"""How often each of several tasks comes when they are trained together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.errors import UsageError

SIZE, TEMPERATURE = "size", "temperature"


@dataclass(frozen=True)
class Mix:
    """Shares of tasks in the training.

    Args:
        temperature: task i is drawn with probability ``n_i^(1/T) / sum_j n_j^(1/T)`` for each batch, ``n`` being the
            numbers of training examples: 1 is in proportion to size, more is flatter. None takes each batch of each
            task once an epoch, so that shares are those of size exactly.

    Source:
        None: MT-DNN, Liu et al. 2019, Algorithm 1, https://aclanthology.org/P19-1441. Temperature: as multilingual
        BERT and Arivazhagan et al. 2019, Sec. 4, https://arxiv.org/abs/1907.05019.
    """

    temperature: float | None = None

    @property
    def text(self) -> str:
        """As :func:`read_mix` reads it."""
        return SIZE if self.temperature is None else f"{TEMPERATURE}:{self.temperature:g}"

    def probabilities(self, sizes: Sequence[int]) -> list[float]:
        """The expected share of each task, of which each has so many training examples."""
        scaled = [math.log(size) / (self.temperature or 1.0) for size in sizes]
        weights = [math.exp(value - max(scaled)) for value in scaled]
        return [weight / sum(weights) for weight in weights]


def read_mix(text: str) -> Mix:
    """The mix that ``size`` or ``temperature:2`` means.

    Raises:
        UsageError: for anything else, or a temperature that is not above 0.
    """
    word, colon, number = text.replace(" ", "").partition(":")
    if word == SIZE and not colon:
        return Mix()
    try:
        temperature = float(number)
    except ValueError:
        temperature = math.nan
    if word != TEMPERATURE or not 0 < temperature < math.inf:
        raise UsageError(f"mix={text!r}: expected size, or temperature:T with T above 0, as in temperature:2.")
    return Mix(temperature)
