"""Draw frames at random, by seed; ``concepts.yaml`` says what fits together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tools.sample.frames import Agent, Both, City, Event, Organisation, Patient, Person, Place, Quality, Thing
from tools.sample.lexicon import concepts

T = TypeVar("T")


class Dice:
    """Seeded picks. Only ``random()`` is used, as only it is guaranteed to be the same in every Python version."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random() * len(choices))]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def below(self, limit: int) -> int:
        return int(self._random() * limit)


class Draw:
    """The source of random frames; ``names`` limits people, cities and brands to a subset of the known ones."""

    def __init__(self, dice: Dice, known: frozenset[str] | None = None) -> None:
        words = concepts()

        def kept(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in names if known is None or name in known)

        self.dice = dice
        self.first_names, self.surnames = kept(tuple(words.genders)), kept(words.surnames)
        self.cities, self.brands = kept(words.cities), kept(words.brands)

    def person(self) -> Person:
        surname = self.dice.pick(self.surnames) if self.dice.chance(0.35) else None
        return Person(self.dice.pick(self.first_names), surname)

    def people(self) -> Both:
        one, other = self.person(), self.person()
        while other.first == one.first:
            other = self.person()
        return Both(one, other)

    def city(self) -> City:
        return City(self.dice.pick(self.cities))

    def organisation(self) -> Organisation:
        if self.dice.chance(0.35):
            return Organisation("university", self.dice.pick(self.cities))
        return Organisation("bank" if self.dice.chance(0.5) else "company", self.dice.pick(self.brands))

    def someone(self) -> Thing:
        """Draw a person by trade: "the teacher"."""
        return Thing(self.dice.pick(concepts().nouns["person"]))

    def agent(self) -> Agent:
        chance = self.dice.below(100)
        if chance < 55:
            return self.person()
        if chance < 68:
            return self.people()
        return self.someone() if chance < 95 else "somebody" if chance < 98 else "nobody"

    def thing(self, kinds: Sequence[str]) -> Thing:
        """Draw a thing of one of these kinds, with an article or a numeral, perhaps with an adjective."""
        kind = self.dice.pick(kinds)
        noun = self.dice.pick(concepts().nouns[kind])
        chance = self.dice.below(100)
        countable = noun not in concepts().uncountable
        if not countable or chance < 45:
            count, definite = 1, True
        elif chance < 70:
            count, definite = 1, False
        elif chance < 85:
            count, definite = 2 + self.dice.below(5), False
        else:
            count, definite = 0, True
        adjective = self.adjective(kind) if self.dice.chance(0.35) else None
        return Thing(noun, count, definite, adjective)

    def adjective(self, kind: str, grades: Sequence[str] = ("neutral", "neutral", "positive", "negative")) -> str:
        """Draw an adjective of one of the grades that fits the kind of noun."""
        words = concepts()
        for _ in range(50):
            grade = self.dice.pick(grades)
            fitting = [word for word, kinds in words.fits.items() if kind in kinds and words.polarity[word] == grade]
            if fitting:
                return self.dice.pick(fitting)
        return "good"

    def patient(self, verb: str) -> Patient:
        kind = self.dice.pick(concepts().takes[verb])
        if kind == "name":
            return self.person()
        if kind == "city":
            return self.city()
        return self.organisation() if kind == "organisation" else self.thing([kind])

    def place(self) -> Place:
        return self.city() if self.dice.chance(0.6) else Thing(self.dice.pick(concepts().nouns["place"]))

    def event(self, negations: float = 0.2) -> Event:
        """Draw what somebody did: at times with a trade as giver or taker, and half the time with place and time."""
        words, dice = concepts(), self.dice
        chance = dice.below(100)
        kind = "action" if chance < 75 else "giving" if chance < 90 else "activity"
        verb = dice.pick(words.verbs[kind])
        agent: Agent = self.agent()
        if verb in ("buy", "sell", "invite", "order", "visit", "photograph", "find", "open", "close") and dice.chance(
            0.3
        ):
            agent = self.organisation()
        patient = self.patient(verb) if words.takes[verb] else None
        recipient = (self.person() if dice.chance(0.7) else self.someone()) if kind == "giving" else None
        place = self.place() if dice.chance(0.55) and not isinstance(patient, City) else None
        if isinstance(patient, Thing) and words.kinds[patient.noun] == "place" and isinstance(place, Thing):
            place = self.city()
        time = dice.pick(words.times) if dice.chance(0.5) else None
        event = Event(verb, agent, patient, recipient, place, time)
        if agent == "nobody":
            return replace(denied(event), negated=False)
        return denied(event) if dice.chance(negations) else event

    def quality(self, grades: Sequence[str], negations: float = 0.3, subject: Thing | None = None) -> Quality:
        """Draw what a thing was like."""
        words, dice = concepts(), self.dice
        kinds = ("thing", "food", "place", "show", "animal", "person")
        grade = dice.pick(grades)
        if subject is None:
            kind = dice.pick(kinds if grade != "neutral" else kinds[:4])
            noun = dice.pick(words.nouns[kind])
            plural = noun not in words.uncountable and dice.chance(0.2)
            subject = Thing(noun, 0 if plural else 1)
        adjective = self.adjective(words.kinds[subject.noun], [grade])
        very = adjective not in words.absolute and dice.chance(0.25)
        return Quality(subject, adjective, very, dice.chance(negations))


def denied(event: Event) -> Event:
    """Return the event as one that did not happen; what it is about becomes definite."""
    patient = event.patient
    if isinstance(patient, Thing):
        patient = replace(patient, count=1 if patient.count == 1 else 0, definite=True)
    return replace(event, patient=patient, negated=True)
