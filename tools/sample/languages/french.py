"""Write French: elision, contracted articles, negation around the auxiliary, some adjectives before the noun."""

from __future__ import annotations

from tools.sample.frames import Agent, City, Event, Organisation, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_plural
from tools.sample.words import Word, entity, noted, tagged

_VOWELS = "aeiouéèêàâîôûœhyAEIOUÉ"


class French(Grammar):
    code = "fr"

    def event(self, event: Event) -> list[Word]:
        denied = event.negated or event.agent == "nobody"
        have = "ai" if event.agent == "I" else "ont" if is_plural(event.agent) else "a"
        agent = self.agent(event)
        if event.agent == "I" and not denied:
            agent = [Word("j'", "PRON", role="agent")]
        return [
            *agent,
            *tagged("n'" * denied, "PART"),
            Word(have, "AUX"),
            *tagged("pas" * event.negated, "PART"),
            *self._rest(event),
        ]

    def quality(self, quality: Quality) -> list[Word]:
        return [
            *self.phrase(quality.subject),
            *tagged("n'" * quality.negated, "PART"),
            Word("étaient" if quality.subject.plural else "était", "AUX"),
            *tagged("pas" * quality.negated, "PART"),
            *tagged("très" * quality.very, "ADV"),
            Word(self._agreeing(quality.adjective, quality.subject), "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        if asked == "agent":
            return [*self.asking_word(asked), Word("a", "AUX"), *self._rest(event, asked)]
        agent = self.phrase(event.agent)
        have = Word("ont" if is_plural(event.agent) else "a", "AUX")
        return [*self.asking_word(asked), _that(agent), *agent, have, *self._rest(event, asked)]

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        verb = Word(self.words.verbs[event.verb][0], "VERB")
        to = self._at(event.recipient) if event.recipient else []
        return [verb, *self.patient(event, asked), *to, *self.place(event, asked), *self.time(event, asked)]

    def _at(self, whom: Agent | Place) -> list[Word]:
        words = self.phrase(whom)
        if words[0].text == "le":
            return [Word("au", "ADP"), *words[1:]]
        return [Word("à", "ADP"), *words]

    def location(self, place: Place) -> list[Word]:
        if isinstance(place, City) or place.noun in self.words.at:
            return self._at(place)
        return [Word("dans", "ADP"), *self.phrase(place)]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        singular, gender, *irregular = self.words.nouns[thing.noun]
        noun = (irregular[0] if irregular else _plural(singular)) if thing.plural else singular
        words = [Word(noun, "NOUN")]
        if thing.adjective:
            before = "^" in self.words.adjectives[thing.adjective]
            adjective = Word(self._agreeing(thing.adjective, thing, noun if before else ""), "ADJ")
            words = [adjective, *words] if before else [*words, adjective]
        if thing.count > 1:
            return [*self.numeral(thing), *words]
        if not thing.definite:
            return [Word("une" if gender == "f" else "un", "DET"), *words]
        if thing.plural:
            return [Word("les", "DET"), *words]
        article = "l'" if words[0].text[0] in _VOWELS else "la" if gender == "f" else "le"
        return [Word(article, "DET"), *words]

    def _agreeing(self, adjective: str, thing: Thing, following: str = "") -> str:
        masculine, *others = (form for form in self.words.adjectives[adjective] if form != "^")
        plain, _, before_vowel = masculine.partition("/")
        if self.gender(thing) == "f":
            form = others[0] if others else plain if plain.endswith("e") else plain + "e"
        else:
            form = before_vowel if before_vowel and not thing.plural and following[:1] in tuple(_VOWELS) else plain
        return _plural(form) if thing.plural else form

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = Word(self.words.name(organisation.name)[0], "PROPN")
        if organisation.kind == "company":
            return entity([name], "ORG")
        if organisation.kind == "bank":
            return [Word("la", "DET"), *entity([Word("Banque", "PROPN"), name], "ORG")]
        of = Word("d'" if name.text[0] in _VOWELS else "de", "ADP")
        return [*noted("l'/DET"), *entity([Word("Université", "PROPN"), of, name], "ORG")]


def _that(following: list[Word]) -> Word:
    return Word("qu'" if following[0].text[0] in _VOWELS else "que", "SCONJ")


def _plural(form: str) -> str:
    if form[-1] in "sxz":
        return form
    return form + ("x" if form.endswith("eau") else "s")
