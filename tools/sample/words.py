"""Represent words with their gold labels, and the text that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tools.sample.frames import Role

OPENING = frozenset("¿")
CLOSING = frozenset(".,;?!।。，？；")


@dataclass(frozen=True)
class Word:
    """One word of a sentence.

    Args:
        text: as written inside a sentence; one that ends in an apostrophe has no space after it.
        tag: universal part of speech.
        entity: its IOB2 tag.
        role: what the phrase that it belongs to is in an event.
    """

    text: str
    tag: str
    entity: str = "O"
    role: Role | None = None


def noted(entries: str) -> list[Word]:
    """Parse the words of a lexicon's entry such as ``in/ADP summer/NOUN``."""
    return [Word(text, tag) for text, tag in (entry.split("/") for entry in entries.split())]


def tagged(text: str, tag: str) -> list[Word]:
    """Return one word per part between spaces, all of the same part of speech."""
    return [Word(part, tag) for part in text.split()]


def entity(words: Sequence[Word], kind: str) -> list[Word]:
    """Mark the words as one named entity."""
    return [replace(word, entity=f"{'I' if place else 'B'}-{kind}") for place, word in enumerate(words)]


def in_role(words: Iterable[Word], role: Role) -> list[Word]:
    """Mark the words as the phrase of one role; adpositions at either end are not a part of it."""
    phrase = list(words)
    inner = [place for place, word in enumerate(phrase) if word.tag != "ADP"]
    return [replace(word, role=role) if inner[0] <= place <= inner[-1] else word for place, word in enumerate(phrase)]


def capitalised(words: list[Word], capital: Callable[[str], str]) -> list[Word]:
    """Capitalise the first of the words."""
    first = next(place for place, word in enumerate(words) if word.text not in OPENING)
    text = words[first].text
    return [*words[:first], replace(words[first], text=capital(text[0]) + text[1:]), *words[first + 1 :]]


def join(words: Sequence[Word], spaced: bool) -> tuple[str, list[int]]:
    """Return the text, and where in it each word begins."""
    text, starts = "", []
    for place, word in enumerate(words):
        if spaced and place and word.text not in CLOSING and not _sticks(words[place - 1].text):
            text += " "
        starts.append(len(text))
        text += word.text
    return text, starts


def _sticks(text: str) -> bool:
    return text in OPENING or text.endswith(("'", "’"))
