"""Take the spellings of one label, such as ``1`` and ``1.0``, for one label."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d*)?")  # 01 and 1 stay apart: codes are written so
_WHOLE = re.compile(r"-?\d+")
_TRUTHS = {"true": 1.0, "false": 0.0}

Key = float | str


@dataclass(frozen=True)
class Spelling:
    """The labels of a task by what they mean: a whole number has one name however it is written, and so has a boolean.

    Other numbers stay as they are written, as 1.1 and 1.10 may be sections or versions.

    Attributes:
        names: whole number, or lower-case truth value -> the label's name.
        truths_are_numbers: whether ``true`` and ``false`` mean 1 and 0, as they do unless another number is a label.
    """

    names: dict[Key, str]
    truths_are_numbers: bool

    @classmethod
    def of(cls, words: Iterable[str]) -> Spelling:
        """Return the spelling of some labels.

        A whole number has the shortest of its spellings; if all numbers are whole and some are written so, all are.
        """
        known = set(words)
        numbers = {word: float(word) for word in known if _NUMBER.fullmatch(word)}
        spelling = cls({}, set(numbers.values()) <= {0.0, 1.0})
        groups: dict[Key, list[str]] = defaultdict(list)
        for word in known:
            key = spelling._key(word)
            if key is not None:
                groups[key].append(word)
        whole = any(map(_WHOLE.fullmatch, numbers)) and all(value.is_integer() for value in numbers.values())
        for key, group in groups.items():
            shortest = min(group, key=lambda word: (word not in numbers, len(word), not word.islower(), word))
            spelling.names[key] = str(int(key)) if whole and isinstance(key, float) else shortest
        return spelling

    def name(self, word: str) -> str:
        """Return the name of the label that a word spells; the word itself if it spells none."""
        key = self._key(word)
        return word if key is None else self.names.get(key, word)

    def _key(self, word: str) -> Key | None:
        """Return what a word means; None if it is a name like any other."""
        if _NUMBER.fullmatch(word):
            number = float(word)
            return number if number.is_integer() else None
        lower = word.lower()
        if lower not in _TRUTHS:
            return None
        return _TRUTHS[lower] if self.truths_are_numbers else lower
