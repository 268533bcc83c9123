"""Fit the head that a checkpoint brings to the labels of a task, by the names of its labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradgate.errors import UsageError, some_of
from gradgate.tasks.spelling import Spelling
from gradgate.training.weights import is_head

_GENERIC = re.compile(r"LABEL_\d+")
_SHOWN = 10
_ANOTHER = "head='fresh' draws a new one"


@dataclass(frozen=True)
class CheckpointHead:
    """The head that a checkpoint was saved with.

    Attributes:
        labels: the names of its outputs, in their order.
        architecture: the class of the model that it was saved from; None if its configuration does not say.
    """

    labels: tuple[str, ...]
    architecture: str | None

    @classmethod
    def of(cls, configuration: Any) -> CheckpointHead:
        """Return the head that a configuration describes, before a task changes it."""
        names = sorted((int(number), str(name)) for number, name in configuration.id2label.items())
        return cls(tuple(name for _, name in names), next(iter(configuration.architectures or ()), None))

    @property
    def has_names(self) -> bool:
        """False if the outputs are called ``LABEL_0`` and so on, as transformers does by default."""
        return not all(map(_GENERIC.fullmatch, self.labels))

    def places(self, labels: Sequence[str]) -> list[int | None]:
        """Return the output of each of a task's labels: by name, else by name in lower case; None without one."""
        for key in (str, _plain):
            theirs, ours = list(map(key, self.labels)), list(map(key, labels))
            if max(Counter(theirs).values()) == max(Counter(ours).values()) == 1:
                found = [theirs.index(name) if name in theirs else None for name in ours]
                if key is _plain or None not in found:
                    return found
        return [self.labels.index(name) if name in self.labels else None for name in labels]


def _plain(name: str) -> str:
    word = name.strip()
    return Spelling.of(["0", "1", word]).name(word).casefold()  # beside whole numbers, 2.0 is 2


@dataclass(frozen=True)
class HeadPlan:
    """The plan for a checkpoint's head.

    Attributes:
        places: for each label of the task the output of the checkpoint that it takes, None for a fresh one; None for a
            head that is fresh as a whole.
        note: a sentence for the user.
        outputs: of the checkpoint's head.
    """

    places: tuple[int | None, ...] | None
    note: str
    outputs: int = 0


def plan_head(
    head: CheckpointHead, labels: Sequence[str] | None, wanted: str | None, model: str, architecture: str
) -> HeadPlan | None:
    """Plan what to do with a checkpoint's head; None keeps it unchanged.

    Args:
        head: that was saved.
        labels: of the task, in the order of its outputs; None if they are not classes.
        wanted: ``fresh``, ``keep`` or None, as in the settings.
        model: the checkpoint, for messages.
        architecture: the class that the checkpoint is loaded as.

    Raises:
        UsageError: if the head should be kept, but neither the names nor the number of its labels say how.
    """
    if wanted == "fresh":
        return HeadPlan(None, f"The head of {model} is replaced by a fresh one, as head='fresh' asks for.")
    if head.architecture not in (None, architecture) and wanted is None:
        return HeadPlan(
            None, f"The head of {model} is that of a {head.architecture}, so the {architecture} gets a fresh one."
        )
    if labels is None:
        return None
    if not head.has_names:
        return _by_position(head, labels, wanted, model)
    return _by_name(head, labels, wanted, model)


def _by_position(head: CheckpointHead, labels: Sequence[str], wanted: str | None, model: str) -> HeadPlan | None:
    outputs = f"{len(head.labels)} outputs without names ({some_of(head.labels, _SHOWN)})"
    if wanted is None:
        by_position = " head='keep' keeps it by position." if len(head.labels) == len(labels) else ""
        return HeadPlan(None, f"The head of {model} has {outputs}, so it is replaced by a fresh one.{by_position}")
    if len(head.labels) != len(labels):
        raise UsageError(
            f"head='keep': the head of {model} has {outputs}, and the task has {len(labels)} labels "
            f"({some_of(labels, _SHOWN)}). Outputs without names are kept by position, which needs the same number. "
            f"{_ANOTHER}."
        )
    pairs = some_of([f"{theirs} is {ours}" for theirs, ours in zip(head.labels, labels, strict=True)], _SHOWN)
    note = f"The head of {model} is kept by position, as its outputs have no names: {pairs}."
    return HeadPlan(tuple(range(len(labels))), note, len(labels))


def _by_name(head: CheckpointHead, labels: Sequence[str], wanted: str | None, model: str) -> HeadPlan | None:
    places = head.places(labels)
    found = {place for place in places if place is not None}
    if None not in places and len(head.labels) == len(labels):
        order = "" if places == sorted(found) else f", in the task's order ({some_of(labels, _SHOWN)})"
        note = f"The head of {model} is kept: its labels are those of the task{order}."
        return HeadPlan(tuple(places), note, len(labels))
    foreign = [name for number, name in enumerate(head.labels) if number not in found]
    absent = [name for name, place in zip(labels, places, strict=True) if place is None]
    parts = [f"it has {some_of(foreign, _SHOWN)}, which the task lacks"] if foreign else []
    parts += [f"the task has {some_of(absent, _SHOWN)}, which it lacks"] if absent else []
    what = "; ".join(parts)
    if wanted is None:
        both = some_of(sorted(set(labels) - set(absent)), _SHOWN)
        shared = f" head='keep' keeps what both have: {both}." if found else ""
        return HeadPlan(None, f"The head of {model} is replaced by a fresh one: {what}.{shared}")
    if not found:
        raise UsageError(
            f"head='keep': no label of the head of {model} is one of the task's: {what}. Give the task a label_map "
            f"with the names of the head. {_ANOTHER}."
        )
    kept = some_of([name for name in labels if name not in absent], _SHOWN)
    return HeadPlan(tuple(places), f"The head of {model} is kept for {kept}: {what}.", len(head.labels))


def apply_plan(
    plan: HeadPlan,
    model: Any,
    drawn: Collection[str],
    find_rows: Callable[[], dict[str, int]],
    load_donor: Callable[[], Any],
) -> frozenset[str]:
    """Make the head of a loaded model as planned; return the parameters that are not as the checkpoint has them.

    Fresh parameters are drawn from torch's random state.

    Args:
        plan: for the head.
        model: loaded for the task; its head has the checkpoint's weights where their shapes fit.
        drawn: names of the parameters that are fresh because their shapes did not.
        find_rows: returns the parameters with one row per label, each with the axis of the rows.
        load_donor: returns the model with the checkpoint's own head, for a task with another number of labels.
    """
    if plan.places is None:
        fresh = frozenset(name for name, _ in model.named_parameters() if is_head(model, name))
        redraw(model, fresh - set(drawn))
        return fresh
    if plan.places == tuple(range(plan.outputs)):
        return frozenset()
    rows = find_rows()
    source = model if plan.outputs == len(plan.places) else load_donor()
    theirs = {name: source.get_parameter(name).detach().clone() for name in rows}
    if None in plan.places:
        redraw(model, set(rows) - set(drawn))
    with torch.no_grad():
        for name, axis in rows.items():
            ours = model.get_parameter(name)
            for row, place in enumerate(plan.places):
                if place is not None:
                    ours.select(axis, row).copy_(theirs[name].select(axis, place))
    return frozenset(rows)


def redraw(model: Any, names: Collection[str]) -> None:
    """Draw parameters again, as the model's class does for those that a checkpoint lacks."""
    owned = {id(parameter) for name, parameter in model.named_parameters() if name in names}

    def draw(module: nn.Module) -> None:
        own = [parameter for parameter in module.parameters(recurse=False) if id(parameter) in owned]
        if own:
            for marked in (module, *own):
                setattr(marked, "_is_hf_initialized", False)  # noqa: B010  transformers leaves alone what it has marked
            model._init_weights(module)

    with torch.no_grad():
        model.apply(draw)


def find_label_rows(build: Callable[[Any], Any], settings: Any) -> dict[str, int]:
    """Return the parameters with one row per label, each with the axis of the rows.

    They are those whose shapes differ between a model and one with a label more.

    Args:
        build: makes a model from a configuration; called on the meta device.
        settings: the configuration of the model.
    """
    larger = deepcopy(settings)
    larger.num_labels = settings.num_labels + 1
    with torch.device("meta"):
        shapes, others = (
            {name: tuple(parameter.shape) for name, parameter in build(each).named_parameters()}
            for each in (settings, larger)
        )
    return {
        name: next(axis for axis, size in enumerate(shape) if size != others[name][axis])
        for name, shape in shapes.items()
        if shape != others[name]
    }
