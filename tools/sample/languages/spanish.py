"""Write Spanish: adjectives after the noun, "a" before people as objects, and two verbs for "was"."""

from __future__ import annotations

from tools.sample.frames import Agent, Event, Organisation, Patient, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_human, is_plural
from tools.sample.words import Word, entity, in_role, tagged

_ENDINGS = {"ar": ("ó", "aron", "é"), "er": ("ió", "ieron", "í"), "ir": ("ió", "ieron", "í")}


class Spanish(Grammar):
    code = "es"

    def event(self, event: Event) -> list[Word]:
        agent = [] if event.agent == "I" else self.agent(event)
        return [*agent, *tagged("no" * event.negated, "PART"), self._verb(event), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        was = "estaba" if "~" in self.words.adjectives[quality.adjective] else "era"
        form = self._agreeing(quality.adjective, quality.subject)
        return [
            *self.phrase(quality.subject),
            *tagged("no" * quality.negated, "PART"),
            Word(was + "n" * quality.subject.plural, "AUX"),
            *tagged("muy" * quality.very, "ADV"),
            Word(form, "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        opening = [Word("¿", "PUNCT"), *self.asking_word(asked)]
        if asked == "agent":
            return [*opening, Word(self._forms(event.verb)[0], "VERB"), *self._rest(event, asked)]
        return [*opening, self._verb(event), *self.phrase(event.agent), *self._rest(event, asked)]

    def _verb(self, event: Event) -> Word:
        he, they, me = self._forms(event.verb)
        return Word(me if event.agent == "I" else they if is_plural(event.agent) else he, "VERB")

    def _forms(self, verb: str) -> tuple[str, ...]:
        infinitive, *irregular = self.words.verbs[verb]
        return tuple(irregular or (infinitive[:-2] + ending for ending in _ENDINGS[infinitive[-2:]]))

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        words = [] if asked == "patient" else self._object(event.patient)
        to = self._to(event.recipient) if event.recipient else []
        return [*words, *to, *self.place(event, asked), *self.time(event, asked)]

    def _object(self, patient: Patient | None) -> list[Word]:
        if patient is None:
            return []
        return in_role(self._to(patient) if is_human(patient) else self.phrase(patient), "patient")

    def _to(self, whom: Agent | Patient) -> list[Word]:
        words = self.phrase(whom)
        if words[0].text == "el":
            return [Word("al", "ADP"), *words[1:]]
        return [Word("a", "ADP"), *words]

    def location(self, place: Place) -> list[Word]:
        return [Word("en", "ADP"), *self.phrase(place)]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        singular, gender, *irregular = self.words.nouns[thing.noun]
        noun = (irregular[0] if irregular else _plural(singular)) if thing.plural else singular
        words = [Word(noun, "NOUN")]
        if thing.adjective:
            words.append(Word(self._agreeing(thing.adjective, thing), "ADJ"))
        if thing.count > 1:
            return [*self.numeral(thing), *words]
        if thing.definite:
            article = ("las" if gender == "f" else "los") if thing.plural else ("la" if gender == "f" else "el")
        else:
            article = "una" if gender == "f" else "un"
        return [Word(article, "DET"), *words]

    def _agreeing(self, adjective: str, thing: Thing) -> str:
        masculine, *others = (form for form in self.words.adjectives[adjective] if form != "~")
        feminine = others[0] if others else masculine[:-1] + "a" if masculine.endswith("o") else masculine
        form = feminine if self.gender(thing) == "f" else masculine
        return _plural(form) if thing.plural else form

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = Word(self.words.name(organisation.name)[0], "PROPN")
        if organisation.kind == "company":
            return entity([name], "ORG")
        if organisation.kind == "bank":
            return [Word("el", "DET"), *entity([Word("Banco", "PROPN"), name], "ORG")]
        return [Word("la", "DET"), *entity([Word("Universidad", "PROPN"), Word("de", "ADP"), name], "ORG")]


def _plural(form: str) -> str:
    if form[-1] in "aeiouéá":
        return form + "s"
    return form[:-1] + "ces" if form.endswith("z") else form + "es"
