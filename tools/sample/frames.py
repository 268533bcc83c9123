"""Represent what a sentence says, before any language says it: who did what to what, what was how, what not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Person:
    """A person by name; ``first`` and ``surname`` are keys of the names in ``concepts.yaml``."""

    first: str
    surname: str | None = None


@dataclass(frozen=True)
class City:
    key: str


@dataclass(frozen=True)
class Organisation:
    """The university of a city, a bank or a company of a brand; ``name`` is the city's or the brand's key."""

    kind: Literal["university", "bank", "company"]
    name: str


@dataclass(frozen=True)
class Thing:
    """Something that a common noun names.

    Args:
        noun: its key.
        count: 1, or 2 to 6 with a numeral, or 0 for several that are not counted ("the lamps").
        definite: "the lamp" rather than "a lamp"; always True if ``count`` is 0.
        adjective: its key.
    """

    noun: str
    count: int = 1
    definite: bool = True
    adjective: str | None = None

    @property
    def plural(self) -> bool:
        return self.count != 1


@dataclass(frozen=True)
class Both:
    """Two people, joined by "and"."""

    one: Person
    other: Person


Pronoun: TypeAlias = Literal["I", "somebody", "nobody"]
Agent: TypeAlias = Person | Organisation | Thing | Both | Pronoun
Patient: TypeAlias = Person | City | Organisation | Thing
Place: TypeAlias = City | Thing
Role: TypeAlias = Literal["agent", "patient", "place", "time"]


@dataclass(frozen=True)
class Event:
    """Somebody did something, in the past.

    Whatever a negated event is about is definite, so that the negation can only deny the event. ``nobody`` as agent
    comes without ``negated``, as each language has its own agreement for it.
    """

    verb: str
    agent: Agent
    patient: Patient | None = None
    recipient: Person | Thing | None = None
    place: Place | None = None
    time: str | None = None
    negated: bool = False


@dataclass(frozen=True)
class Quality:
    """The thing was (not) (very) so."""

    subject: Thing
    adjective: str
    very: bool = False
    negated: bool = False


Clause: TypeAlias = Event | Quality


@dataclass(frozen=True)
class Statement:
    """One clause, or two that ``and`` or ``but`` joins."""

    clauses: tuple[Clause, ...]
    joint: Literal["and", "but"] = "and"
