"""Say at which learning rates an arm and full fine-tuning were compared, and which of them a reader should try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from evidence.searches import ROWS
from evidence.studies import Study
from gradgate.study.search import read_space

_HALF_A_DECADE = (2.5, 5)
"""The least and the largest factor between rates like 1e-5, 3e-5 and 1e-4."""


@dataclass(frozen=True)
class ComparedRates:
    """The learning rates of one comparison.

    Attributes:
        tried: by either arm, the lowest first.
        arm: what the arm took, one per size of the training set; empty if no committed file has it.
        full: what full fine-tuning took, likewise.
    """

    tried: tuple[float, ...]
    arm: tuple[float, ...] = ()
    full: tuple[float, ...] = ()


def study_rates(study: Study, arm: str, full: str) -> ComparedRates:
    """Return the rates of an arm of a study and of its full fine-tuning."""
    texts = study.compare.get("search")
    if not texts:
        rate = float(study.compare["lr"])
        return ComparedRates((rate,), (rate,), (rate,))
    tried = sorted({float(setting["lr"]) for setting in read_space(texts, seeds=1).settings})
    chosen = [run for run in ROWS.read(study.search) if run.chosen] if study.search.exists() else []
    taken = (tuple(dict.fromkeys(run.lr for run in chosen if run.arm == name)) for name in (arm, full))
    return ComparedRates(tuple(tried), *taken)


def rate_to_take(taken: Sequence[float]) -> float | None:
    """Return the middle one of the rates that an arm took; None if none is known."""
    return median_low(taken) if taken else None


def rates_to_try(comparisons: Sequence[ComparedRates]) -> tuple[float, ...]:
    """Return a short range to search: the rates that both arms took, and the next lower and higher one.

    All rates that were tried, and one more at each end, if no committed file has those that the arms took; none
    without comparisons.
    """
    known = [each for each in comparisons if each.arm and each.full]
    tried = sorted({rate for each in known or comparisons for rate in each.tried})
    if not tried:
        return ()
    taken = [rate for each in known for rate in (*each.arm, *each.full)] or tried
    wider = _widened(tried)
    return tuple(wider[wider.index(min(taken)) - 1 : wider.index(max(taken)) + 2])


def _widened(rates: Sequence[float]) -> list[float]:
    """Return rates with one more at each end: in steps of half a power of ten if they have such, else thrice as far."""
    least, largest = _HALF_A_DECADE
    if len(rates) < 2 or not all(least <= high / low <= largest for low, high in pairwise(rates)):
        return [float(f"{rates[0] / 3:.1g}"), *rates, float(f"{rates[-1] * 3:.2g}")]
    return [float(f"{rates[1] / 10:.2g}"), *rates, float(f"{rates[-2] * 10:.2g}")]
