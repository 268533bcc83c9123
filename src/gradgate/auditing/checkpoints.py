"""Compare two checkpoints tensor by tensor: what changed, by how much, where, and whether the change has a low rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text
from torch import Tensor

from gradgate.auditing.adapters import ADAPTER_PART, adapter_record
from gradgate.auditing.checkpoint_files import StoredWeights, open_checkpoint
from gradgate.auditing.findings import Finding, listed
from gradgate.auditing.fingerprints import finite
from gradgate.auditing.records import ModelObservations, ParameterRecord
from gradgate.auditing.report import EXPLAINED, Learned, as_text, verdict
from gradgate.auditing.rules.coverage import partial_coverage
from gradgate.auditing.rules.gradients import unused_by_design
from gradgate.auditing.rules.movement import NOT_FINITE
from gradgate.auditing.stored_layers import (
    StoredPlace,
    StoredSelection,
    adapted_modules,
    layers_of,
    layers_of_base,
    paired_names,
    places_of,
    places_of_adapter,
    select_adapted,
    select_stored,
    with_saved_modules,
)
from gradgate.errors import DeltaError, RunError, UsageError
from gradgate.files import read_json
from gradgate.layers.map import LayerMap, human
from gradgate.places import typed_path

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_MOST_RANK = 64  # a change of a higher rank counts as full
_LARGEST = 1 << 27  # elements of a matrix whose rank is measured
_RESIDUAL = 1e-3  # share of a change's norm that a low rank may leave out


@dataclass(frozen=True)
class TensorChange:
    """The change of one tensor.

    Attributes:
        name: in the trained checkpoint.
        place: its group and part.
        elements: of the tensor.
        changed: number of elements that differ; if the base has no such tensor, all of them, or in an adapter those
            that are not 0.
        relative: norm of the change over the norm of the base's tensor; None if the base has no such tensor.
        rank: of the change, if it is at most 64 and lower than a full one; None if it is full or unknown.
        new: the base has no tensor of this name and shape.
        finite: no element of the trained tensor is NaN or infinite.
    """

    name: str
    place: StoredPlace
    elements: int
    changed: int
    relative: float | None
    rank: int | None = None
    new: bool = False
    finite: bool = True


@dataclass(frozen=True)
class CheckpointAudit:
    """The changes between the first and the last checkpoint of a training.

    Attributes:
        base, trained: names of the checkpoints.
        changes: one per tensor of the trained checkpoint.
        absent: tensors of the base that the trained one lacks.
        findings: what probably was not meant.
        selector, selected: the expectation, and what it selects.
        strayed: tensors in which rows differ that the expectation does not select, though it selects others.
        adapter: the trained checkpoint is an adapter of PEFT, and the base is not.
    """

    base: str
    trained: str
    changes: tuple[TensorChange, ...]
    absent: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    selector: str | None = None
    selected: StoredSelection = field(default_factory=StoredSelection)
    strayed: tuple[str, ...] = ()
    adapter: bool = False

    @cached_property
    def learned(self) -> Learned:
        """The tensors that differ, without statistics of batches, which no gradient makes."""
        moved = [each for each in self.changes if each.changed and not each.name.endswith(_STATISTICS)]
        return Learned(tuple(each.name for each in moved), sum(each.elements for each in moved))

    @property
    def expected(self) -> bool | None:
        """True if exactly the selected tensors differ; None without an expectation, or if it cannot be checked."""
        if self.selector is None or self.selected.error:
            return None
        learned = set(self.learned.names)
        unused = {name for name in self.selected.names - learned if unused_by_design(name)}
        return learned == self.selected.names - unused and not self.strayed

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison with the keys of a training's audit; the number of steps is unknown."""
        return {
            "steps": None,
            "learned": self.learned.to_dict(),
            "findings": [each.to_dict() for each in self.findings],
            "expected": self.expected,
        }

    def shown(self, *, full: bool = False) -> Group:
        """Return the comparison as a table and sentences; with ``full``, one row per tensor."""
        moved, total = self.learned, sum(each.elements for each in self.changes)
        lines = [
            f"{self.trained} against {self.base}: {len(moved.names)} of {len(self.changes)} tensors changed, with "
            f"{human(moved.elements)} of {human(total)} elements"
        ]
        if self.adapter:
            lines.append(
                f"{self.trained} is an adapter: of its tensors that are new, those that are still zero have not "
                f"learned."
            )
        notes = [f"absent from the trained checkpoint: {listed(self.absent)}"] if self.absent else []
        notes += [f"{number}. {each.kind}: {each.text}" for number, each in enumerate(self.findings, 1)]
        notes += [EXPLAINED] if self.findings else []
        if self.selector is not None:
            notes += verdict(self.selector, self.expected, [self.selected.error])
        return Group(*map(Text, lines), self._table(full), *map(Text, notes))

    def text(self, *, full: bool = False) -> str:
        """Return :meth:`shown` as plain text."""
        return as_text(self.shown(full=full))

    def _table(self, full: bool) -> Table:
        columns = ("elements", "tensors changed", "elements changed", "relative change", "rank")
        table = Table("where", *(Column(name, justify="right") for name in columns), box=SIMPLE_HEAD)
        rows: dict[str, list[TensorChange]] = {}
        for each in self.changes:
            rows.setdefault(each.name if full else each.place.label, []).append(each)
        for where, members in rows.items():
            moved = sum(bool(each.changed) for each in members)
            table.add_row(
                where,
                human(sum(each.elements for each in members)),
                f"{moved} of {len(members)}" if moved else "-",
                f"{sum(each.changed for each in members) / max(1, sum(each.elements for each in members)):.1%}",
                _relative(members),
                _ranks(members),
            )
        return table


def _relative(members: list[TensorChange]) -> str:
    known = [each.relative for each in members if each.relative is not None]
    if not all(each.finite for each in members):
        return "not finite"
    if not known:
        return "new"
    if max(known) == math.inf:
        return "from 0"
    return f"{max(known):.2g}" if max(known) else "-"


def _ranks(members: list[TensorChange]) -> str:
    ranks = sorted({each.rank for each in members if each.rank is not None})
    return f"at most {ranks[-1]}" if len(ranks) > 1 else str(ranks[0]) if ranks else ""


def audit_checkpoints(base: str, trained: str, expect: str | None = None) -> CheckpointAudit:
    """Compare two checkpoints; one tensor of each is in memory at a time.

    Args:
        base, trained: folders of ``save_pretrained`` (safetensors or PyTorch files, also sharded), folders of PEFT,
            single files of tensors, names on the hub, or ``sample``.
        expect: selector of the weights that should differ.

    Raises:
        DeltaError: if there is no such checkpoint, a file is damaged or holds more than tensors, or the two have no
            tensor in common.
        UsageError: if the two are one.
    """
    if base == trained or (typed_path(base).exists() and typed_path(base).resolve() == typed_path(trained).resolve()):
        raise UsageError(
            f"{base} and {trained} are the same checkpoint. Pass the one that the training started from, then the "
            f"one that it ended with."
        )
    old, new = open_checkpoint(base), open_checkpoint(trained)
    adapter = new.adapter and not old.adapter
    layers = layers_of_base(new) if new.adapter and old.adapter else layers_of(old.folder if adapter else new.folder)
    if new.adapter and layers is not None:
        layers = with_saved_modules(layers, new)
    places = places_of_adapter(new, layers) if new.adapter else places_of(new, layers)
    changes = tuple(_changes(old, new, places))
    if all(each.new for each in changes) and not adapter:
        raise DeltaError(
            f"{trained} and {base} have no tensor of one name and shape: {listed(list(new.entries))} there, "
            f"{listed(list(old.entries))} in the base. Pass the base that it was trained from."
        )
    selected = StoredSelection()
    if expect is not None:
        selected = (select_adapted if new.adapter else select_stored)(new, layers, expect)
    strayed = tuple(_strayed(old, new, selected))
    found = CheckpointAudit(base, trained, changes, _absent(old, new), (), expect, selected, strayed, adapter)
    coverage = () if layers is None or not adapter else _coverage(new, layers)
    return replace(found, findings=(*_findings(found, old, new), *coverage))


def _coverage(new: StoredWeights, layers: LayerMap) -> Iterator[Finding]:
    """Find layers and modules of the base that an adapter misses, by the rule for trainings."""
    try:
        config = read_json(new.folder / "adapter_config.json")
    except RunError:
        return
    targets, layer_numbers = config.get("target_modules") or (), config.get("layers_to_transform")
    adapted = {path for name, path in adapted_modules(new, layers).items() if ADAPTER_PART.search(name)}
    record = adapter_record(str(config.get("peft_type", "adapter")), targets, layer_numbers, adapted)
    parameters = [
        ParameterRecord(name, list(layers.weights[name].shape), "", group.name, group.tower)
        for group in layers
        for name in group.parameter_names
    ]
    yield from partial_coverage(ModelObservations(layers.model, parameters, mapped=True, adapters=[record]))


def _absent(old: StoredWeights, new: StoredWeights) -> tuple[str, ...]:
    return () if new.adapter else tuple(sorted(set(old.entries) - set(paired_names(new.entries, old.entries).values())))


def _names_in_base(old: StoredWeights, new: StoredWeights) -> dict[str, str]:
    """Return the base's name of each tensor that both have, whatever prefix either class adds."""
    pairs = paired_names(new.entries, old.entries)
    return {name: there for name, there in pairs.items() if old.entries[there].shape == new.entries[name].shape}


def _strayed(old: StoredWeights, new: StoredWeights, selected: StoredSelection) -> Iterator[str]:
    """Yield the tensors in which rows differ that are not selected; rows that the base lacks are new."""
    pairs = paired_names(new.entries, old.entries)
    for name in selected.left_out.keys() & pairs.keys():
        before, after = old.read(pairs[name]), new.read(name)
        shared = min(len(before), len(after))
        parts = [slice(start, min(stop, shared)) for start, stop in selected.left_out[name]]
        if any(_count_changed(before[part].to(after.dtype), after[part]) for part in parts):
            yield name
    new.close()
    old.close()


def _changes(old: StoredWeights, new: StoredWeights, places: dict[str, StoredPlace]) -> Iterator[TensorChange]:
    names = _names_in_base(old, new)
    for group in new.grouped():
        for name in group:
            place, elements = places[name], new.entries[name].elements
            if name in names:
                yield _compared(name, place, old.read(names[name]), new.read(name))
            else:
                tensor = new.read(name)
                changed = int(tensor.count_nonzero()) if new.adapter else elements
                yield TensorChange(name, place, elements, changed, None, new=True, finite=all(finite([tensor])))
        new.close()
        old.close()


@torch.no_grad()
def _compared(name: str, place: StoredPlace, before: Tensor, after: Tensor) -> TensorChange:
    """Compare a tensor in the trained dtype: a base that was only cast has not changed."""
    cast = before.to(after.dtype)
    changed = _count_changed(cast, after)
    if not changed:
        return TensorChange(name, place, after.numel(), 0, 0.0)
    change = after.float() - cast.float()
    norm = float(cast.float().norm())
    size = float(change.norm())
    noise = torch.finfo(after.dtype).eps * norm / 2 if after.is_floating_point() else 0.0
    relative = size / norm if norm else math.inf
    rank = rank_of(change, noise)
    return TensorChange(name, place, after.numel(), changed, relative, rank, finite=all(finite([after])))


def _count_changed(before: Tensor, after: Tensor) -> int:
    """Return the number of elements that differ; NaN equals NaN."""
    differs = (before != after).logical_and(~(before.isnan() & after.isnan()))
    return int(differs.sum())


def rank_of(change: Tensor, noise: float = 0.0) -> int | None:
    """Return the rank of a matrix if it is at most 64 and lower than a full one, else None.

    The range is found by a product with random directions (Halko, Martinsson and Tropp, 2011), so that no full
    decomposition is computed.

    Args:
        change: of any shape; only matrices have a rank.
        noise: norm of what rounding may have added, which is not counted.
    """
    if change.dim() != 2 or min(change.shape) <= 1 or change.numel() > _LARGEST:
        return None
    width = min(_MOST_RANK + 8, min(change.shape))
    directions = torch.randn(change.shape[1], width, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr(change @ directions).Q
    inside = basis.T @ change
    total = float(change.norm())
    allowed = max(_RESIDUAL * total, noise)
    if allowed > total / 2 or not math.isfinite(total):
        return None
    rest = math.sqrt(max(0.0, total**2 - float(inside.norm()) ** 2))
    if rest > allowed:
        return None
    values = torch.linalg.svdvals(inside)
    tails = values.flip(0).square().cumsum(0).sqrt().flip(0)  # norm of what a lower rank leaves out
    rank = int((tails > allowed).sum())
    return rank if 0 < rank <= _MOST_RANK and 2 * rank < min(change.shape) else None


def _findings(audit: CheckpointAudit, old: StoredWeights, new: StoredWeights) -> Iterator[Finding]:
    learned, names = set(audit.learned.names), tuple(audit.learned.names)
    if not names:
        yield Finding(
            "no_gradient",
            (),
            "No tensor differs: nothing was learned, or the file is a copy of the base. Usual cause: the base was "
            "saved in place of the trained model, or every learning rate was 0. Audit the training itself: gradgate "
            "audit -- COMMAND.",
        )
    if audit.adapter and (zero := [each.name for each in audit.changes if each.new and not each.changed]):
        yield Finding(
            "zero_gradient",
            tuple(zero),
            f"{listed(zero)}: is still zero, as before training, so the adapter changes nothing there. Usual cause: no "
            f"gradient reached it, or it was saved before training. Audit the training itself.",
        )
    if broken := [each.name for each in audit.changes if each.changed and not each.finite]:
        yield Finding("not_finite", tuple(broken), NOT_FINITE.replace("{names}", listed(broken)))
    if audit.selector is not None and not audit.selected.error:
        if more := [name for name in names if name not in audit.selected.names]:
            yield Finding(
                "unexpected", tuple(more), f"{listed(more)}: changed, but the expectation does not select it."
            )
        if audit.strayed:
            text = f"{listed(audit.strayed)}: rows changed that the expectation does not select."
            yield Finding("unexpected", audit.strayed, text)
        if less := sorted(name for name in audit.selected.names - learned if not unused_by_design(name)):
            yield Finding("unexpected", tuple(less), f"{listed(less)}: was expected to change, but did not.")
    tables = [name for name in new.entries if name in old.entries and len(new.entries[name].shape) == 2]
    yield from _untied(old, new, [name for name in tables if new.entries[name].shape[0] > _MOST_RANK], learned)


def _untied(old: StoredWeights, new: StoredWeights, tables: list[str], learned: set[str]) -> Iterator[Finding]:
    """Find tables of embeddings and outputs that were equal in the base and are not any more."""
    inputs = [name for name in tables if "embed" in name or "wte" in name]
    outputs = [name for name in tables if "lm_head" in name or "decoder.weight" in name]
    for one in inputs:
        for other in outputs:
            if {one, other} & learned and new.entries[one] == new.entries[other]:
                was = torch.equal(old.read(one), old.read(other))
                if was and not torch.equal(new.read(one), new.read(other)):
                    yield Finding(
                        "untied",
                        (one, other),
                        f"{one} and {other}: were equal in the base, and differ now. Usual cause: one of them was "
                        f"replaced or wrapped alone. Call model.tie_weights() before training.",
                    )
    old.close()
    new.close()
