"""Draw facts in a row, and the sentence that says them: what a decoder is fine-tuned to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.sample.draw import Draw
from tools.sample.frames import Event, Role
from tools.sample.languages.grammar import Grammar
from tools.sample.words import Word, join

_ASKED: dict[Role, str] = {"agent": "who", "patient": "what", "place": "where", "time": "when"}


@dataclass(frozen=True)
class Description:
    """An event, and the order in which its facts are given: indices into them."""

    event: Event
    order: tuple[int, ...]


def description(draw: Draw) -> Description:
    """Draw an event with two facts or more in addition to what was done; nobody is given anything."""
    while True:
        event = draw.event()
        said = [role for role in _ASKED if getattr(event, role)]
        if event.recipient is None and len(said) > 1 and not isinstance(event.agent, str):
            return Description(event, _shuffled(draw, 1 + len(said) + event.negated))


def prompt(grammar: Grammar, item: Description) -> str:
    """Write ``what: two guitars | who: Anna | did: bring``, with ``not: true`` if it did not happen."""
    facts = [f"did: {item.event.verb}", *(f"{asked}: {phrase}" for asked, phrase in _facts(grammar, item.event))]
    if item.event.negated:
        facts.append("not: true")
    return " | ".join(facts[place] for place in item.order)


def asked(grammar: Grammar, item: Description) -> list[str]:
    """Write ``Who? Anna. What? two guitars.``: the facts of its sentence in the same order, for pretraining."""
    facts = _facts(grammar, item.event)
    shuffled = [facts[place - 1] for place in item.order if 0 < place <= len(facts)]
    return [f"{asked.capitalize()}? {phrase}." for asked, phrase in shuffled]


def response(grammar: Grammar, item: Description) -> str:
    """Write the sentence."""
    return grammar.text(grammar.sentence([item.event]))


def _facts(grammar: Grammar, event: Event) -> list[tuple[str, str]]:
    words = grammar.event(event)
    phrases = {asked: [word for word in words if word.role == role] for role, asked in _ASKED.items()}
    return [(asked, _text(grammar, phrase)) for asked, phrase in phrases.items() if phrase]


def _text(grammar: Grammar, words: Sequence[Word]) -> str:
    return join(words, grammar.spaced)[0]


def _shuffled(draw: Draw, count: int) -> tuple[int, ...]:
    left, order = list(range(count)), []
    while left:
        order.append(left.pop(draw.dice.below(len(left))))
    return tuple(order)
