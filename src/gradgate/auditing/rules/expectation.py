"""Find what learned against the user's expectation, or against what its own names say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradgate.auditing.adapters import ADAPTER_PART
from gradgate.auditing.findings import Finding, finding
from gradgate.auditing.records import ModelObservations, ParameterRecord
from gradgate.auditing.rules.gradients import unused_by_design
from gradgate.auditing.rules.movement import averages_of

_TEACHER = re.compile(r"(^|[._])(teacher|ref_model|reference_model)([._]|$)")
_MOST_OF_BASE = 0.5
UNSELECTED_ROWS = (
    "{names}: rows learned that the expectation does not select. Close them, as with a method on the selected rows, or "
    "select all rows. Weight decay moves rows without a gradient too."
)
_ADDED = re.compile(r"modules_to_save|prompt_|token_adapter")


def unexpected(model: ModelObservations) -> Iterator[Finding]:
    """Find what learned though it was not selected or is a teacher, and what was selected and did not learn."""
    if model.selected is not None and not model.selector_error:
        yield from _against_selection(model, set(model.selected))
    is_teacher = _TEACHER.search(model.variable)
    teachers = [each for each in model.parameters if each.learned and (is_teacher or _TEACHER.search(each.name))]
    if teachers and model.selected is None:
        yield finding(
            "unexpected",
            teachers,
            f"{{names}}{f' of {model.variable}' if is_teacher else ''}: is a teacher by its name, but learns. Usual "
            f"cause: its outputs are computed without torch.no_grad(), and the optimizer has all parameters. Call "
            f"teacher.requires_grad_(False).",
        )
    yield from _whole_base(model)
    yield from _apart(model)
    resumed = [each for each in model.parameters if each.resumed_without and each.learned]
    if resumed:
        yield finding(
            "unexpected",
            resumed,
            "{names}: learns, but the restored optimizer has no state of it, so the earlier part of this training did "
            "not train it. Usual cause: the model was frozen or wrapped differently before. Build the model as in the "
            "first run, then resume.",
        )


def _against_selection(model: ModelObservations, selected: set[str]) -> Iterator[Finding]:
    more = [each for each in model.parameters if each.learned and each.name not in selected]
    if more:
        yield finding(
            "unexpected",
            more,
            "{names}: learned, but the expectation does not select it. Freeze it, or add it to the selector.",
        )
    if moved := moved_outside_selection(model):
        yield finding(
            "unexpected",
            moved,
            "{names}: moved, but the expectation does not select it. A gradient of 0 freezes nothing: weight decay and "
            "momentum still move it. Set requires_grad to False and its grad to None, and leave it out of the "
            "optimizer.",
        )
    if rows := [each for each in model.parameters if each.learned and each.moved_unselected]:
        yield finding("unexpected", rows, UNSELECTED_ROWS)
    less = [
        each
        for each in model.parameters
        if each.name in selected and not each.learned and not each.empty and not unused_by_design(each.name)
    ]
    if less:
        frozen = sum(not each.opened for each in less)
        why = f" {frozen} of {len(less)} tensors never required grad." if frozen else ""
        yield finding("unexpected", less, f"{{names}}: was expected to learn, but did not.{why}")


def moved_outside_selection(model: ModelObservations) -> list[ParameterRecord]:
    """Return what moved without learning though it is not selected, except for moving averages of others."""
    meant = {*(model.selected or ()), *averages_of(model)}
    moved = [each for each in model.parameters if (each.moved or each.moved_closed) and not each.learned]
    return [each for each in moved if each.name not in meant]


def _apart(model: ModelObservations) -> Iterator[Finding]:
    """Find a model of which each process trains a copy of its own, and what learns in some processes only."""
    matrices = [each for each in model.parameters if each.learned and len(each.shape) > 1]
    apart = [each for each in matrices if each.name in model.apart]
    if 2 * len(apart) > len(matrices):
        yield finding(
            "unexpected",
            apart,
            f"{{names}}: began with equal values in {model.processes} processes and ended with different ones, so each "
            f"process trains a copy of its own. Usual cause: the model is not wrapped for data parallelism, or its "
            f"forward is called around the wrapper, as in model.module(...). Use accelerator.prepare(model) or "
            f"DistributedDataParallel, and call what it returns.",
        )
    partly = [each for each in model.parameters if each.name in model.partly]
    if partly:
        yield finding(
            "unexpected",
            partly,
            f"{{names}}: learns in some of {model.processes} processes only. Usual cause: it is frozen, or the "
            f"optimizer is made, under a condition on the rank. Build the same model and optimizer in each process.",
        )


def _whole_base(model: ModelObservations) -> Iterator[Finding]:
    """Find a pretrained model that learns under its adapters."""
    base = [each for each in model.parameters if not (ADAPTER_PART.search(each.name) or _ADDED.search(each.name))]
    learned = [each for each in base if each.learned]
    share = sum(each.elements for each in learned) / max(1, sum(each.elements for each in base))
    if model.adapters and model.selected is None and share > _MOST_OF_BASE:
        yield finding(
            "unexpected",
            learned,
            f"{{names}}: belongs to the pretrained model, which has adapters, but {share:.0%} of it learns. Usual "
            f"cause: requires_grad_(True) after get_peft_model, or a resumed run that opened the base. Load the "
            f"adapter with PeftModel.from_pretrained(..., is_trainable=True), and leave the base frozen.",
        )
