"""Tell which split the name of a file, folder or key, or the cell of a column, means."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradgate.tasks.types import DEV, SPLIT_WORDS, TEST

_SURE = {**SPLIT_WORDS, "dev_matched": DEV, "validation_matched": DEV}
# In transformers eval is what selects, in speech what is scored at the end.
_UNSURE = {
    "eval": DEV, "evaluation": DEV, "holdout": TEST, "hold_out": TEST, "heldout": TEST, "held_out": TEST,
}  # fmt: skip
_OF_ITS_OWN = re.compile(r"test_\w+")
_BETWEEN = re.compile(r"[\s-]+")
WORDS = (*_SURE, *_UNSURE)
"""The words that mean a split, in lower case and with ``_`` between them."""
EXPECTED = "train, dev (or val, validation, eval) or test (or holdout, test_hard and the like)"


def by_split(words: Iterable[str], *, others: bool = False) -> dict[str, list[str]]:
    """Return each split with the words that mean it, in their order; several are for the caller to refuse.

    ``test_hard`` is a test split of its own, and so is ``eval`` next to another word for dev, or ``holdout`` next to
    ``test``: rows that somebody held out are scored by themselves, and never trained on.

    Args:
        words: in upper or lower case, with spaces, ``-`` or ``_``.
        others: whether each other word is a split of its own, under its own name; else they are left out.
    """
    plain = {word: _BETWEEN.sub("_", word.strip().lower()) for word in dict.fromkeys(words)}
    sure = {_SURE.get(name) for name in plain.values()}
    found: dict[str, list[str]] = {}
    for word, name in plain.items():
        split = _SURE.get(name) or (name if _OF_ITS_OWN.fullmatch(name) else None)
        if split is None and name in _UNSURE:
            split = name if _UNSURE[name] in sure else _UNSURE[name]
        if split is not None or others:
            found.setdefault(split or word, []).append(word)
    return found
