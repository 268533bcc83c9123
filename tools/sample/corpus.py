"""Generate unlabelled text for pretraining: reviews and stories in each language, and translated sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tools.sample.draw import Dice, Draw
from tools.sample.frames import Event, Role, Statement
from tools.sample.languages import GRAMMARS, SOURCE
from tools.sample.opinions import opinion
from tools.sample.tasks.answering import answerable
from tools.sample.words import Word

# Shares of the text by language, and of the translations by their non-English language.
TEXT = {"en": 30, "de": 12, "es": 12, "fr": 12, "ru": 9, "zh": 8, "el": 6, "tr": 6, "hi": 5, "sw": 4}
PARALLEL = {"de": 20, "es": 20, "fr": 20, "ru": 12, "zh": 10, "el": 8, "tr": 8, "hi": 6, "sw": 4}


@dataclass(frozen=True)
class Passage:
    """A text, or two: the second is a translation of the first, or it answers the question that the first asks."""

    first: str
    second: str | None = None
    translated: bool = False


def passages(
    seed: int,
    avoid: AbstractSet[str] = frozenset(),
    text: Mapping[str, int] = TEXT,
    parallel: Mapping[str, int] = PARALLEL,
) -> Iterator[Passage]:
    """Yield passages endlessly, the same for the same seed.

    Args:
        seed: of all draws.
        avoid: sentences that must not occur: those of the tasks.
        text, parallel: language -> how often it is drawn, for texts and questions, and for translations.
    """
    dice = Dice(seed)
    draw = Draw(dice)
    lone, paired = _repeated(text), _repeated(parallel)
    while True:
        chance = dice.below(100)
        if chance < 55:
            parts, translated = _translation(draw, paired), True
        elif chance < 80:
            parts, translated = [_in(dice.pick(lone), review(draw))], False
        else:
            parts, translated = _question(draw, dice.pick(lone)), False
        if not any(sentence in avoid for _, sentences in parts for sentence in sentences):
            first, *second = (joint.join(sentences) for joint, sentences in parts)
            yield Passage(first, second[0] if second else None, translated)


def review(draw: Draw) -> list[Statement]:
    """Draw one or two sentences with the same opinion, or with the opposite one after "but"."""
    good = draw.dice.chance(0.5)
    statements = []
    for _ in range(1 + draw.dice.below(2)):
        if draw.dice.chance(0.15):
            statements.append(Statement((draw.event(),)))
        elif draw.dice.chance(0.4):
            statements.append(Statement((opinion(draw, good),)))
        else:
            but = draw.dice.chance(0.4)
            statements.append(Statement((opinion(draw, good), opinion(draw, good != but)), "but" if but else "and"))
    return statements


Part = tuple[str, list[str]]
"""Sentences, and what stands between them."""


def _repeated(weights: Mapping[str, int]) -> list[str]:
    return [language for language, weight in weights.items() for _ in range(weight)]


def _translation(draw: Draw, paired: Sequence[str]) -> list[Part]:
    """Draw a sentence or a question in two languages, mostly with English as one of them."""
    one = draw.dice.pick(paired)
    other = SOURCE if draw.dice.chance(0.7) else draw.dice.pick(paired)
    while other == one:
        other = draw.dice.pick(paired)
    if draw.dice.chance(0.5):
        one, other = other, one
    if draw.dice.chance(0.15):
        event, asked = _askable(draw)
        return [_part(language, [GRAMMARS[language].asking(event, asked)]) for language in (one, other)]
    statement = _statement(draw)
    return [_in(language, [statement]) for language in (one, other)]


def _statement(draw: Draw) -> Statement:
    if draw.dice.chance(0.45):
        return Statement((draw.event(),))
    if draw.dice.chance(0.4):
        return Statement((draw.quality(("positive", "negative", "neutral")),))
    return review(draw)[0]


def _question(draw: Draw, language: str) -> list[Part]:
    """Draw a question and two sentences, one of which answers it."""
    event, asked = _askable(draw)
    statements = [Statement((event,)), Statement((draw.event(),))]
    if draw.dice.chance(0.5):
        statements.reverse()
    return [_part(language, [GRAMMARS[language].asking(event, asked)]), _in(language, statements)]


def _askable(draw: Draw) -> tuple[Event, Role]:
    while True:
        event = draw.event(negations=0)
        roles = answerable(event)
        if roles:
            return event, draw.dice.pick(roles)


def _in(language: str, statements: Sequence[Statement]) -> Part:
    return _part(language, [GRAMMARS[language].statement(one) for one in statements])


def _part(language: str, sentences: Sequence[list[Word]]) -> Part:
    grammar = GRAMMARS[language]
    return " " if grammar.spaced else "", [grammar.text(words) for words in sentences]
