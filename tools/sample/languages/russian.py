"""Write Russian: six cases, animacy, numerals that govern, verbs that agree in gender; no articles."""

from __future__ import annotations

from tools.sample.frames import Agent, City, Event, Organisation, Person, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_plural
from tools.sample.words import Word, entity, tagged

_NUMERALS = {2: "два", 3: "три", 4: "четыре", 5: "пять", 6: "шесть"}
_ANIMATE = {2: "двух", 3: "трёх", 4: "четырёх"}
# Adjective endings after a hard stem; what follows a soft stem or a sibilant is derived from them.
_HARD = {
    "nom": {"m": "ый", "f": "ая", "n": "ое", "p": "ые"},
    "gen": {"m": "ого", "f": "ой", "n": "ого", "p": "ых"},
    "dat": {"m": "ому", "f": "ой", "n": "ому", "p": "ым"},
    "acc": {"m": "ый", "f": "ую", "n": "ое", "p": "ые"},
    "ins": {"m": "ым", "f": "ой", "n": "ым", "p": "ыми"},
    "loc": {"m": "ом", "f": "ой", "n": "ом", "p": "ых"},
}
_SOFT = str.maketrans("ыоау", "иеяю")


class Russian(Grammar):
    code = "ru"

    def event(self, event: Event) -> list[Word]:
        denied = event.negated or event.agent == "nobody"
        return [*self.agent(event), *tagged("не" * denied, "PART"), self._verb(event), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        subject = quality.subject
        gender = "p" if subject.plural else self.gender(subject)
        return [
            *self.phrase(subject),
            *tagged("не" * quality.negated, "PART"),
            Word({"m": "был", "f": "была", "n": "было", "p": "были"}[gender], "AUX"),
            *tagged("очень" * quality.very, "ADV"),
            Word(self._agreeing(quality.adjective, "ins", gender), "ADJ"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        if asked == "agent":
            verb = Word(self._past(event.verb)[0], "VERB")
            return [*self.asking_word(asked), verb, *self._rest(event, asked)]
        if asked == "patient":
            return [*self.asking_word(asked), self._verb(event), *self.phrase(event.agent), *self._rest(event, asked)]
        return [*self.asking_word(asked), *self.phrase(event.agent), self._verb(event), *self._rest(event, asked)]

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        to = self.phrase(event.recipient, "dat") if event.recipient else []
        return [*to, *self.patient(event, asked), *self.place(event, asked), *self.time(event, asked)]

    def _verb(self, event: Event) -> Word:
        he, she, they = self._past(event.verb)
        if is_plural(event.agent):
            return Word(they, "VERB")
        return Word(she if self._verb_gender(event.agent) == "f" else he, "VERB")

    def _verb_gender(self, agent: Agent) -> str:
        if isinstance(agent, Organisation):
            return "m" if agent.kind != "company" or self.words.name(agent.name)[0][-1] != "а" else "f"
        return "m" if isinstance(agent, Thing) and agent.noun == "man" else self.gender(agent)

    def _past(self, verb: str) -> tuple[str, ...]:
        first, *others = self.words.verbs[verb]
        if others:
            return self.words.verbs[verb][-3:]
        return tuple(first[:-2] + ending for ending in ("л", "ла", "ли"))

    def location(self, place: Place) -> list[Word]:
        if isinstance(place, City):
            return [Word("в", "ADP"), *entity([Word(self.words.name(place.key)[2], "PROPN")], "LOC")]
        return [Word("на" if place.noun in self.words.at else "в", "ADP"), *self.phrase(place, "loc")]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        animate = self.words.nouns[thing.noun][1].endswith("a")
        gender = "m" if thing.noun == "man" else self.gender(thing)
        if thing.count > 1:
            return self._counted(thing, case, animate)
        if case == "acc" and animate and (thing.plural or gender == "m"):
            noun = self._noun(thing, "gen" if thing.plural or thing.noun != "man" else "acc")
            adjective_case = "gen"
        else:
            noun, adjective_case = self._noun(thing, case), case
        words = [Word(noun, "NOUN")]
        if thing.adjective:
            form = self._agreeing(thing.adjective, adjective_case, "p" if thing.plural else gender)
            words.insert(0, Word(form, "ADJ"))
        return words

    def _counted(self, thing: Thing, case: str, animate: bool) -> list[Word]:
        """Return the counted noun: two to four take the genitive singular, more (or living objects) the plural."""
        _, gender, genitive, _, many = self.words.nouns[thing.noun]
        numeral, noun = _NUMERALS[thing.count], genitive if thing.count < 5 else many
        if thing.count == 2 and gender[0] == "f":
            numeral = "две"
        if animate and case == "acc" and thing.count < 5:
            numeral, noun = _ANIMATE[thing.count], many
        adjective = [Word(self._agreeing(thing.adjective, "gen", "p"), "ADJ")] if thing.adjective else []
        return [Word(numeral, "NUM"), *adjective, Word(noun, "NOUN")]

    def _noun(self, thing: Thing, case: str) -> str:
        nominative, gender, genitive, plural, many = self.words.nouns[thing.noun]
        if thing.plural:
            return many if case == "gen" else plural
        if case == "loc" and thing.noun in self.words.locatives:
            return self.words.locatives[thing.noun]
        if case == "gen":
            return genitive
        return _decline(nominative, genitive, gender[0], case)

    def _agreeing(self, adjective: str, case: str, gender: str) -> str:
        stem, ending = self.adjective(adjective)[:-2], _HARD[case][gender]
        if self.adjective(adjective).endswith("ний"):
            return stem + ending[0].translate(_SOFT) + ending[1:]
        if case in ("nom", "acc") and gender == "m":
            return self.adjective(adjective)
        if stem[-1] in "гкхжшщч":
            ending = ending.replace("ы", "и")
        stressed = self.adjective(adjective).endswith("ой")
        if stem[-1] in "жшщч" and ending[0] == "о" and not stressed:
            ending = "е" + ending[1:]
        return stem + ending

    def person(self, person: Person, case: str) -> list[Word]:
        male = self.gender(person) == "m"
        forms = [_name(self.words.name(person.first), case, True)]
        if person.surname:
            forms.append(_name(self.words.name(person.surname), case, male))
        return entity([Word(form, "PROPN") for form in forms], "PER")

    def city(self, city: City, case: str) -> list[Word]:
        name = self.words.name(city.key)[0]
        if case == "acc" and name[-1] == "а":
            name = name[:-1] + "у"
        return entity([Word(name, "PROPN")], "LOC")

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = self.words.name(organisation.name)
        if organisation.kind == "company":
            return entity([Word(_name(name, case, False), "PROPN")], "ORG")
        ending = "у" if case == "dat" else ""
        if organisation.kind == "university":
            return entity([Word("Университет" + ending, "PROPN"), Word(name[1], "PROPN")], "ORG")
        return entity([Word("Банк" + ending, "PROPN"), Word(name[0], "PROPN")], "ORG")


def _name(forms: tuple[str, ...], case: str, declines: bool) -> str:
    """Return the accusative or dative of a name; a woman's surname in a consonant does not decline."""
    name = forms[0]
    if case == "nom":
        return name
    if len(forms) > 1:
        return forms[1 if case == "acc" else 2]
    if name[-1] == "а":
        return name[:-1] + ("у" if case == "acc" else "е")
    return name + ("а" if case == "acc" else "у") if declines else name


def _decline(nominative: str, genitive: str, gender: str, case: str) -> str:
    """Return accusative, dative or locative singular, from the nominative and the genitive."""
    if case == "nom" or (case == "acc" and gender != "f" and nominative[-1] not in "ая"):
        return nominative
    last = nominative[-1]
    if last in "ая":
        return nominative[:-1] + ({"а": "у", "я": "ю"}[last] if case == "acc" else "е")
    if gender == "f":
        return nominative if case == "acc" else nominative[:-1] + "и"
    if nominative == genitive:
        return nominative
    return genitive[:-1] + ("е" if case == "loc" else {"а": "у", "я": "ю"}[genitive[-1]])
