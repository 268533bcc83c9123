"""The sample's gold labels: they follow from the frames, and every language carries the same ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.sample.draw import Dice, Draw
from tools.sample.frames import Both, Clause, Event, Quality, Thing
from tools.sample.languages import GRAMMARS
from tools.sample.lexicon import concepts
from tools.sample.tasks.answering import Puzzle, puzzle, realise
from tools.sample.tasks.inference import LABELS as INFERENCES
from tools.sample.tasks.inference import Label, inference
from tools.sample.tasks.sentiment import LABELS as SENTIMENTS
from tools.sample.tasks.sentiment import review

seeds = st.integers(0, 10**6)


def polarity(clause: Clause) -> int:
    """1 for praise, -1 for blame, 0 for neither."""
    words = concepts()
    if isinstance(clause, Quality):
        pole = {"positive": 1, "negative": -1, "neutral": 0}[words.polarity[clause.adjective]]
    else:
        pole = (clause.verb in words.verbs["praise"]) - (clause.verb in words.verbs["blame"])
        if isinstance(clause.patient, Thing) and clause.patient.adjective:
            assert words.polarity[clause.patient.adjective] == "neutral"
    return -pole if clause.negated else pole


def follows(premise: Clause, hypothesis: Clause) -> bool:
    """Whether the hypothesis is true wherever the premise is."""
    if isinstance(premise, Quality) and isinstance(hypothesis, Quality):
        return quality_follows(premise, hypothesis)
    if not isinstance(premise, Event) or not isinstance(hypothesis, Event) or premise.negated != hypothesis.negated:
        return False
    if hypothesis.agent == "nobody" or premise.negated:
        return wider(replace(hypothesis, agent=premise.agent), premise) and hypothesis.agent == premise.agent
    return wider(premise, hypothesis) and agent_covers(premise, hypothesis)


def quality_follows(premise: Quality, hypothesis: Quality) -> bool:
    if premise.negated:
        return replace(hypothesis, very=premise.very) == premise and hypothesis.very >= premise.very
    opposite = concepts().opposites.get(premise.adjective)
    if hypothesis.negated and hypothesis.adjective == opposite:
        return hypothesis.subject == premise.subject
    return replace(hypothesis, very=premise.very) == premise and hypothesis.very <= premise.very


def wider(event: Event, said: Event) -> bool:
    """Whether ``said`` has nothing that ``event`` lacks, doers aside."""
    same = event.verb == said.verb and event.recipient == said.recipient
    times = said.time in (None, event.time) and said.place in (None, event.place)
    patient, other = event.patient, said.patient
    if isinstance(patient, Thing) and isinstance(other, Thing) and other.adjective is None:
        patient = replace(patient, adjective=None)
    return same and times and patient == other


def agent_covers(event: Event, said: Event) -> bool:
    both = event.agent
    parts = (both.one, both.other) if isinstance(both, Both) else ()
    return said.agent in (both, "somebody", *parts)


def opposite(clause: Clause) -> list[Clause]:
    """What is true where the clause is not."""
    if isinstance(clause, Event) and clause.agent == "nobody":
        return [replace(clause, agent="somebody")]
    return [replace(clause, negated=not clause.negated)]


@settings(max_examples=150, deadline=None)
@given(seeds, st.sampled_from(INFERENCES))
def test_inference_labels_follow_from_the_frames(seed: int, label: Label) -> None:
    made = inference(Draw(Dice(seed)), label)
    contradicted = any(follows(made.premise, denial) for denial in opposite(made.hypothesis))
    assert (follows(made.premise, made.hypothesis), contradicted) == (label == "entailment", label == "contradiction")


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from(SENTIMENTS))
def test_reviews_add_up_to_their_label(seed: int, label: str) -> None:
    poles = {polarity(clause) for one in review(Draw(Dice(seed)), label).statements for clause in one.clauses} - {0}  # type: ignore[arg-type]
    assert poles == {"positive": {1}, "negative": {-1}, "mixed": {1, -1}, "neutral": set()}[label]


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_answers_stand_where_they_are_said_to(seed: int) -> None:
    made = puzzle(Draw(Dice(seed)))
    for grammar in GRAMMARS.values():
        answered = realise(grammar, made)
        assert answered.answer
        assert answered.context[answered.start :].startswith(answered.answer)
        assert answered.answer.strip() == answered.answer


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_only_one_event_answers_the_question(seed: int) -> None:
    made = puzzle(Draw(Dice(seed)))
    about = made.events[made.about]
    blank = replace(about, **{made.asked: None})
    rest = [event for place, event in enumerate(made.events) if place != made.about]
    assert blank not in [replace(event, **{made.asked: None}) for event in rest]


def test_answer_leaves_adpositions_out() -> None:
    event = Draw(Dice(1)).event()
    event = replace(event, verb="sleep", agent=Thing("doctor"), patient=None, recipient=None, negated=False)
    asked = Puzzle((replace(event, place=Thing("garden"), time=None),), 0, "place")
    answers = {code: realise(grammar, asked).answer for code, grammar in GRAMMARS.items()}
    assert answers["en"] == "the garden"
    assert answers["de"] == "Garten"
    assert answers["tr"] == "bahçede"
    assert answers["hi"] == "बग़ीचे"
    assert answers["zh"] == "那个花园"


@pytest.mark.parametrize("label", INFERENCES)
def test_a_premise_alone_does_not_give_the_label_away(label: Label) -> None:
    """Negation occurs on both sides of every label, so that the word "not" decides nothing."""
    draw = Draw(Dice(5))
    made = [inference(draw, label) for _ in range(300)]
    for clauses in ([one.premise for one in made], [one.hypothesis for one in made]):
        assert 0.1 < sum(clause.negated for clause in clauses) / 300 < 0.75
