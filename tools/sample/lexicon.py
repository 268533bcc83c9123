"""Read the hand-written word lists: what can be talked about, and how each language says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
GRADES = ("positive", "negative", "neutral")


@dataclass(frozen=True)
class Concepts:
    """Concepts that all languages have words for; every string is a key of their lexicons.

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
    """Read the concepts of ``concepts.yaml``."""
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
    """One language's words. Entries of more than one form are split; ``_`` in a form stands for a space.

    Args:
        nouns, adjectives, verbs: concept -> its forms, which each file's comments explain.
        names: forms of the names that are not written as in ``concepts.yaml``.
        times: concept -> the phrase with its parts of speech.
        joints: "and" and "but" between clauses, with a comma if the language puts one, and parts of speech.
        conjunction: "and" between people.
        pronouns: I, somebody and nobody.
        asked: role -> what asks for it, with parts of speech.
        stop, question_mark: what ends a statement and a question.
        numerals: two to six, if they are plain words.
        at: places that take another preposition than most.
        locatives: irregular locatives of places.
    """

    nouns: Mapping[str, tuple[str, ...]]
    adjectives: Mapping[str, tuple[str, ...]]
    verbs: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]
    times: Mapping[str, str]
    joints: Mapping[str, str]
    conjunction: str
    pronouns: Mapping[str, str]
    asked: Mapping[str, str]
    stop: str = "."
    question_mark: str = "?"
    numerals: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    locatives: Mapping[str, str] = field(default_factory=dict)

    def name(self, key: str) -> tuple[str, ...]:
        """Return the forms of a name."""
        return self.names.get(key, (key,))


@cache
def lexicon(language: str) -> Lexicon:
    """Read the lexicon of a language by its two-letter code."""
    raw = _read(f"lexicons/{language}")
    for part in ("nouns", "adjectives", "verbs", "names"):
        raw[part] = {concept: _forms(entry) for concept, entry in raw[part].items()}
    return Lexicon(**raw)


def _forms(entry: str) -> tuple[str, ...]:
    return tuple(form.replace("_", " ") for form in entry.split())


def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.load((FOLDER / f"{name}.yaml").read_text("utf-8"), _Strings)
    return values


class _Strings(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Reads every plain word as text: ``no`` and ``on`` are words here."""


_Strings.yaml_implicit_resolvers = {}
