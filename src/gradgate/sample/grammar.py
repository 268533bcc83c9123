"""Clauses: what can be said well or ill of a thing and its parts, plainly or the other way round.

A clause is written without a capital or a full stop, in the past tense unless its function says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gradgate.sample.lexicon import Domain, Lexicon, Noun, Person

T = TypeVar("T")


class Dice:
    """Seeded picks. Only ``random()`` is used: it alone is promised to be the same in every Python version."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random() * len(choices))]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def weighted(self, choices: Sequence[tuple[int, T]]) -> T:
        """One of the (weight, choice) pairs' choices."""
        left = self._random() * sum(weight for weight, _ in choices)
        for weight, choice in choices:
            left -= weight
            if left < 0:
                return choice
        return choices[-1][1]


@dataclass(frozen=True)
class Claim:
    """An adjective said of something; ``bare`` is the subject without its article."""

    bare: str
    plural: bool
    adjective: str

    @property
    def subject(self) -> str:
        return f"the {self.bare}"

    @property
    def was(self) -> str:
        return "were" if self.plural else "was"

    def past(self) -> str:
        return f"{self.subject} {self.was} {self.adjective}"

    def present(self) -> str:
        return f"{self.subject} {'are' if self.plural else 'is'} {self.adjective}"


class Scene:
    """One thing under review, and those of its parts that the text has not mentioned yet."""

    def __init__(self, dice: Dice, words: Lexicon) -> None:
        self.dice = dice
        self.words = words
        self.domain: Domain = dice.pick(words.domains)
        self.thing: Noun = dice.pick(self.domain.things)
        self._unused = list(self.domain.parts)
        self._unused_events = {good: list(events) for good, events in self.domain.events.items()}
        self._heard: list[Person] = []

    def claim(self, good: bool) -> Claim:
        """A claim about a part that is new to the text."""
        quality, part = self._part()
        return Claim(part.text, part.plural, self.dice.pick(self.words.qualities[quality][good]))

    def claim_and_other(self, good: bool, other_good: bool) -> tuple[Claim, str]:
        """A claim, and another adjective that could be said of the same part."""
        quality, part = self._part()
        adjectives = self.words.qualities[quality]
        claim = Claim(part.text, part.plural, self.dice.pick(adjectives[good]))
        return claim, self.dice.pick([word for word in adjectives[other_good] if word != claim.adjective])

    def overall(self, good: bool) -> Claim:
        """A claim about the thing as a whole."""
        return Claim(self.thing.text, self.thing.plural, self.dice.pick(self.words.qualities["whole"][good]))

    def person(self) -> Person:
        """Somebody whom the text has not quoted yet."""
        person = self.dice.pick([one for one in self.words.people if one not in self._heard])
        self._heard.append(person)
        return person

    def event(self, good: bool) -> str:
        """Something that happened, or a plain claim once the text has told all that did."""
        left = self._unused_events[good]
        if not left:
            return self.claim(good).past()
        event = self.dice.pick(left)
        left.remove(event)
        return event

    def verb(self, forms: dict[bool, tuple[str, ...]], good: bool) -> tuple[str, str]:
        base, past = self.dice.pick(forms[good]).split("/")
        return base, past

    def _part(self) -> tuple[str, Noun]:
        part = self.dice.pick(self._unused)
        self._unused.remove(part)
        return part


def sentence(text: str) -> str:
    """The text with a capital, and with a full stop unless it ends in a mark of its own."""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def with_article(phrase: str) -> str:
    """``an orderly queue``: the phrase after its indefinite article."""
    vowel = phrase[0] in "aeio" or (phrase[0] == "u" and not phrase.startswith(("use", "uni")))
    return f"{'an' if vowel or phrase.startswith('hon') else 'a'} {phrase}"


def stated(scene: Scene, claim: Claim) -> str:
    """The claim as the writer's own view."""
    return scene.dice.weighted(
        (
            (5, claim.past()),
            (
                2,
                f"{claim.subject} {claim.was} {scene.dice.pick(('really', 'quite', 'truly'))} {claim.adjective}",
            ),
            (1, f"I found {claim.subject} {claim.adjective}"),
            (1, f"{claim.subject} struck me as {claim.adjective}"),
            (1, f"{claim.subject} turned out to be {claim.adjective}"),
        )
    )


def denied(scene: Scene, claim: Claim) -> str:
    """The claim turned round: the writer says that it does not hold."""
    subject, was, adjective = claim.subject, claim.was, claim.adjective
    return scene.dice.weighted(
        (
            (4, f"{subject} {was} not {adjective}"),
            (1, f"{subject} {was} not at all {adjective}"),
            (1, f"{subject} {was} by no means {adjective}"),
            (1, f"{subject} {was} anything but {adjective}"),
            (1, f"{subject} {was} far from {adjective}"),
            (1, f"{subject} {was} never {adjective}"),
            (1, f"there was nothing {adjective} about {subject}"),
            (1, f"nobody could call {subject} {adjective}"),
            (1, f"I would hardly call {subject} {adjective}"),
        )
    )


def fact(scene: Scene, good: bool) -> str:
    """A clause about a part of the thing that speaks for it (``good``) or against it."""
    return _one_of(scene, good, ((8, _stated_part), (6, _denied_part), (4, Scene.event), (2, _felt)))


def verdict(scene: Scene, good: bool) -> str:
    """A clause that judges the thing as a whole."""
    return _one_of(scene, good, ((4, _stated_whole), (3, _denied_whole), (3, _named), (3, _felt_whole)))


def plain(scene: Scene, good: bool) -> str:
    """A clause about a part that says it straight out."""
    return _one_of(scene, good, ((2, _plain_part), (1, Scene.event)))


def plain_verdict(scene: Scene, good: bool) -> str:
    return _one_of(scene, good, ((2, _plain_whole), (1, _plain_noun)))


def _one_of(scene: Scene, good: bool, choices: Sequence[tuple[int, Callable[[Scene, bool], str]]]) -> str:
    return scene.dice.weighted(choices)(scene, good)


def _stated_part(scene: Scene, good: bool) -> str:
    return stated(scene, scene.claim(good))


def _denied_part(scene: Scene, good: bool) -> str:
    return denied(scene, scene.claim(not good))


def _stated_whole(scene: Scene, good: bool) -> str:
    return stated(scene, scene.overall(good))


def _denied_whole(scene: Scene, good: bool) -> str:
    return denied(scene, scene.overall(not good))


def _felt(scene: Scene, good: bool) -> str:
    return _feeling(scene, scene.claim(good), good)


def _felt_whole(scene: Scene, good: bool) -> str:
    return _feeling(scene, scene.overall(good), good)


def _feeling(scene: Scene, about: Claim, good: bool) -> str:
    """What the subject did to the writer, or the writer's feeling about it; a third of them negated."""
    negated = scene.dice.chance(0.35)
    pole = good != negated
    who = scene.dice.pick(("me", "us"))
    base, past = scene.verb(scene.words.effects, pole)
    effect = f"{about.subject} " + (f"did not {base} {who}" if negated else f"{past} {who}")
    base, past = scene.verb(scene.words.opinions, pole)
    opinion = f"{'I' if who == 'me' else 'we'} " + (f"did not {base}" if negated else past) + f" {about.subject}"
    return scene.dice.pick((effect, opinion))


def _plain_part(scene: Scene, good: bool) -> str:
    return scene.claim(good).past()


def _plain_whole(scene: Scene, good: bool) -> str:
    return scene.overall(good).past()


def _plain_noun(scene: Scene, good: bool) -> str:
    noun = scene.dice.pick(scene.words.verdict_nouns[good])
    return f"the {scene.thing.text} {'were' if scene.thing.plural else 'was'} {with_article(noun)}"


def _named(scene: Scene, good: bool) -> str:
    """A noun for the thing: "the inn was a delight", "the inn was no bargain"."""
    if scene.dice.chance(0.65):
        return _plain_noun(scene, good)
    noun = scene.dice.pick(scene.words.verdict_nouns[not good])
    denial = scene.dice.pick((f"no {noun}", f"hardly {with_article(noun)}", f"not exactly {with_article(noun)}"))
    return f"the {scene.thing.text} {'were' if scene.thing.plural else 'was'} {denial}"
