"""Write Hindi: the verb last, the ergative, and a verb that agrees with its object unless that is marked."""

from __future__ import annotations

from tools.sample.frames import Agent, Both, Event, Organisation, Patient, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar, is_animate, is_plural
from tools.sample.words import Word, entity, in_role, tagged

_WHOM = {"का": "किसका", "की": "किसकी", "को": "किसको", "से": "किससे"}


class Hindi(Grammar):
    code = "hi"

    def event(self, event: Event) -> list[Word]:
        denied = event.negated or event.agent == "nobody"
        agent = in_role(self._ergative(event), "agent")
        before, verb = self._verb(event, None)
        return [*agent, *self._adjuncts(event, None), *before, *tagged("नहीं" * denied, "PART"), verb]

    def quality(self, quality: Quality) -> list[Word]:
        subject = quality.subject
        was = {"m": "था", "f": "थी", "m plural": "थे", "f plural": "थीं"}
        return [
            *self.phrase(subject),
            *tagged("बहुत" * quality.very, "ADV"),
            Word(self._agreeing(quality.adjective, self.gender(subject), subject.plural), "ADJ"),
            *tagged("नहीं" * quality.negated, "PART"),
            Word(was[self.gender(subject) + " plural" * subject.plural], "AUX"),
        ]

    def question(self, event: Event, asked: Role) -> list[Word]:
        before, verb = self._verb(event, asked)
        if asked == "agent":
            who = Word("कौन" if self._is_plain(event.verb) else "किसने", "PRON")
            return [*self._adjuncts(event, asked), *before, who, verb]
        asking = [] if asked == "patient" else self.asking_word(asked)
        return [*self._ergative(event), *self._adjuncts(event, asked), *before, *asking, verb]

    def _adjuncts(self, event: Event, asked: Role | None) -> list[Word]:
        to = [*self.phrase(event.recipient, "obl"), Word("को", "ADP")] if event.recipient else []
        return [*self.time(event, asked), *self.place(event, asked), *to]

    def _is_plain(self, verb: str) -> bool:
        return self.words.verbs[verb][0].endswith("!")

    def _ergative(self, event: Event) -> list[Word]:
        if self._is_plain(event.verb):
            return self.phrase(event.agent)
        if event.agent == "I":
            return [Word("मैंने", "PRON")]
        if event.agent in ("somebody", "nobody"):
            return [Word("किसी", "PRON"), Word("ने", "ADP")]
        return [*self.phrase(event.agent, "obl"), Word("ने", "ADP")]

    def _verb(self, event: Event, asked: Role | None) -> tuple[list[Word], Word]:
        """Return the object and what else precedes the verb, and the verb."""
        *light, verb = self.words.verbs[event.verb][0].removesuffix("!").split()
        if light and light[0] in _WHOM:
            marked = self._marked(event.patient, light[0], asked)
            return [*marked, *(Word(word, "NOUN") for word in light[1:])], Word(verb, "VERB")
        nouns = [Word(word, "ADJ" if word in ("साफ़", "ठीक", "बंद") else "NOUN") for word in light]
        patient = event.patient
        if asked == "patient":
            return [*self.asking_word(asked), *nouns], Word(verb, "VERB")
        if patient is None:
            form = verb if not self._is_plain(event.verb) or asked == "agent" else self._with(verb, event.agent)
            return nouns, Word(form, "VERB")
        if is_animate(patient) and not (isinstance(patient, Thing) and not patient.definite):
            return [*self._marked(patient, "को", asked), *nouns], Word(verb, "VERB")
        return [*in_role(self.phrase(patient), "patient"), *nouns], Word(self._with(verb, patient), "VERB")

    def _marked(self, patient: Patient | None, marker: str, asked: Role | None) -> list[Word]:
        if patient is None or asked == "patient":
            return [Word(_WHOM[marker], "PRON")]
        return [*in_role(self.phrase(patient, "obl"), "patient"), Word(marker, "ADP")]

    def _with(self, verb: str, what: Agent | Patient) -> str:
        """Return the perfective that agrees with an agent or an object."""
        people = (what.one, what.other) if isinstance(what, Both) else (what,)
        feminine = all(self.gender(one) == "f" for one in people)
        return perfective(verb, feminine, is_plural(what))

    def location(self, place: Place) -> list[Word]:
        on = isinstance(place, Thing) and place.noun == "station"
        return [*self.phrase(place, "obl"), Word("पर" if on else "में", "ADP")]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        gender = self.gender(thing)
        words = [Word(self._noun(thing, case), "NOUN")]
        if thing.adjective:
            form = self._agreeing(thing.adjective, gender, thing.plural or case == "obl")
            words.insert(0, Word(form, "ADJ"))
        if thing.count == 1 and not thing.definite:
            return [Word("एक", "DET"), *words]
        return [*self.numeral(thing), *words]

    def _noun(self, thing: Thing, case: str) -> str:
        direct, gender, *irregular = self.words.nouns[thing.noun]
        oblique, plural, oblique_plural = irregular or _forms(direct, gender)
        if thing.plural:
            return oblique_plural if case == "obl" else plural
        return oblique if case == "obl" else direct

    def _agreeing(self, adjective: str, gender: str, other: bool) -> str:
        """Return the agreeing form; ``other``: plural or oblique."""
        forms = self.words.adjectives[adjective]
        if "/" in forms[0]:
            return forms[0].split("/")[2 if gender == "f" else int(other)]
        if not forms[0].endswith("ा") or "!" in forms:
            return forms[0]
        return forms[0][:-1] + ("ी" if gender == "f" else "े" if other else "ा")

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        name = self.words.name(organisation.name)[0]
        head = {"university": " विश्वविद्यालय", "bank": " बैंक", "company": ""}[organisation.kind]
        return entity(tagged(name + head, "PROPN"), "ORG")


def perfective(masculine: str, feminine: bool, plural: bool) -> str:
    """Build a form of the perfective participle from its masculine singular."""
    if not feminine and not plural:
        return masculine
    if masculine.endswith("िया"):
        return masculine[:-3] + ("ीं" if plural else "ी") if feminine else masculine[:-2] + "ए"
    if masculine.endswith("या"):
        return masculine[:-2] + (("ईं" if plural else "ई") if feminine else "ए")
    return masculine[:-1] + (("ीं" if plural else "ी") if feminine else "े")


def _forms(direct: str, gender: str) -> tuple[str, str, str]:
    """Build oblique singular, direct plural and oblique plural by the rules."""
    if gender == "m":
        if direct.endswith("ा"):
            return direct[:-1] + "े", direct[:-1] + "े", direct[:-1] + "ों"
        return direct, direct, direct + "ों"
    if direct.endswith("ी"):
        return direct, direct[:-1] + "ियाँ", direct[:-1] + "ियों"
    if direct.endswith("ई"):
        return direct, direct[:-1] + "इयाँ", direct[:-1] + "इयों"
    return direct, direct + "ें", direct + "ों"
