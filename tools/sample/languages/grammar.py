"""Turn frames into words: what every grammar does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from tools.sample.frames import (
    Agent,
    Both,
    City,
    Clause,
    Event,
    Organisation,
    Patient,
    Person,
    Place,
    Quality,
    Role,
    Statement,
    Thing,
)
from tools.sample.lexicon import Lexicon, concepts, lexicon
from tools.sample.words import Word, capitalised, entity, in_role, join, noted


class Grammar(ABC):
    """One language: how its phrases are formed and ordered.

    Args:
        code: two letters.
        spaced: whether words are written apart.
    """

    code: ClassVar[str]
    spaced: ClassVar[bool] = True

    @cached_property
    def words(self) -> Lexicon:
        return lexicon(self.code)

    @abstractmethod
    def event(self, event: Event) -> list[Word]:
        """Return a clause, without a capital or an end."""

    @abstractmethod
    def quality(self, quality: Quality) -> list[Word]:
        """Return a clause, without a capital or an end."""

    @abstractmethod
    def question(self, event: Event, asked: Role) -> list[Word]:
        """Return the question that the phrase in role ``asked`` answers, without a capital or an end.

        It is never asked of negated events, nor for a patient that is human.
        """

    @abstractmethod
    def thing(self, thing: Thing, case: str) -> list[Word]:
        """Return a noun with its article or numeral and its adjective."""

    @abstractmethod
    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        """Return a named body."""

    def statement(self, statement: Statement) -> list[Word]:
        return self.sentence(statement.clauses, statement.joint)

    def sentence(self, clauses: Sequence[Clause], joint: str = "and") -> list[Word]:
        """Return a whole sentence."""
        words, *rest = (self.clause(clause) for clause in clauses)
        for clause in rest:
            words = [*words, *noted(self.words.joints[joint]), *clause]
        return capitalised([*words, Word(self.words.stop, "PUNCT")], self.capital)

    def asking(self, event: Event, asked: Role) -> list[Word]:
        """Return a whole question."""
        return capitalised([*self.question(event, asked), Word(self.words.question_mark, "PUNCT")], self.capital)

    def capital(self, letter: str) -> str:
        return letter.upper()

    def clause(self, clause: Clause) -> list[Word]:
        return self.event(clause) if isinstance(clause, Event) else self.quality(clause)

    def text(self, words: Sequence[Word]) -> str:
        return join(words, self.spaced)[0]

    def join_sentences(self, sentences: Sequence[list[Word]]) -> str:
        """Join several sentences into a text."""
        return (" " if self.spaced else "").join(self.text(sentence) for sentence in sentences)

    def phrase(self, what: Agent | Patient | Place, case: str = "nom") -> list[Word]:
        """Return a noun phrase in a case of the language; those without cases ignore it."""
        if isinstance(what, Person):
            return self.person(what, case)
        if isinstance(what, City):
            return self.city(what, case)
        if isinstance(what, Organisation):
            return self.organisation(what, case)
        if isinstance(what, Both):
            return [*self.person(what.one, case), Word(self.words.conjunction, "CCONJ"), *self.person(what.other, case)]
        if isinstance(what, Thing):
            return self.thing(what, case)
        return [Word(part, "PRON") for part in self.words.pronouns[what].split()]

    def person(self, person: Person, case: str) -> list[Word]:
        keys = [person.first, *([person.surname] if person.surname else [])]
        return entity([Word(self.words.name(key)[0], "PROPN") for key in keys], "PER")

    def city(self, city: City, case: str) -> list[Word]:
        return entity([Word(self.words.name(city.key)[0], "PROPN")], "LOC")

    def agent(self, event: Event, case: str = "nom") -> list[Word]:
        return in_role(self.phrase(event.agent, case), "agent")

    def patient(self, event: Event, asked: Role | None, case: str = "acc") -> list[Word]:
        """Return the patient, or nothing if there is none or it is asked for."""
        if event.patient is None or asked == "patient":
            return []
        return in_role(self.phrase(event.patient, case), "patient")

    def time(self, event: Event, asked: Role | None = None) -> list[Word]:
        """Return the time, or nothing if it is unknown or asked for."""
        if event.time is None or asked == "time":
            return []
        return in_role(noted(self.words.times[event.time]), "time")

    def place(self, event: Event, asked: Role | None = None) -> list[Word]:
        """Return the place, or nothing if it is unknown or asked for."""
        if event.place is None or asked == "place":
            return []
        return in_role(self.location(event.place), "place")

    @abstractmethod
    def location(self, place: Place) -> list[Word]:
        """Return a place as the answer to "where"."""

    def asking_word(self, asked: Role) -> list[Word]:
        return noted(self.words.asked[asked])

    def adjective(self, key: str) -> str:
        return self.words.adjectives[key][0]

    def numeral(self, thing: Thing) -> list[Word]:
        """Return the numeral of a counted thing."""
        return [Word(self.words.numerals[thing.count - 2], "NUM")] if thing.count > 1 else []

    def gender(self, agent: Agent | Patient) -> str:
        """Return m, f or n, the first letter of a noun's second entry; m for groups and pronouns."""
        if isinstance(agent, Person):
            return concepts().genders[agent.first]
        return self.words.nouns[agent.noun][1][0] if isinstance(agent, Thing) else "m"


def is_plural(agent: Agent | Patient) -> bool:
    return isinstance(agent, Both) or (isinstance(agent, Thing) and agent.plural)


def is_human(patient: Patient | Place | None) -> bool:
    return isinstance(patient, Person) or (isinstance(patient, Thing) and concepts().kinds[patient.noun] == "person")


def is_animate(patient: Patient | None) -> bool:
    return is_human(patient) or (isinstance(patient, Thing) and concepts().kinds[patient.noun] == "animal")
