"""Write German: the finite verb second and the participle last; articles and adjectives by case, gender and number."""

from __future__ import annotations

from tools.sample.frames import Agent, City, Event, Organisation, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_plural
from tools.sample.words import Word, entity, tagged

_DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
_INDEFINITE = {"nom": {"m": "ein", "f": "eine", "n": "ein"}, "acc": {"m": "einen", "f": "eine", "n": "ein"}}
_STRONG = {"nom": {"m": "er", "f": "e", "n": "es"}, "acc": {"m": "en", "f": "e", "n": "es"}}


class German(Grammar):
    code = "de"

    def event(self, event: Event) -> list[Word]:
        return [*self.agent(event), self._have(event.agent), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        return [
            *self.phrase(quality.subject),
            Word("waren" if quality.subject.plural else "war", "AUX"),
            *tagged("nicht" * quality.negated, "PART"),
            *tagged("sehr" * quality.very, "ADV"),
            Word(self.adjective(quality.adjective), "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        agent = [Word("hat", "AUX")] if asked == "agent" else [self._have(event.agent), *self.phrase(event.agent)]
        return [*self.asking_word(asked), *agent, *self._rest(event, asked)]

    def _have(self, agent: Agent) -> Word:
        return Word("habe" if agent == "I" else "haben" if is_plural(agent) else "hat", "AUX")

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        return [
            *self.time(event, asked),
            *self.place(event, asked),
            *(self.phrase(event.recipient, "dat") if event.recipient else []),
            *self.patient(event, asked),
            *tagged("nicht" * event.negated, "PART"),
            Word(self.words.verbs[event.verb][0], "VERB"),
        ]

    def location(self, place: Place) -> list[Word]:
        if isinstance(place, City):
            return [Word("in", "ADP"), *self.phrase(place)]
        words = self.phrase(place, "dat")
        preposition = "an" if place.noun in self.words.at else "in"
        if words[0].text == "dem":
            return [Word(preposition[0] + "m", "ADP"), *words[1:]]
        return [Word(preposition, "ADP"), *words]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        singular, gender, plural = self.words.nouns[thing.noun]
        weak, gender = gender.endswith("w"), gender[0]
        noun = plural if thing.plural else singular
        if weak and case != "nom" and not thing.plural:
            noun += "n" if noun[-1] == "r" else "en"
        words = [Word(noun, "NOUN")]
        if thing.adjective:
            words.insert(0, Word(self.adjective(thing.adjective) + _ending(thing, gender, case), "ADJ"))
        if thing.count > 1:
            return [*self.numeral(thing), *words]
        if thing.definite:
            return [Word(_DEFINITE[case]["p" if thing.plural else gender], "DET"), *words]
        return [Word(_INDEFINITE[case][gender], "DET"), *words]

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = Word(self.words.name(organisation.name)[0], "PROPN")
        if organisation.kind == "company":
            return entity([name], "ORG")
        university = organisation.kind == "university"
        parts = [Word("Universität", "PROPN"), name] if university else [name, Word("Bank", "PROPN")]
        return [Word(_DEFINITE[case]["f"], "DET"), *entity(parts, "ORG")]


def _ending(thing: Thing, gender: str, case: str) -> str:
    if thing.count > 1:
        return "e"
    if thing.plural or case == "dat":
        return "en"
    if thing.definite:
        return "en" if case == "acc" and gender == "m" else "e"
    return _STRONG[case][gender]
