"""Write Swahili: noun classes, with which verbs, adjectives and numerals agree by their prefixes."""

from __future__ import annotations

from tools.sample.frames import Agent, Both, City, Event, Organisation, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_animate
from tools.sample.words import Word, entity, tagged

_SUBJECT = {1: "a", 2: "wa", 3: "u", 4: "i", 5: "li", 6: "ya", 7: "ki", 8: "vi", 9: "i", 10: "zi", 11: "u"}
_OF = {1: "wa", 2: "wa", 3: "wa", 4: "ya", 5: "la", 6: "ya", 7: "cha", 8: "vya", 9: "ya", 10: "za", 11: "wa"}
_ADJECTIVE = {1: "m", 2: "wa", 3: "m", 4: "mi", 5: "", 6: "ma", 7: "ki", 8: "vi", 11: "m"}
_BEFORE_E = {1: "mw", 2: "w", 3: "mw", 4: "my", 5: "j", 6: "m", 7: "ch", 8: "vy", 9: "ny", 10: "ny", 11: "mw"}


class Swahili(Grammar):
    code = "sw"

    def event(self, event: Event) -> list[Word]:
        agent = [] if event.agent == "I" else self.agent(event)
        return [*agent, *self._verb(event), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        number = self._class(quality.subject)
        was = f"{_negative(number)}kuwa" if quality.negated else f"{_SUBJECT[number]}likuwa"
        adjective = self._agreeing(quality.adjective, number)
        return [*self.phrase(quality.subject), Word(was, "AUX"), *adjective, *tagged("sana" * quality.very, "ADV")]

    def question(self, event: Event, asked: Role) -> list[Word]:
        if asked == "agent":
            asker = Event(event.verb, "somebody", event.patient, event.recipient)
            return [*self.asking_word(asked), *self._verb(asker), *self._rest(event, asked)]
        recipient = self.phrase(event.recipient) if event.recipient else []
        verb = Event(event.verb, event.agent, None if asked == "patient" else event.patient, event.recipient)
        before = [*recipient, *self.patient(event, asked)]
        inside = {"patient": 0, "place": 0, "time": 1}[asked]
        place, time = self.place(event, asked), self.time(event, asked)
        tail = [*place, *self.asking_word(asked), *time] if inside else [*self.asking_word(asked), *place, *time]
        return [*self.phrase(event.agent), *self._verb(verb), *before, *tail]

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        recipient = self.phrase(event.recipient) if event.recipient else []
        return [*recipient, *self.patient(event, asked), *self.place(event, asked), *self.time(event, asked)]

    def _verb(self, event: Event) -> list[Word]:
        stem, *after = self.words.verbs[event.verb][0].split()
        marked = event.recipient or (event.patient if is_animate(event.patient) else None)
        keeps_ku = stem.startswith("ku-")
        stem = self._object(marked, stem.removeprefix("ku-"))
        number = self._class(event.agent)
        subject = "ni" if event.agent == "I" else _SUBJECT[number]
        if event.agent == "nobody":
            verb = f"aliye{'ku' * keeps_ku}{stem}"
        elif event.negated:
            verb = ("si" if event.agent == "I" else _negative(number)) + "ku" + stem
        else:
            verb = f"{subject}li{'ku' * keeps_ku}{stem}"
        return [Word(verb, "VERB"), *(Word(word, "NOUN") for word in after)]

    def _object(self, marked: Agent | City | None, stem: str) -> str:
        if marked is None or isinstance(marked, City):
            return stem
        if self._class(marked) == 2:
            return "wa" + stem
        return ("mw" if stem[0] in "aeiou" else "m") + stem

    def location(self, place: Place) -> list[Word]:
        return [Word("mjini" if isinstance(place, City) else "kwenye", "ADP"), *self.phrase(place)]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        forms, number = self.words.nouns[thing.noun], self._class(thing)
        adjective = self._agreeing(thing.adjective, number) if thing.adjective else []
        words = [Word(forms[2 if thing.plural else 0], "NOUN"), *adjective]
        if thing.count > 1:
            words.append(Word(_prefixed(self.words.numerals[thing.count - 2], number), "NUM"))
        return words

    def _agreeing(self, adjective: str, number: int) -> list[Word]:
        form = self.adjective(adjective)
        if form.startswith("a "):
            return [Word(_OF[number], "ADP"), Word(form[2:], "NOUN")]
        return [Word(_prefixed(form, number), "ADJ")]

    def _class(self, agent: Agent) -> int:
        if isinstance(agent, Thing):
            return int(self.words.nouns[agent.noun][3 if agent.plural else 1])
        if isinstance(agent, Organisation):
            return 7 if agent.kind == "university" else 9
        return 2 if isinstance(agent, Both) else 1

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = Word(self.words.name(organisation.name)[0], "PROPN")
        if organisation.kind == "company":
            return entity([name], "ORG")
        if organisation.kind == "bank":
            return entity([Word("Benki", "PROPN"), Word("ya", "ADP"), name], "ORG")
        return entity([*tagged("Chuo Kikuu", "PROPN"), Word("cha", "ADP"), name], "ORG")


def _negative(number: int) -> str:
    return "ha" if number == 1 else "ha" + _SUBJECT[number]


def _prefixed(form: str, number: int) -> str:
    """Add the prefix of a noun class to an adjective or numeral; forms without ``-`` never change."""
    if not form.startswith("-"):
        return form
    stem = form[1:]
    if stem[0] == "e":
        return _BEFORE_E[number] + stem
    if number in (9, 10):
        return _nasal(stem)
    if number == 5 and stem == "pya":
        return "jipya"
    return _ADJECTIVE[number] + stem


def _nasal(stem: str) -> str:
    """Return the stem with the prefix of classes 9 and 10, which fuses with it."""
    if stem == "wili":
        return "mbili"
    if stem[0] == "r":
        return "nd" + stem[1:]
    if stem[0] == "b" or stem == "pya":
        return "m" + stem
    return ("n" if stem[0] in "dgjz" else "") + stem
