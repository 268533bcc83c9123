"""Seeds, training sizes and stores, as they are typed and as Python has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

from gradgate.errors import UsageError, nearest
from gradgate.settings.base import MOST_SEED
from gradgate.settings.run import RunConfig

ALL = "all"
STORE_VARIABLE = "GRADGATE_STORE"
_MOST_SEEDS = 10_000


def chosen_seeds(given: int | str | Sequence[int]) -> list[int]:
    """How many seeds, or the seeds themselves.

    Raises:
        UsageError: for anything else.
    """
    if isinstance(given, str):
        return read_seeds(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return read_seeds(str(given))
    seeds = list(given) if isinstance(given, Sequence) else []
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise UsageError(f"seeds={given!r}: expected how many (3) or a list of seeds ([0, 7, 42]).")
    return read_seeds(f"{','.join(map(str, seeds))},")


def read_seeds(text: str) -> list[int]:
    """``3`` as seeds 0, 1 and 2; ``0,7,42`` or ``7,`` as they are.

    Raises:
        UsageError: for anything else.
    """
    counted = not {"[", ","} & set(text)
    try:
        numbers = [int(word) for word in text.strip("[] ").removesuffix(",").split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or (counted and numbers == [0]):
        raise UsageError(f"--seeds {text!r}: expected how many (3) or a list of seeds (0,7,42; for one seed: 7,).")
    if (numbers[0] if counted else len(numbers)) > _MOST_SEEDS:
        raise UsageError(f"--seeds {text!r}: expected at most {_MOST_SEEDS:,} seeds; for this one seed write {text},")
    if max(numbers) > MOST_SEED:
        raise UsageError(f"--seeds {text!r}: expected seeds of at most {MOST_SEED}. Give a smaller one.")
    return list(range(numbers[0])) if counted else numbers


def read_train_sizes(given: Sequence[int | str]) -> list[int | None]:
    """``500`` as 500 rows, ``all`` as None.

    Raises:
        UsageError: for anything else.
    """
    texts = [str(size) for size in given]
    wrong = [text for text in texts if text != ALL and not (text.isascii() and text.isdecimal() and int(text) > 0)]
    if wrong:
        raise UsageError(
            f"Invalid value for '--train-size': {wrong[0]!r}; expected a whole number, such as 10, or {ALL} for every "
            f"row of the training set."
        )
    return [None if text == ALL else int(text) for text in texts]


def read_stores(texts: Sequence[str]) -> tuple[str | None, str | None]:
    """How runs keep their models, and the address of the queue's database; None for what is not among the texts.

    The address may also be in the environment.

    Raises:
        UsageError: for anything else, or two of a kind.
    """
    forms = get_args(RunConfig.model_fields["store"].annotation)
    wrong = [text for text in texts if text not in forms and "://" not in text]
    if wrong:
        raise UsageError(
            f"--store {wrong[0]!r}: expected {', '.join(forms)}, or the address of a database server such as "
            f"postgresql+psycopg://user:password@host/database.{nearest(wrong[0], forms)}"
        )
    kept, addresses = [text for text in texts if text in forms], [text for text in texts if text not in forms]
    for given in (kept, addresses):
        if len(given) > 1:
            raise UsageError(f"--store was given as {' and '.join(given)}; expected one of them. Leave the other out.")
    return next(iter(kept), None), next(iter(addresses), os.environ.get(STORE_VARIABLE))
