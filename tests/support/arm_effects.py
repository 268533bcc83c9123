"""Differences of an arm to full fine-tuning, as the advice pools them."""

from __future__ import annotations

from evidence.effects import CLASSIFY, SMALL, THOUSANDS, ArmEffect, Where

WHERE = Where(CLASSIFY, THOUSANDS, SMALL)


def effect(task: str, difference: float, variance: float = 0.1, arm: str = "lora", runs: int = 5) -> ArmEffect:
    """An effect on one task, in points."""
    return ArmEffect(WHERE, task, arm, f"{arm}:r=8", difference, variance, runs, "a study", memory=0.5)
