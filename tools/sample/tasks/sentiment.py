"""Draw reviews: is the writer positive, negative, mixed, or neutral?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tools.sample.draw import Draw
from tools.sample.frames import Clause, Statement
from tools.sample.opinions import neutral, opinion

Label: TypeAlias = Literal["positive", "negative", "mixed", "neutral"]
LABELS: tuple[Label, ...] = ("positive", "negative", "mixed", "neutral")


@dataclass(frozen=True)
class Review:
    """One or two sentences and their overall opinion."""

    statements: tuple[Statement, ...]
    label: Label


def review(draw: Draw, label: Label) -> Review:
    """Draw a review with this label: two clauses, and now and then a third that has no opinion."""
    dice = draw.dice
    clauses = _clauses(draw, label)
    if label != "mixed" and dice.chance(0.3):
        clauses = clauses[:1]
    elif label != "mixed" and dice.chance(0.25):
        place = dice.below(3)
        clauses = [*clauses[:place], neutral(draw), *clauses[place:]]
    return Review(_statements(draw, clauses), label)


def _clauses(draw: Draw, label: Label) -> list[Clause]:
    if label == "neutral":
        return [neutral(draw), neutral(draw)]
    if label == "mixed":
        good = draw.dice.chance(0.5)
        return [opinion(draw, good), opinion(draw, not good)]
    return [opinion(draw, label == "positive"), opinion(draw, label == "positive")]


def _statements(draw: Draw, clauses: list[Clause]) -> tuple[Statement, ...]:
    """Group clauses into statements, at most two per sentence."""
    if len(clauses) == 1:
        return (Statement((clauses[0],)),)
    joined = Statement((clauses[0], clauses[1]), "but" if draw.dice.chance(0.5) else "and")
    if len(clauses) == 2:
        return (joined,) if draw.dice.chance(0.7) else (Statement((clauses[0],)), Statement((clauses[1],)))
    if draw.dice.chance(0.5):
        return joined, Statement((clauses[2],))
    return Statement((clauses[0],)), Statement((clauses[1], clauses[2]), joined.joint)
