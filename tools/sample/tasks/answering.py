"""Draw questions on two or three sentences, which say who did what, where and when."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tools.sample.draw import Draw
from tools.sample.frames import Event, Role, Thing
from tools.sample.languages.grammar import Grammar, is_human
from tools.sample.words import join

ROLES: tuple[Role, ...] = ("agent", "patient", "place", "time")


@dataclass(frozen=True)
class Puzzle:
    """Some events, and a question on one of them that the others do not answer."""

    events: tuple[Event, ...]
    about: int
    asked: Role


@dataclass(frozen=True)
class Answered:
    """A puzzle in one language; ``start`` is where the answer begins in the context, in characters."""

    context: str
    question: str
    answer: str
    start: int


def puzzle(draw: Draw) -> Puzzle:
    """Draw an event, and others that share its doer, its verb, its place or its time."""
    while True:
        event = draw.event(negations=0)
        roles = answerable(event)
        if not roles:
            continue
        asked = draw.dice.pick(roles)
        others = [_distractor(draw, event) for _ in range(1 + draw.dice.chance(0.4))]
        if all(_tells_apart(event, asked, other) for other in others):
            about = draw.dice.below(len(others) + 1)
            return Puzzle((*others[:about], event, *others[about:]), about, asked)


def answerable(event: Event) -> list[Role]:
    """Return what can be asked of the event."""
    if isinstance(event.agent, str):
        return []
    return [role for role in ROLES if getattr(event, role) and not (role == "patient" and is_human(event.patient))]


def realise(grammar: Grammar, puzzle: Puzzle) -> Answered:
    """Write the puzzle's texts, and the answer as it stands in the context."""
    context, answer, start = "", "", -1
    for place, event in enumerate(puzzle.events):
        context += " " if context and grammar.spaced else ""
        words = grammar.sentence([event])
        text, starts = join(words, grammar.spaced)
        if place == puzzle.about:
            inside = [number for number, word in enumerate(words) if word.role == puzzle.asked]
            first, last = inside[0], inside[-1]
            start = len(context) + starts[first]
            answer = text[starts[first] : starts[last] + len(words[last].text)]
        context += text
    question = grammar.text(grammar.asking(puzzle.events[puzzle.about], puzzle.asked))
    return Answered(context, question, answer, start)


def _distractor(draw: Draw, event: Event) -> Event:
    """Draw another event that shares something with this one."""
    other = draw.event(negations=0)
    while isinstance(other.agent, str):
        other = draw.event(negations=0)
    chance = draw.dice.below(3)
    if chance == 0 and event.verb in ("buy", "find", "steal", "bring", "give", "show", "send", "sell"):
        patient = draw.thing(["thing"])
        return replace(other, verb=event.verb, patient=patient, recipient=event.recipient and draw.person())
    if chance == 1:
        return replace(other, agent=event.agent)
    return other


def _tells_apart(event: Event, asked: Role, other: Event) -> bool:
    """Return True if the question says something that the other event does not have."""
    if event.verb != other.verb:
        return True
    agents = asked != "agent" and event.agent != other.agent
    return agents or (asked != "patient" and _noun(event) != _noun(other))


def _noun(event: Event) -> object:
    return event.patient.noun if isinstance(event.patient, Thing) else event.patient
