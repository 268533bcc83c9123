"""Collect what may change a verdict: the limits of the studies that it is on, or of the authors' runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evidence.authors import COPIED, RATE_OF_FULL, UNTRAINED, read_rates
from evidence.limits import (
    AT_AN_END,
    DEV_ROWS,
    NAMES,
    REPRESENTATIONS,
    TRACES,
    Limit,
    limits_of,
    limits_of_measurements,
)
from evidence.studies import Study
from gradgate.papers.arms import task_label
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import FAILS

GLUE_ALONE = "GLUE alone"
_MEASUREMENT = {"F9": TRACES, "F10": TRACES, "A1": REPRESENTATIONS}
"""Claims that compare what an analysis measured, with the limit of its arms' learning rates."""
_ON_DEV = ("A9", "A10", "G4")
"""Claims that compare scores on dev, which our studies also pick the learning rates on."""


def limits_of_verdict(verdict: ClaimVerdict, studies: Mapping[str, Study]) -> dict[str, tuple[Limit, ...]]:
    """Return what limits a verdict, by study; of a claim that fails, by the studies of the tasks on which it does.

    Args:
        studies: all, by name; none of them has the authors' runs.
    """
    own = [studies[name] for part in verdict.parts if (name := Path(part).stem) in studies]
    if verdict.outcome.state == FAILS:
        tasks = {task for finding in verdict.outcome.findings if finding.state == FAILS for task in finding.tasks}
        own = [study for study in own if task_label(verdict.claim.paper, study.compare["task"]) in tasks] or own
    measured = _MEASUREMENT.get(verdict.claim.id)
    dev = (Limit(DEV_ROWS, "with no interval over rows"),) * (verdict.claim.id in _ON_DEV)
    return {
        study.name: (
            *limits_of(study),
            *(each for each in limits_of_measurements(study) if each.name == measured),
            *dev,
        )
        for study in own
    }


def limits_of_authors() -> tuple[str, ...]:
    """Return the limits of the authors' runs, by name."""
    edge = (AT_AN_END,) * any(rate.at_an_end for rate in read_rates())
    return GLUE_ALONE, RATE_OF_FULL, UNTRAINED, COPIED, *edge


def names_of(limits: Mapping[str, Sequence[Limit]]) -> list[str]:
    """Return the names of the limits of several studies, each once."""
    there = {limit.name for own in limits.values() for limit in own}
    return [name for name in (*NAMES, TRACES, REPRESENTATIONS, DEV_ROWS) if name in there]
