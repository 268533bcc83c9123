"""Write Chinese: no inflection; classifiers, and time and place before the verb. Written without spaces."""

from __future__ import annotations

from tools.sample.frames import Event, Organisation, Person, Place, Quality, Role, Thing
from tools.sample.languages.grammar import Grammar
from tools.sample.words import Word, entity, tagged


class Chinese(Grammar):
    code = "zh"
    spaced = False

    def event(self, event: Event) -> list[Word]:
        return [*self.agent(event), *self._rest(event)]

    def quality(self, quality: Quality) -> list[Word]:
        adjective = self.adjective(quality.adjective)
        subject = self.phrase(quality.subject)
        if adjective.endswith("的"):
            no = tagged("不" * quality.negated, "ADV")
            return [*subject, *no, Word("是", "AUX"), Word(adjective[:-1], "ADJ"), Word("的", "PART")]
        degree = ["不", "太"] if quality.negated and quality.very else ["不"] if quality.negated else ["很"]
        if quality.very and not quality.negated:
            degree = ["非常"]
        return [*subject, *(Word(word, "ADV") for word in degree), Word(adjective, "ADJ")]

    def question(self, event: Event, asked: Role) -> list[Word]:
        if asked == "agent":
            return [*self.asking_word(asked), *self._rest(event, asked)]
        return [*self.phrase(event.agent), *self._rest(event, asked)]

    def _rest(self, event: Event, asked: Role | None = None) -> list[Word]:
        time = self.asking_word(asked) if asked == "time" else self.time(event)
        place = self.asking_word(asked) if asked == "place" else self.place(event)
        patient = self.asking_word(asked) if asked == "patient" else self.patient(event, asked)
        verb = self.words.verbs[event.verb][0]
        preposition, _, giving = verb.rpartition("/")
        to = [Word(preposition, "ADP"), *self.phrase(event.recipient)] if event.recipient else []
        stem = giving.removesuffix("~")
        stative, done = giving.endswith("~"), not event.negated and event.agent != "nobody"
        no = tagged(("不" if stative else "没有") * event.negated, "ADV")
        perfect = tagged("了" * (done and not stative), "PART")
        return [*time, *no, *place, *to, Word(stem, "VERB"), *perfect, *patient]

    def location(self, place: Place) -> list[Word]:
        return [Word("在", "ADP"), *self.phrase(place)]

    def thing(self, thing: Thing, case: str) -> list[Word]:
        noun, classifier = self.words.nouns[thing.noun]
        if thing.count == 0:
            words = [Word("那些", "DET")]
        elif thing.count > 1:
            words = [*self.numeral(thing), Word(classifier, "NOUN")]
        else:
            words = [
                Word("那" if thing.definite else "一", "DET" if thing.definite else "NUM"),
                Word(classifier, "NOUN"),
            ]
        if thing.adjective:
            adjective = self.adjective(thing.adjective).removesuffix("的")
            words += [Word(adjective, "ADJ"), Word("的", "PART")]
        return [*words, Word(noun, "NOUN")]

    def person(self, person: Person, case: str) -> list[Word]:
        words = [Word(self.words.name(person.first)[0], "PROPN")]
        if person.surname:
            words += [Word("·", "PUNCT"), Word(self.words.name(person.surname)[0], "PROPN")]
        return entity(words, "PER")

    def organisation(self, organisation: Organisation, case: str) -> list[Word]:
        head = {"university": "大学", "bank": "银行", "company": "公司"}[organisation.kind]
        return entity([Word(self.words.name(organisation.name)[0], "PROPN"), Word(head, "PROPN")], "ORG")
