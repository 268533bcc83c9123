"""Report an audit: what learned, what is wrong, and whether an expectation came true."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from gradgate.auditing.findings import Finding
from gradgate.auditing.records import ModelObservations, ParameterRecord, ProcessRecord, merge
from gradgate.auditing.rules import findings_of
from gradgate.auditing.rules.expectation import moved_outside_selection
from gradgate.auditing.rules.gradients import unused_by_design
from gradgate.console import PlainConsole
from gradgate.errors import some_of
from gradgate.layers.map import human

_WIDTH = 160
EXPLAINED = 'The guide "Is it really training?" (docs/guides/audit.md) explains each finding under its name.'


@dataclass(frozen=True)
class Learned:
    """The tensors that learned: they were open, had a gradient and differ in the end from what they were before.

    Attributes:
        names: canonical names, in the order of the models.
        elements: of these tensors together.
    """

    names: tuple[str, ...]
    elements: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        return {"names": list(self.names), "elements": self.elements}


@dataclass(frozen=True)
class AuditReport:
    """The answer to "what did this training really train?".

    Attributes:
        models: observations, one per model; the processes that trained one together are merged.
        selector: the expectation; None for none.
        notes: what the audit could not see, and why.
    """

    models: tuple[ModelObservations, ...]
    selector: str | None = None
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls, processes: Iterable[ProcessRecord], selector: str | None = None, notes: Sequence[str] = ()
    ) -> AuditReport:
        """Return the report of what several processes saw."""
        each = list(processes)
        trouble = dict.fromkeys(f"The observation ended early: {one.trouble}." for one in each if one.trouble)
        return cls(tuple(merge(each)), selector, (*notes, *trouble, *_cut_off(each)))

    @property
    def steps(self) -> int:
        """Optimizer steps, of the optimizer that took most."""
        return max((model.steps for model in self.models), default=0)

    @cached_property
    def learned(self) -> Learned:
        """The weights that learned, once each if models of one variable have the same ones, as in a search.

        A name that models in several variables have comes after the variable.
        """
        sizes = {
            (model.variable, each.name, each.elements): each.elements
            for model in self.models
            for each in model.parameters
            if each.learned
        }
        places = {(variable, name) for variable, name, _ in sizes}
        several = {name for name, count in Counter(name for _, name in places).items() if count > 1}
        names = dict.fromkeys(
            f"{variable}.{name}" if variable and name in several else name for variable, name, _ in sizes
        )
        return Learned(tuple(names), sum(sizes.values()))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The problems that were found, in the order of their kinds."""
        return tuple(findings_of(self.models))

    @property
    def expected(self) -> bool | None:
        """True if exactly the selected parameters learned; None without an expectation, or if it cannot be checked.

        No other parameter may have moved, as by weight decay, unless it is a moving average of one that learns.
        A selected parameter that pretrained models have for other tasks, such as a pooler, need not learn if it has no
        gradient.
        """
        checked = [model for model in self.models if model.selected is not None and not model.selector_error]
        if self.selector is None or not checked:
            return None
        return all(map(_came_true, checked)) and not any(
            each.learned for model in self.models if model not in checked for each in model.parameters
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report for scripts, as ``gradgate audit --json`` prints it."""
        return {
            "steps": self.steps,
            "learned": self.learned.to_dict(),
            "findings": [each.to_dict() for each in self.findings],
            "expected": self.expected,
        }

    def shown(self, *, full: bool = False) -> Group:
        """Return the report as tables and sentences; with ``full``, layers are not collapsed and have their parts."""
        parts: list[Table | Text] = []
        for model in self.models:
            parts.append(Text(_headline(model, model.variable if len(self.models) > 1 else "")))
            parts.append(_table(model, full))
        if not self.models and not self.notes:
            parts.append(Text("No optimizer of torch made a step."))
        for number, each in enumerate(self.findings, 1):
            parts.append(Text(f"{number}. {each.kind}: {each.text}"))
        if self.findings:
            parts.append(Text(EXPLAINED))
        elif self.models:
            parts.append(Text("Nothing found."))
        parts += [Text(line) for line in (*self._verdict(), *self.notes)]
        return Group(*parts)

    def _verdict(self) -> list[str]:
        if self.selector is None:
            return []
        errors = list(dict.fromkeys(model.selector_error for model in self.models if model.selector_error))
        return verdict(self.selector, self.expected, errors)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, full: bool = False) -> str:
        """Return :meth:`shown` as plain text."""
        return as_text(self.shown(full=full))


def _cut_off(processes: Sequence[ProcessRecord]) -> list[str]:
    """Return a note on processes that did not end by themselves, of which only the last look is known."""
    killed = [each for each in processes if each.models and not each.ended]
    steps = sorted({model.steps for each in killed for model in each.models})
    if not killed:
        return []
    return [
        f"{len(killed)} of {len(processes)} processes ended by a signal or os._exit: their training is reported as "
        f"of step {some_of(list(map(str, steps)), 3)}, the last one that was observed."
    ]


def as_text(shown: Group) -> str:
    """Return what a console would print, as plain text."""
    out = io.StringIO()
    PlainConsole(file=out, width=_WIDTH).print(shown)
    return out.getvalue().rstrip("\n")


def verdict(selector: str, expected: bool | None, errors: Iterable[str]) -> list[str]:
    """Return whether an expectation came true as a line, with one per error if it cannot be checked."""
    word = {True: "as expected", False: "not as expected", None: "cannot be checked"}[expected]
    return [f"expectation {selector}: {word}", *(errors if expected is None else ())]


def _came_true(model: ModelObservations) -> bool:
    selected = set(model.selected or ()) - {each.name for each in model.parameters if each.empty}
    learned = {each.name for each in model.parameters if each.learned}
    strayed = any(each.learned and each.moved_unselected for each in model.parameters)
    unused = {each.name for each in model.parameters if unused_by_design(each.name) and not each.nonzero_gradient}
    others = learned - selected or moved_outside_selection(model)
    return not strayed and not others and selected - learned <= unused


def _headline(model: ModelObservations, variable: str) -> str:
    learned = [each for each in model.parameters if each.learned]
    elements, total = sum(each.elements for each in learned), sum(each.elements for each in model.parameters)
    share = elements / max(total, 1)
    steps = "1 step" if model.steps == 1 else f"{model.steps} steps"
    together = f" in {model.processes} processes" if model.processes > 1 else ""
    name = f"{model.name} ({variable})" if variable else model.name
    return (
        f"{name}: {human(elements)} of {human(total)} parameters ({share:.1%}) learned, in {len(learned)} of "
        f"{len(model.parameters)} tensors, over {steps}{together}"
    )


def _table(model: ModelObservations, full: bool) -> Table:
    """Return one row per tower, layer and part, or per run of layers in the same state."""
    rows = _rows(model, full)
    has_towers = any(each.tower for each in model.parameters)
    table = Table(
        *(["tower"] if has_towers else []),
        "where",
        *(["part"] if full else []),
        *(
            Column(name, justify="right")
            for name in ("elements", "requires grad", "in optimizer", "gradient", "learned")
        ),
        "optimizer",
        box=SIMPLE_HEAD,
    )
    for (tower, where, part), members in rows:
        states = (
            [each.opened for each in members],
            [bool(each.homes) for each in members],
            [each.had_gradient for each in members],
            [each.learned for each in members],
        )
        names = dict.fromkeys(model.optimizers[home[0]].name for each in members for home in each.homes)
        table.add_row(
            *([tower] if has_towers else []),
            where,
            *([part] if full else []),
            human(sum(each.elements for each in members)),
            *(_share(state) for state in states),
            ", ".join(names),
        )
    return table


def _share(flags: list[bool]) -> str:
    count = sum(flags)
    return "all" if count == len(flags) else "-" if not count else f"{count} of {len(flags)}"


Row = tuple[tuple[str, str, str], list[ParameterRecord]]


def _rows(model: ModelObservations, full: bool) -> list[Row]:
    members: dict[tuple[str, str, str], list[ParameterRecord]] = {}
    for each in model.parameters:
        members.setdefault((each.tower, each.group, each.part if full else ""), []).append(each)
    rows: list[Row] = list(members.items())
    if full:
        return rows
    collapsed: list[Row] = []
    for _, same in groupby(rows, key=_state):
        run = list(same)
        (tower, first, part), (_, last, _) = run[0][0], run[-1][0]
        numbers = first.rpartition(".")[2], last.rpartition(".")[2]
        is_run = len(run) > 1 and all(number.isdecimal() for number in numbers)
        together = [each for _, of_row in run for each in of_row]
        collapsed += [((tower, f"{first}-{numbers[1]}", part), together)] if is_run else run
    return collapsed


def _state(row: Row) -> tuple[Any, ...]:
    """Return what rows have in common that are shown as one: the path up to the number, and every flag."""
    (tower, group, _), members = row
    stem, _, number = group.rpartition(".")
    flags = tuple((each.opened, bool(each.homes), each.had_gradient, each.learned) for each in members)
    return tower, stem if number.isdecimal() else group, flags
