"""Draw premises and hypotheses: does the hypothesis follow from the premise, contradict it, or neither?

The frames decide what follows: a statement about what happened stays true with less detail, one about what did not
    happen with more. "Very big" makes "big" true, "not big" makes "not very big" true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tools.sample.draw import Draw, denied
from tools.sample.frames import Both, City, Clause, Event, Organisation, Person, Quality, Thing
from tools.sample.lexicon import concepts

Label: TypeAlias = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = ("entailment", "neutral", "contradiction")
Rewrite: TypeAlias = Callable[[Draw, Event], Event | None]


@dataclass(frozen=True)
class Inference:
    premise: Clause
    hypothesis: Clause
    label: Label


def inference(draw: Draw, label: Label) -> Inference:
    """Draw a premise and a hypothesis with this label."""
    while True:
        premise, hypothesis = _about_quality(draw, label) if draw.dice.chance(0.3) else _about_event(draw, label)
        if hypothesis is not None and hypothesis != premise:
            return Inference(premise, hypothesis, label)


def _about_event(draw: Draw, label: Label) -> tuple[Clause, Clause | None]:
    event = draw.event(negations=0.35)
    while isinstance(event.agent, str):
        event = draw.event(negations=0.35)
    return event, _hypothesis(draw, event, label)


def _hypothesis(draw: Draw, event: Event, label: Label) -> Event | None:
    if label == "entailment":
        return _more(draw, event) if event.negated else _less(draw, event)
    if label == "contradiction":
        if event.negated:
            said = replace(event, negated=False)
            return _more(draw, said) if draw.dice.chance(0.4) else said
        if isinstance(event.patient, Thing) and not event.patient.definite:
            return None
        less = _less(draw, event) if draw.dice.chance(0.6) else event
        return denied(less) if less and less.agent != "somebody" else less and _by_nobody(less)
    return _unrelated(draw, event)


def _by_nobody(event: Event) -> Event:
    return replace(event, agent="nobody")


def _less(draw: Draw, event: Event) -> Event | None:
    """Return something that is true if the event is; None if the draw does not apply."""
    choices = (_without_time, _without_place, _without_adjective, _by_somebody, _by_one_of_them)
    first = draw.dice.pick(choices)(draw, event)
    if first is None or draw.dice.chance(0.6):
        return first
    return draw.dice.pick(choices)(draw, first) or first


def _more(draw: Draw, event: Event) -> Event | None:
    """Add a place or a time that the event did not have."""
    return draw.dice.pick((_with_time, _with_place))(draw, event)


def _unrelated(draw: Draw, event: Event) -> Event | None:
    """Draw something that the event says nothing about; it may be denied as well."""
    chance = draw.dice.below(100)
    if chance < 45:
        other = _less(draw, event) if event.negated else _more(draw, event)
        if other is None or other.agent in ("somebody", "nobody") or other.agent != event.agent:
            return None
        if event.negated and other.patient != event.patient:
            return None
        return denied(other) if not event.negated and draw.dice.chance(0.35) and _definite(other) else other
    changed = _by_another(draw, event) if chance < 75 else _of_another(draw, event)
    if changed is None or not draw.dice.chance(0.4):
        return changed
    return replace(changed, negated=False) if changed.negated else denied(changed) if _definite(changed) else changed


def _definite(event: Event) -> bool:
    return not isinstance(event.patient, Thing) or event.patient.definite


def _without_time(draw: Draw, event: Event) -> Event | None:
    return replace(event, time=None) if event.time else None


def _without_place(draw: Draw, event: Event) -> Event | None:
    return replace(event, place=None) if event.place else None


def _without_adjective(draw: Draw, event: Event) -> Event | None:
    if isinstance(event.patient, Thing) and event.patient.adjective:
        return replace(event, patient=replace(event.patient, adjective=None))
    return None


def _by_somebody(draw: Draw, event: Event) -> Event | None:
    return None if isinstance(event.agent, Organisation | str) else replace(event, agent="somebody")


def _by_one_of_them(draw: Draw, event: Event) -> Event | None:
    if isinstance(event.agent, Both):
        return replace(event, agent=event.agent.one if draw.dice.chance(0.5) else event.agent.other)
    return None


def _with_time(draw: Draw, event: Event) -> Event | None:
    return None if event.time else replace(event, time=draw.dice.pick(concepts().times))


def _with_place(draw: Draw, event: Event) -> Event | None:
    return None if event.place or isinstance(event.patient, City) else replace(event, place=draw.city())


def _by_another(draw: Draw, event: Event) -> Event | None:
    agent = draw.someone() if isinstance(event.agent, Person) and draw.dice.chance(0.4) else draw.person()
    return None if isinstance(event.agent, Both) or agent == event.agent else replace(event, agent=agent)


def _of_another(draw: Draw, event: Event) -> Event | None:
    """Return the same done to another thing of the kind."""
    if not isinstance(event.patient, Thing):
        return None
    noun = draw.dice.pick(concepts().nouns[concepts().kinds[event.patient.noun]])
    if noun == event.patient.noun or (noun in concepts().uncountable and event.patient.count != 1):
        return None
    definite = event.patient.definite or noun in concepts().uncountable
    return replace(event, patient=replace(event.patient, noun=noun, definite=definite))


def _about_quality(draw: Draw, label: Label) -> tuple[Clause, Clause | None]:
    premise = draw.quality(("positive", "negative", "neutral"))
    opposite = concepts().opposites.get(premise.adjective)
    gradable = premise.adjective not in concepts().absolute
    if label == "entailment":
        if not gradable or premise.very == premise.negated:
            return premise, None
        return premise, replace(premise, very=premise.negated)
    if label == "contradiction":
        return premise, _denial(draw, premise, opposite)
    if draw.dice.chance(0.3) and gradable and premise.very == premise.negated:
        return premise, replace(premise, very=not premise.very)
    other = draw.quality(("positive", "negative", "neutral"), subject=premise.subject)
    if other.adjective in (premise.adjective, opposite):
        return premise, None
    return premise, other


def _denial(draw: Draw, premise: Quality, opposite: str | None) -> Quality | None:
    if premise.negated:
        gradable = premise.adjective not in concepts().absolute
        very = premise.very or (gradable and draw.dice.chance(0.4))
        return replace(premise, negated=False, very=very)
    if opposite and draw.dice.chance(0.5):
        return replace(premise, adjective=opposite, very=False)
    return replace(premise, negated=True, very=False)
