"""Read settings that have several values: seeds, training sizes, and lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from gradgate.errors import UsageError
from gradgate.settings.base import MOST_SEED

Value = TypeVar("Value")
ALL = "all"
MOST_SEEDS = 10_000


def several(given: Any) -> list[Any]:
    """Return one value or a sequence of them as a list; None as an empty one. Rows are one value."""
    if given is None:
        return []
    is_sequence = isinstance(given, Sequence) and not isinstance(given, str)
    return list(given) if is_sequence and not (given and isinstance(given[0], Mapping)) else [given]


def read_seeds(given: int | str | Sequence[int]) -> list[int]:
    """Return seeds from their number or from the seeds themselves.

    ``3`` is seeds 0, 1 and 2; ``"0,7,42"``, ``"7,"`` and ``[7]`` are taken as they are.

    Raises:
        UsageError: for anything else.
    """
    if isinstance(given, str):
        return _from_text(given, repr(given))
    given = _plain(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return _from_text(str(given), str(given))
    seeds = list(map(_plain, given)) if isinstance(given, Sequence) else []
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise UsageError(f"seeds={given!r}: expected a number of seeds (3) or a list of seeds ([0, 7, 42]).")
    return _from_text(f"{','.join(map(str, seeds))},", repr(seeds))


def _plain(given: Any) -> Any:
    """Return numbers and arrays of numpy as Python's; anything else as it is."""
    return given.tolist() if callable(getattr(given, "tolist", None)) else given


def _from_text(text: str, shown: str) -> list[int]:
    counted = not {"[", ","} & set(text)
    try:
        numbers = [int(word) for word in text.strip("[] ").removesuffix(",").split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or (counted and numbers == [0]):
        raise UsageError(
            f"seeds={shown}: expected a number of seeds (3) or a list of seeds (0,7,42; for one seed: 7,)."
        )
    if (numbers[0] if counted else len(numbers)) > MOST_SEEDS:
        raise UsageError(f"seeds={shown}: expected at most {MOST_SEEDS:,} seeds; for this one seed write {text},")
    if max(numbers) > MOST_SEED:
        raise UsageError(f"seeds={shown}: expected seeds of at most {MOST_SEED}. Pass a smaller one.")
    if (again := repeated(numbers)) is not None:
        raise UsageError(f"seeds={shown}: {again} is listed twice. List each seed once.")
    return list(range(numbers[0])) if counted else numbers


def repeated(values: Sequence[Value]) -> Value | None:
    """Return a value that is listed twice; None if each is listed once."""
    return next((value for place, value in enumerate(values) if value in values[:place]), None)


def read_train_sizes(given: object) -> list[int | None]:
    """Return ``500`` as 500 rows and ``all`` as None, of one value or several.

    Raises:
        UsageError: for anything else.
    """
    texts = [ALL if size is None else str(size) for size in several(given)]
    for text in texts:
        if text != ALL and not (text.isascii() and text.isdecimal() and int(text) > 0):
            raise UsageError(
                f"train_size={text!r}: expected a whole number, such as 10, or {ALL} for every row of the training set."
            )
    if (again := repeated(texts)) is not None:
        raise UsageError(f"train_size= lists {again} twice. List each size once.")
    return [None if text == ALL else int(text) for text in texts]


def read_search(given: object) -> list[str]:
    """Return what is searched as texts, ``"lr=1e-5,5e-5"``, from texts or from a mapping of names to values.

    Raises:
        UsageError: for a value in a mapping that is neither a number nor a text.
    """
    if not isinstance(given, Mapping):
        return several(given)
    tried = {name: [values] if values is None else several(_plain(values)) for name, values in given.items()}
    for name, values in tried.items():
        wrong = [value for value in map(_plain, values) if not isinstance(value, str | int | float)]
        if wrong:
            raise UsageError(
                f"search= has {wrong[0]!r:.40} for {name}; expected numbers or texts, such as "
                f"{{'lr': [1e-05, 5e-05]}}. Pass the values to try, each once."
            )
    return [f"{name}={','.join(map(str, values))}" for name, values in tried.items()]
