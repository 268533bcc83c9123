"""The hand-written word lists: what can be talked about, and how each language says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
GRADES = ("positive", "negative", "neutral")


@dataclass(frozen=True)
class Concepts:
    """What all languages have words for; every string is a key of their lexicons.

    Args:
        nouns: kind of noun -> nouns.
        kinds: noun -> its kind.
        uncountable: nouns that are never counted.
        polarity: adjective -> positive, negative or neutral.
        fits: adjective -> kinds of noun that it may be said of.
        absolute: adjectives that "very" does not go with.
        opposites: adjective -> its opposite.
        verbs: action, giving, activity, praise and blame -> verbs.
        takes: verb -> kinds of its object: kinds of noun, ``name``, ``city`` and ``organisation``.
        genders: first name -> f or m.
    """

    nouns: Mapping[str, tuple[str, ...]]
    kinds: Mapping[str, str]
    uncountable: frozenset[str]
    polarity: Mapping[str, str]
    fits: Mapping[str, tuple[str, ...]]
    absolute: frozenset[str]
    opposites: Mapping[str, str]
    verbs: Mapping[str, tuple[str, ...]]
    takes: Mapping[str, tuple[str, ...]]
    genders: Mapping[str, str]
    surnames: tuple[str, ...]
    cities: tuple[str, ...]
    brands: tuple[str, ...]
    times: tuple[str, ...]


@cache
def concepts() -> Concepts:
    """The concepts of ``concepts.yaml``."""
    raw = _read("concepts")
    adjectives = {word: kinds.split() for grade in GRADES for word, kinds in raw["adjectives"][grade].items()}
    pairs = [tuple(pair) for pair in raw["opposites"]]
    return Concepts(
        nouns={kind: tuple(nouns) for kind, nouns in raw["nouns"].items()},
        kinds={noun: kind for kind, nouns in raw["nouns"].items() for noun in nouns},
        uncountable=frozenset(raw["uncountable"]),
        polarity={word: grade for grade in GRADES for word in raw["adjectives"][grade]},
        fits={word: tuple(kind for kind in kinds if kind != "!") for word, kinds in adjectives.items()},
        absolute=frozenset(word for word, kinds in adjectives.items() if "!" in kinds),
        opposites={**dict(pairs), **{second: first for first, second in pairs}},
        verbs={kind: tuple(verbs) for kind, verbs in raw["verbs"].items()},
        takes={verb: tuple(kinds.split()) for verbs in raw["verbs"].values() for verb, kinds in verbs.items()},
        genders={name: gender for gender, names in raw["first_names"].items() for name in names},
        surnames=tuple(raw["surnames"]),
        cities=tuple(raw["cities"]),
        brands=tuple(raw["brands"]),
        times=tuple(raw["times"]),
    )


@dataclass(frozen=True)
class Lexicon:
    """One language's entries, each split at its spaces; ``_`` in an entry stands for a space within a form.

    ``names`` has only what is not written as in ``concepts.yaml``; the other fields are empty where a language has no
    use for them.
    """

    nouns: Mapping[str, tuple[str, ...]]
    adjectives: Mapping[str, tuple[str, ...]]
    verbs: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]
    times: Mapping[str, str]
    numerals: tuple[str, ...] = ()
    at: frozenset[str] = frozenset()
    locatives: Mapping[str, str] = None  # type: ignore[assignment]

    def name(self, key: str) -> tuple[str, ...]:
        """The forms of a name."""
        return self.names.get(key, (key,))


@cache
def lexicon(language: str) -> Lexicon:
    """The lexicon of a language by its two-letter code."""
    raw = _read(f"lexicons/{language}")
    return Lexicon(
        **{part: {key: _forms(entry) for key, entry in raw[part].items()} for part in ("nouns", "adjectives", "verbs", "names")},
        times=raw["times"],
        numerals=tuple(raw.get("numerals", ())),
        at=frozenset(raw.get("at", ())),
        locatives=raw.get("locatives", {}),
    )


def _forms(entry: str) -> tuple[str, ...]:
    return tuple(form.replace("_", " ") for form in entry.split())


def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.load((FOLDER / f"{name}.yaml").read_text("utf-8"), _Strings)
    return values


class _Strings(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Reads every plain word as text: ``no`` and ``on`` are words here."""


_Strings.yaml_implicit_resolvers = {}
