"""Write Turkish: the verb last, suffixes in vowel harmony, the accusative for what is definite."""

from __future__ import annotations

from tools.sample.frames import City, Event, Organisation, Person, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_plural
from tools.sample.words import Word, entity, tagged

_CLOSE = {"a": "ı", "ı": "ı", "o": "u", "u": "u", "e": "i", "i": "i", "ö": "ü", "ü": "ü"}
_OPEN = {"a": "a", "ı": "a", "o": "a", "u": "a", "e": "e", "i": "e", "ö": "e", "ü": "e"}
_VOICELESS = "fstkçşhp"
_CASES = {"nom": "", "acc": "(y)I", "dat": "(y)A", "loc": "DA"}


class Turkish(Grammar):
    code = "tr"

    def capital(self, letter: str) -> str:
        return "İ" if letter == "i" else letter.upper()

    def event(self, event: Event) -> list[Word]:
        agent = [] if event.agent == "I" else self.agent(event)
        adjuncts = [*self.time(event), *self.place(event), *self._recipient(event)]
        return [*agent, *adjuncts, *self.patient(event, None), *self._verb(event)]

    def quality(self, quality: Quality) -> list[Word]:
        adjective = self.adjective(quality.adjective)
        end = [Word(adjective, "ADJ"), Word("değildi", "AUX")]
        if not quality.negated:
            end = [Word(harmonise(adjective, "(y)DI"), "ADJ")]
        return [*self.phrase(quality.subject), *tagged("çok" * quality.very, "ADV"), *end]

    def question(self, event: Event, asked: Role) -> list[Word]:
        """Put the asking word before the verb; only indefinite words come between them."""
        agent = [] if asked == "agent" else self.phrase(event.agent)
        patient = self.patient(event, asked)
        definite = not isinstance(event.patient, Thing) or event.patient.definite
        before, after = (patient, []) if definite else ([], patient)
        adjuncts = [*self.time(event, asked), *self.place(event, asked), *self._recipient(event)]
        verb = self._verb(Event(event.verb, "somebody")) if asked == "agent" else self._verb(event)
        return [*agent, *before, *adjuncts, *self.asking_word(asked), *after, *verb]

    def _recipient(self, event: Event) -> list[Word]:
        return self.phrase(event.recipient, "dat") if event.recipient else []

    def _verb(self, event: Event) -> list[Word]:
        *before, stem = self.words.verbs[event.verb][0].split()
        if event.negated or event.agent == "nobody":
            stem = harmonise(stem, "mA")
        past = harmonise(stem, "DI")
        if event.agent == "I":
            past += "m"
        elif is_plural(event.agent):
            past = harmonise(past, "lAr")
        return [*(Word(word, "NOUN") for word in before), Word(past, "VERB")]

    def location(self, place: Place) -> list[Word]:
        return self.phrase(place, "loc")

    def thing(self, thing: Thing, case: str) -> list[Word]:
        forms = self.words.nouns[thing.noun]
        adjective = tagged(self.adjective(thing.adjective) if thing.adjective else "", "ADJ")
        counted = thing.count > 1 or (thing.count == 1 and not thing.definite)
        ending = "" if case == "acc" and counted else _CASES[case]
        noun = decline(harmonise(forms[0], "lAr") if thing.count == 0 else forms[0], ending, forms[-1])
        number = [Word("bir", "DET")] if thing.count == 1 and not thing.definite else self.numeral(thing)
        inner = [*number, *adjective] if thing.count > 1 else [*adjective, *number]
        return [*inner, Word(noun, "NOUN")]

    def person(self, person: Person, case: str) -> list[Word]:
        keys = [person.first, *([person.surname] if person.surname else [])]
        *first, last = (self.words.name(key)[0] for key in keys)
        return entity([*(Word(name, "PROPN") for name in first), _proper(last, case)], "PER")

    def city(self, city: City, case: str) -> list[Word]:
        return entity([_proper(self.words.name(city.key)[0], case)], "LOC")

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = self.words.name(organisation.name)[0]
        if organisation.kind == "company":
            return entity([_proper(name, case)], "ORG")
        head = "Üniversitesi" if organisation.kind == "university" else "Bankası"
        ending = "'" + harmonise(head, "nI").removeprefix(head) if case == "acc" else ""
        return entity(tagged(f"{name} {head}{ending}", "PROPN"), "ORG")


def harmonise(stem: str, suffix: str) -> str:
    """Add a suffix with vowel harmony: I and A take the vowel that harmonises, D is t after voiceless consonants.

    (y) stands only after vowels. A ``'`` at the end of the stem makes a last vowel a or u sound fronted or rounded.
    """
    bare = stem.removesuffix("'")
    vowel = next(letter for letter in reversed(bare.lower().replace("â", "a")) if letter in _CLOSE)
    if stem != bare:
        vowel = {"a": "e", "u": "o"}[vowel]
    ends_in_vowel = bare[-1].lower() in (*_CLOSE, "â")
    suffix = suffix.replace("(y)", "y" if ends_in_vowel else "")
    written = suffix.replace("D", "t" if bare[-1].lower() in _VOICELESS else "d")
    for letter in "AI":
        if letter in written:
            written = written.replace(letter, (_OPEN if letter == "A" else _CLOSE)[vowel])
    return bare + written


def decline(noun: str, ending: str, softened: str) -> str:
    """Return the noun with a case ending; before a vowel a last k, p, ç or t may soften."""
    if not ending:
        return noun.removesuffix("'")
    if ending.startswith("(y)") and not noun.endswith("lar") and not noun.endswith("ler"):
        noun = softened
    return harmonise(noun, ending)


def _proper(name: str, case: str) -> Word:
    """Add a case ending to a name, after an apostrophe; its last consonant does not soften."""
    bare = name.removesuffix("'")
    if not _CASES[case]:
        return Word(bare, "PROPN")
    return Word(f"{bare}'{harmonise(name, _CASES[case]).removeprefix(bare)}", "PROPN")
