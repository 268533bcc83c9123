"""Unlabelled text for pretraining: reviews and stories in each language, and the same sentences in two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gradgate.sample.draw import Dice, Draw
from gradgate.sample.frames import Event, Role, Statement
from gradgate.sample.languages import GRAMMARS, SOURCE
from gradgate.sample.opinions import opinion

# How much text there is in each language, and how many of its sentences stand beside a translation.
TEXT = {"en": 30, "de": 12, "es": 12, "fr": 12, "ru": 9, "zh": 8, "el": 6, "tr": 6, "hi": 5, "sw": 4}
PARALLEL = {"de": 20, "es": 20, "fr": 20, "ru": 12, "zh": 10, "el": 8, "tr": 8, "hi": 6, "sw": 4}
ROLES: tuple[Role, ...] = ("agent", "place", "time", "patient")


@dataclass(frozen=True)
class Passage:
    """A text, or two: ``kind`` says whether the second is a translation or belongs to the first."""

    kind: Literal["text", "translation", "question"]
    first: str
    second: str | None = None


def passages(count: int, seed: int, text=TEXT, parallel=PARALLEL) -> Iterator[Passage]:
    dice = Dice(seed)
    draw = Draw(dice)
    lone, paired = _weighted(text), _weighted(parallel)
    for _ in range(count):
        chance = dice.below(100)
        if chance < 45:
            yield _translation(dice, draw, paired)
        elif chance < 75:
            grammar = GRAMMARS[dice.pick(lone)]
            yield Passage("text", grammar.join_sentences([grammar.statement(one) for one in review(draw)]))
        else:
            yield _question(dice, draw, dice.pick(lone))


def _weighted(weights: dict[str, int]) -> list[str]:
    return [language for language, weight in weights.items() for _ in range(weight)]


def _translation(dice: Dice, draw: Draw, paired: list[str]) -> Passage:
    """Mostly with English, else between two others."""
    one = dice.pick(paired)
    other = SOURCE if dice.chance(0.7) else dice.pick(paired)
    while other == one:
        other = dice.pick(paired)
    if dice.chance(0.5):
        one, other = other, one
    if dice.chance(0.15):
        event, asked = askable(draw)
        return Passage(
            "translation", *(GRAMMARS[code].text(GRAMMARS[code].asking(event, asked)) for code in (one, other))
        )
    statement = any_statement(draw)
    return Passage("translation", *(GRAMMARS[code].text(GRAMMARS[code].statement(statement)) for code in (one, other)))


def any_statement(draw: Draw) -> Statement:
    dice = draw.dice
    if dice.chance(0.45):
        return Statement((draw.event(),))
    if dice.chance(0.4):
        return Statement((draw.quality(("positive", "negative", "neutral")),))
    return review(draw)[0]


def review(draw: Draw) -> list[Statement]:
    """One or two sentences that hold the same opinion, or turn it round after "but"."""
    good = draw.dice.chance(0.5)
    statements = []
    for _ in range(1 + draw.dice.below(2)):
        if draw.dice.chance(0.3):
            statements.append(Statement((draw.event(),)))
        elif draw.dice.chance(0.4):
            statements.append(Statement((opinion(draw, good),)))
        else:
            but = draw.dice.chance(0.4)
            statements.append(Statement((opinion(draw, good), opinion(draw, good != but)), "but" if but else "and"))
    return statements


def askable(draw: Draw) -> tuple[Event, Role]:
    while True:
        event = draw.event(negations=0)
        roles = asked_of(event)
        if roles:
            return event, draw.dice.pick(roles)


def asked_of(event: Event) -> list[Role]:
    from gradgate.sample.languages.grammar import is_human

    return [
        role
        for role in ROLES
        if getattr(event, role) is not None
        and event.agent not in ("I", "nobody", "somebody")
        and not (role == "patient" and is_human(event.patient))
    ]


def _question(dice: Dice, draw: Draw, language: str) -> Passage:
    grammar = GRAMMARS[language]
    event, asked = askable(draw)
    statements = [Statement((event,)), Statement((draw.event(),))]
    if dice.chance(0.5):
        statements.reverse()
    return Passage(
        "question",
        grammar.text(grammar.asking(event, asked)),
        grammar.join_sentences([grammar.statement(one) for one in statements]),
    )
