"""Write English: subject, verb, object; questions and negation take "did"."""

from __future__ import annotations

from tools.sample.frames import Event, Organisation, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar
from tools.sample.words import Word, entity, tagged


class English(Grammar):
    code = "en"

    def event(self, event: Event) -> list[Word]:
        base, past = self.words.verbs[event.verb]
        verb = [Word("did", "AUX"), Word("not", "PART"), Word(base, "VERB")] if event.negated else [Word(past, "VERB")]
        return [*self.agent(event), *verb, *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        return [
            *self.phrase(quality.subject),
            Word("were" if quality.subject.plural else "was", "AUX"),
            *tagged("not" * quality.negated, "PART"),
            *tagged("very" * quality.very, "ADV"),
            Word(self.adjective(quality.adjective), "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        base, past = self.words.verbs[event.verb]
        if asked == "agent":
            return [*self.asking_word(asked), Word(past, "VERB"), *self._rest(event, asked)]
        agent = self.phrase(event.agent)
        return [*self.asking_word(asked), Word("did", "AUX"), *agent, Word(base, "VERB"), *self._rest(event, asked)]

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        to = [Word("to", "ADP"), *self.phrase(event.recipient)] if event.recipient else []
        return [*self.patient(event, asked), *to, *self.place(event, asked), *self.time(event, asked)]

    def location(self, place: Place) -> list[Word]:
        at = isinstance(place, Thing) and place.noun in self.words.at
        return [Word("at" if at else "in", "ADP"), *self.phrase(place)]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        forms = self.words.nouns[thing.noun]
        plural = forms[1] if len(forms) > 1 else forms[0] + "s"
        inner = [Word(self.adjective(thing.adjective), "ADJ")] if thing.adjective else []
        inner.append(Word(plural if thing.plural else forms[0], "NOUN"))
        if thing.count > 1:
            return [*self.numeral(thing), *inner]
        if thing.definite:
            return [Word("the", "DET"), *inner]
        vowel = inner[0].text[0] in "aeiou" and not inner[0].text.startswith("use")
        return [Word("an" if vowel else "a", "DET"), *inner]

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = Word(self.words.name(organisation.name)[0], "PROPN")
        if organisation.kind == "university":
            university = [Word("University", "PROPN"), Word("of", "ADP"), name]
            return [Word("the", "DET"), *entity(university, "ORG")]
        return entity([name, *tagged("Bank" * (organisation.kind == "bank"), "PROPN")], "ORG")
