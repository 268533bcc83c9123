"""The sample's words: read from ``lexicon.yaml`` and shared out between the splits of the task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

Split = Literal["train", "dev", "test"]
T = TypeVar("T")
Poles = dict[bool, tuple[str, ...]]
"""Words that speak well of a thing (True) and ill of it (False)."""

# A word's place in its list, modulo eight, says who may use it: every split, or only dev, or only test.
SHARES: tuple[Split, ...] = ("train", "test", "train", "test", "train", "dev", "train", "test")


@dataclass(frozen=True)
class Noun:
    text: str
    plural: bool


@dataclass(frozen=True)
class Person:
    """Somebody whose opinion is reported: "my sister", "she", "her"."""

    text: str
    pronoun: str
    object: str

    @property
    def plural(self) -> bool:
        return self.pronoun == "they"


@dataclass(frozen=True)
class Domain:
    """One kind of thing that is reviewed, its parts by the quality that they have, and what happens there."""

    things: tuple[Noun, ...]
    past: str
    base: str
    done: str
    parts: tuple[tuple[str, Noun], ...]
    facts: tuple[str, ...]
    events: Poles


@dataclass(frozen=True)
class Lexicon:
    qualities: dict[str, Poles]
    verdict_nouns: Poles
    effects: Poles
    opinions: Poles
    domains: tuple[Domain, ...]
    people: tuple[Person, ...]
    media: tuple[str, ...]
    companions: tuple[str, ...]
    times: tuple[str, ...]
    names: tuple[str, ...]
    towns: tuple[str, ...]
    closings: dict[str, tuple[str, ...]]


def load() -> Lexicon:
    """The whole lexicon, as the pretraining text uses it."""
    raw: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "lexicon.yaml").read_text("utf-8"))
    return Lexicon(
        qualities={name: _poles(words) for name, words in raw["qualities"].items()},
        verdict_nouns=_poles(raw["verdict_nouns"]),
        effects=_poles(raw["effects"]),
        opinions=_poles(raw["opinions"]),
        domains=tuple(_domain(entry) for entry in raw["domains"]),
        people=tuple(Person(*entry.split("/")) for entry in raw["people"]),
        closings={kind: tuple(lines) for kind, lines in raw["closings"].items()},
        **{name: tuple(raw[name]) for name in ("media", "companions", "times", "names", "towns")},
    )


def for_split(lexicon: Lexicon, split: Split) -> Lexicon:
    """What a split of the task may use: dev and test add words of judgement that train does not have.

    Judging adjectives, nouns, verbs and events are shared out; all other words are common to the splits.
    """

    def share(poles: Poles, first: int = 0) -> Poles:
        return {good: _share(words, split, first) for good, words in poles.items()}

    return replace(
        lexicon,
        qualities={name: share(poles) for name, poles in lexicon.qualities.items()},
        verdict_nouns=share(lexicon.verdict_nouns),
        effects=share(lexicon.effects),
        opinions=share(lexicon.opinions),
        domains=tuple(
            replace(domain, events=share(domain.events, first)) for first, domain in enumerate(lexicon.domains)
        ),
    )


def _share(words: Sequence[T], split: Split, first: int) -> tuple[T, ...]:
    allowed = ("train", split)
    return tuple(word for place, word in enumerate(words, first) if SHARES[place % len(SHARES)] in allowed)


def _poles(raw: dict[str, str]) -> Poles:
    return {True: tuple(raw["good"].split(", ")), False: tuple(raw["bad"].split(", "))}


def _domain(raw: dict[str, Any]) -> Domain:
    return Domain(
        things=tuple(_nouns(raw["things"])),
        past=raw["past"],
        base=raw["base"],
        done=raw["done"],
        parts=tuple((quality, noun) for quality, names in raw["parts"].items() for noun in _nouns(names)),
        facts=tuple(raw["facts"]),
        events={True: tuple(raw["good"]), False: tuple(raw["bad"])},
    )


def _nouns(names: str) -> Iterable[Noun]:
    return (Noun(name.removesuffix("*"), name.endswith("*")) for name in names.split(", "))
