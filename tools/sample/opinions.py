"""Draw clauses that praise or blame, stated directly or by denying the opposite."""

from __future__ import annotations

from tools.sample.draw import Draw, denied
from tools.sample.frames import Agent, Event, Quality, Thing
from tools.sample.lexicon import concepts


def opinion(draw: Draw, good: bool, denials: float = 0.2) -> Event | Quality:
    """Draw a quality, or what somebody thought; a share of them by denying the opposite."""
    dice = draw.dice
    negated = dice.chance(denials)
    pole = good != negated
    if dice.chance(0.65):
        quality = draw.quality(["positive" if pole else "negative"], 0.0)
        return Quality(quality.subject, quality.adjective, quality.very and not negated, negated)
    verb = dice.pick(concepts().verbs["praise" if pole else "blame"])
    patient = draw.patient(verb)
    if isinstance(patient, Thing):
        patient = Thing(patient.noun, 1 if patient.count == 1 else 0)
    agent: Agent = "I" if dice.chance(0.5) else draw.agent()
    event = Event(verb, agent, patient)
    return denied(event) if negated else event


def neutral(draw: Draw) -> Event | Quality:
    """Draw a clause without an opinion: what happened, or how a thing looked."""
    event = draw.event()
    if draw.dice.chance(0.4):
        return draw.quality(["neutral"])
    patient = event.patient
    if isinstance(patient, Thing) and patient.adjective and concepts().polarity[patient.adjective] != "neutral":
        return Event(
            event.verb,
            event.agent,
            Thing(patient.noun, patient.count, patient.definite),
            event.recipient,
            event.place,
            event.time,
            event.negated,
        )
    return event
