"""Define a finding: something in a training that probably is not what its author meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gradgate.auditing.records import ModelObservations, ParameterRecord
from gradgate.errors import some_of

Kind = Literal[
    "not_in_optimizer",
    "in_two_groups",
    "empty_group",
    "no_gradient",
    "zero_gradient",
    "moved_while_frozen",
    "lost_update",
    "not_finite",
    "zero_learning_rate",
    "partial_coverage",
    "untied",
    "replaced",
    "zero_tokens",
    "unexpected",
    "unused",
]
KINDS: tuple[str, ...] = get_args(Kind)
_SHOWN = 4


@dataclass(frozen=True)
class Finding:
    """A finding of one kind.

    Attributes:
        kind: one of :data:`KINDS`.
        names: canonical names of the parameters concerned, in the model's order; may be empty.
        text: what is so, its usual cause and its remedy.
    """

    kind: Kind
    names: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        return {"kind": self.kind, "names": list(self.names), "text": self.text}


Rule = Callable[[ModelObservations], Iterable[Finding]]


def finding(kind: Kind, concerned: Sequence[ParameterRecord], text: str) -> Finding:
    """Return a finding about parameters; ``{names}`` in its text becomes a short list of them."""
    names = tuple(each.name for each in concerned)
    return Finding(kind, names, text.replace("{names}", listed(names)))


def listed(names: Sequence[str]) -> str:
    """Return names in one line, shortened if there are many."""
    return some_of(names, _SHOWN)
