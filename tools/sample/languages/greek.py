"""Write Greek: articles with every name, two cases, the final -n that is sometimes dropped."""

from __future__ import annotations

from tools.sample.frames import City, Event, Organisation, Person, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_plural
from tools.sample.words import Word, entity, noted, tagged

_ARTICLES = {
    "nom": {"m": "ο", "f": "η", "n": "το"},
    "acc": {"m": "τον", "f": "την", "n": "το"},
    "nom plural": {"m": "οι", "f": "οι", "n": "τα"},
    "acc plural": {"m": "τους", "f": "τις", "n": "τα"},
}
_ONE = {"nom": {"m": "ένας", "f": "μία", "n": "ένα"}, "acc": {"m": "έναν", "f": "μία", "n": "ένα"}}
_NUMERALS = {2: ("δύο", "δύο"), 3: ("τρεις", "τρία"), 4: ("τέσσερις", "τέσσερα"), 5: ("πέντε",) * 2, 6: ("έξι",) * 2}
# Before these, the feminine article keeps its -n.
_KEEPS_N = (
    "α",
    "ά",
    "ε",
    "έ",
    "η",
    "ή",
    "ι",
    "ί",
    "ο",
    "ό",
    "υ",
    "ύ",
    "ω",
    "ώ",
    "κ",
    "π",
    "τ",
    "ξ",
    "ψ",
    "μπ",
    "ντ",
    "γκ",
)
# Masculine, feminine, neuter; their plurals; masculine accusative, singular and plural.
_PLAIN = ("ος", "η", "ο", "οι", "ες", "α", "ο", "ους")
_STRESSED = ("ός", "ή", "ό", "οί", "ές", "ά", "ό", "ούς")


class Greek(Grammar):
    code = "el"

    def event(self, event: Event) -> list[Word]:
        denied = event.negated or event.agent == "nobody"
        agent = [] if event.agent == "I" else self.agent(event)
        return [*agent, *tagged("δεν" * denied, "PART"), self._verb(event), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        return [
            *self.phrase(quality.subject),
            *tagged("δεν" * quality.negated, "PART"),
            Word("ήταν", "AUX"),
            *tagged("πολύ" * quality.very, "ADV"),
            Word(self._agreeing(quality.adjective, quality.subject, "nom"), "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        agent = [] if asked == "agent" else self.phrase(event.agent)
        verb = Word(self.words.verbs[event.verb][0], "VERB") if asked == "agent" else self._verb(event)
        return [*self.asking_word(asked), verb, *agent, *self._rest(event, asked)]

    def _verb(self, event: Event) -> Word:
        third = self.words.verbs[event.verb][0]
        ending = "α" if event.agent == "I" else "αν" if is_plural(event.agent) else "ε"
        return Word(third[:-1] + ending, "VERB")

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        to = self._to(self.phrase(event.recipient, "acc")) if event.recipient else []
        return [*self.patient(event, asked), *to, *self.place(event, asked), *self.time(event, asked)]

    def location(self, place: Place) -> list[Word]:
        return self._to(self.phrase(place, "acc"))

    def _to(self, words: list[Word]) -> list[Word]:
        return [Word("σ" + words[0].text, "ADP"), *words[1:]]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        nominative, gender, *others = self.words.nouns[thing.noun]
        if gender == "m":
            accusative, plural, plural_accusative = others
            noun = (plural, plural_accusative) if thing.plural else (nominative, accusative)
        else:
            noun = (others[0],) * 2 if thing.plural else (nominative,) * 2
        words = [Word(noun[case == "acc"], "NOUN")]
        if thing.adjective:
            words.insert(0, Word(self._agreeing(thing.adjective, thing, case), "ADJ"))
        if thing.count > 1:
            return [Word(_NUMERALS[thing.count][gender == "n"], "NUM"), *words]
        if not thing.definite:
            return [Word(_ONE[case][gender], "DET"), *words]
        return _with_article(_ARTICLES[case + " plural" * thing.plural][gender], words)

    def _agreeing(self, adjective: str, thing: Thing, case: str) -> str:
        masculine, *others = self.words.adjectives[adjective]
        stem, endings = masculine[:-2], _STRESSED if masculine.endswith("ός") else _PLAIN
        forms = [stem + ending for ending in endings]
        if len(others) == 1:
            forms[1] = others[0]
        elif others:
            forms = [masculine, *others, others[2].replace("οί", "ούς")]
        gender = self.gender(thing)
        if case == "acc" and gender == "m":
            return forms[7 if thing.plural else 6]
        form = forms["mfn".index(gender) + 3 * thing.plural]
        return form.removesuffix("ς") if case == "acc" and gender == "f" and form.endswith("ης") else form

    def person(self, person: Person, case: str) -> list[Word]:
        keys = [person.first, *([person.surname] if person.surname else [])]
        forms = [self.words.name(key) for key in keys]
        words = entity([Word(form[-1] if case == "acc" else form[0], "PROPN") for form in forms], "PER")
        return _with_article(_ARTICLES[case][self.gender(person)], words)

    def city(self, city: City, case: str) -> list[Word]:
        name, gender, _ = self.words.name(city.key)
        return _with_article(_ARTICLES[case][gender], entity([Word(name, "PROPN")], "LOC"))

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = self.words.name(organisation.name)
        if organisation.kind == "company":
            return _with_article(_ARTICLES[case]["f"], entity([Word(name[0], "PROPN")], "ORG"))
        if organisation.kind == "bank":
            return _with_article(_ARTICLES[case]["f"], entity(tagged(f"Τράπεζα {name[0]}", "PROPN"), "ORG"))
        of = Word("της" if name[1] == "f" else "του", "DET")
        return [*noted("το/DET"), *entity([Word("Πανεπιστήμιο", "PROPN"), of, Word(name[2], "PROPN")], "ORG")]


def _with_article(article: str, words: list[Word]) -> list[Word]:
    """Join article and words; the feminine accusative drops its -n before a continuant."""
    if article == "την" and not words[0].text.lower().startswith(_KEEPS_N):
        article = "τη"
    return [Word(article, "DET"), *words]
