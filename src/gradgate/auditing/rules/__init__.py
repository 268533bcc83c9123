"""Check what a training did against what its author probably meant: one rule per kind of finding."""

from __future__ import annotations

from collections.abc import Iterable

from gradgate.auditing.findings import KINDS, Finding, Rule
from gradgate.auditing.records import ModelObservations
from gradgate.auditing.rules.coverage import partial_coverage
from gradgate.auditing.rules.expectation import unexpected
from gradgate.auditing.rules.gradients import no_gradient, unused, zero_gradient, zero_tokens
from gradgate.auditing.rules.movement import lost_update, moved_while_frozen, not_finite, untied
from gradgate.auditing.rules.optimizers import (
    empty_group,
    in_two_groups,
    not_in_optimizer,
    replaced,
    zero_learning_rate,
)

RULES: tuple[Rule, ...] = (
    not_in_optimizer,
    in_two_groups,
    empty_group,
    no_gradient,
    zero_gradient,
    moved_while_frozen,
    lost_update,
    not_finite,
    zero_learning_rate,
    partial_coverage,
    untied,
    replaced,
    zero_tokens,
    unexpected,
    unused,
)


def findings_of(models: Iterable[ModelObservations]) -> list[Finding]:
    """Return the findings of all rules about all models, in the order of the kinds."""
    found = {finding: None for model in models for rule in RULES for finding in rule(model)}
    return sorted(found, key=lambda finding: KINDS.index(finding.kind))
