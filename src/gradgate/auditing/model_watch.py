"""Follow the parameters of one model through a training: flags, gradients, fingerprints, ties and labels."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.auditing.adapters import adapted_modules_of, adapters_of, merged_modules_of, new_rows_of
from gradgate.auditing.discovery import chain, is_replicated
from gradgate.auditing.expectation import Expectation
from gradgate.auditing.fingerprints import Fingerprint, Sample, differs, fingerprints, finite, nonzero
from gradgate.auditing.labels import LabelCounter
from gradgate.auditing.places import module_group, place_parameters
from gradgate.auditing.records import ModelObservations, ParameterRecord
from gradgate.auditing.sharding import is_shell, original_class, shapes_of_shards
from gradgate.auditing.skeleton import map_without_running
from gradgate.auditing.ties import Ties
from gradgate.distributed.shards import local
from gradgate.layers.names import canonical_name
from gradgate.layers.quantized import weight_shape
from gradgate.layers.selectors import Selection

_HISTORIES = ("exp_avg_sq", "exp_avg", "momentum_buffer", "square_avg", "sum")


@dataclass
class Tracked:
    """A parameter with what is known of it.

    Attributes:
        parameter: kept only as long as its model lives.
        record: what the audit reports.
        before, after: fingerprints before the first step and at the last look.
        sample: of a 16-bit tensor.
        in_step: fingerprint before the step that is watched, while it is closed.
        was_open: it required a gradient in the latest step.
        last_gradient: its gradient in the look before and the version of that, while no optimizer has it.
        is_fresh: it had another gradient in two looks.
    """

    parameter: Parameter
    record: ParameterRecord
    before: Fingerprint | None
    after: Fingerprint | None = None
    sample: Sample | None = None
    in_step: Fingerprint | None = field(default=None, repr=False)
    was_open: bool = False
    last_gradient: tuple[weakref.ref[Tensor], int] | None = field(default=None, repr=False)
    is_fresh: bool = False

    @property
    def gradient(self) -> Tensor | None:
        """The gradient of the parameter; None for a view that FSDP has put in its place during a forward."""
        return self.parameter.grad if self.parameter.is_leaf else None


class ModelWatch:
    """Follows one model. It holds its parameters, but not the model: they are looked at a last time when that dies.

    Args:
        root: the outermost module.
        expectation: what the user expects to learn; None for no expectation.
        taken: ``id`` of parameters that other watches follow.
        model: the module inside it that the user names; None to find one with a layer map.

    Attributes:
        tracked: by ``id`` of the parameter; empty once the audit has let go of the model.
        followed: ``id`` of each parameter that was ever tracked.
        record: what the audit reports.
    """

    def __init__(
        self,
        root: nn.Module,
        expectation: Expectation | None,
        taken: Container[int],
        model: nn.Module | None = None,
    ) -> None:
        inner, layers = _named_from(root if model is None else model)
        self._inner = weakref.ref(inner, self._on_death)
        self._shapes = shapes_of_shards(root)
        self.record = ModelObservations(
            original_class(inner).__name__, replicated=is_replicated(root), mapped=layers is not None
        )
        self.tracked: dict[int, Tracked] = {}
        self.followed: set[int] = set()
        self._names: dict[str, Tracked] = {}
        self._foreign = {canonical_name(raw) for raw, each in inner.named_parameters() if id(each) in taken}
        self._follow(inner)
        self._adapted = [
            weakref.ref(module, partial(self._on_unload, path)) for path, module in adapted_modules_of(inner).items()
        ]
        if layers is not None:
            place_parameters(self.record.parameters, layers)
        self.record.adapters = adapters_of(inner)
        for name, rows in new_rows_of(inner).items():
            if name in self._names:
                self._names[name].record.new_rows = rows
        self._ties = Ties(inner, {name: each.before for name, each in self._names.items()})
        self._labels = LabelCounter(root, self.record.tokens)
        self._unselected: dict[str, list[tuple[slice, Fingerprint | None]]] = {}
        if expectation is not None:
            self._expect(*expectation.select(inner, layers))

    def _expect(self, selection: Selection | None, error: str) -> None:
        """Note what is selected, and fingerprint the other rows of tables of which only some are."""
        self.record.selected, self.record.selector_error = list(selection.names if selection else ()), error
        for name, rows in (selection.left_out if selection else {}).items():
            each = self._names.get(name)
            if each is None:  # another watch follows it
                continue
            if each.record.sharded:
                self.record.selector_error = f"Rows of {name} cannot be checked: its shards are in several processes."
                continue
            slices = [slice(*ends) for ends in rows]
            found = fingerprints([each.parameter[part] for part in slices])
            self._unselected[name] = list(zip(slices, found, strict=True))

    def _follow(self, inner: nn.Module) -> None:
        """Begin to follow parameters that are new, or that have replaced others of their names."""
        named = {canonical_name(raw): each for raw, each in inner.named_parameters()}
        fresh = {
            name: each
            for name, each in named.items()
            if name not in self._foreign and (name not in self._names or self._names[name].parameter is not each)
        }
        for (name, each), before in zip(fresh.items(), fingerprints(list(fresh.values())), strict=True):
            older = self._names.get(name)
            dtype = str(each.dtype).removeprefix("torch.")
            shape = self._shapes.get(id(each), weight_shape(each))
            record = ParameterRecord(name, list(shape), dtype, module_group(name), sharded=id(each) in self._shapes)
            if older is not None:
                record.group, record.tower, record.part = older.record.group, older.record.tower, older.record.part
                record.replaced = True
                self.tracked.pop(id(older.parameter), None)
                self.record.parameters[self.record.parameters.index(older.record)] = record
            else:
                self.record.parameters.append(record)
            sample = Sample(each) if each.dtype in (torch.float16, torch.bfloat16) else None
            tracked = Tracked(each, record, before, sample=sample)
            record.empty = local(each)[0].numel() == 0  # all of its elements are in other processes
            record.start = "" if before is None or record.sharded else before.digest
            self._names[name] = self.tracked[id(each)] = tracked
            self.followed.add(id(each))

    def note_flags(self) -> set[int]:
        """Note which parameters are open in the step that comes, and return the ``id`` of those that closed."""
        closed = set()
        for key, each in self.tracked.items():
            is_open = each.parameter.requires_grad
            if each.was_open and not is_open:
                closed.add(key)
            each.was_open = is_open
            each.record.opened |= is_open
        return closed

    def before_look(self, held: Mapping[int, torch.optim.Optimizer | None]) -> None:
        """Look at the gradients of a step, and at what the optimizer may move though it is closed.

        Args:
            held: ``id`` of parameters to look at, with the optimizer that holds them, if any.
        """
        inner = self._inner()
        if inner is not None:
            self._follow(inner)
            self._ties.look(inner)
        self._labels.look()
        seen = [
            each
            for key, each in self.tracked.items()
            if key in held and each.parameter.requires_grad and not each.record.empty
        ]
        for each in seen:
            each.record.looks += 1
        self.see_gradients(seen, held)
        self.watch_closed(held)

    def watch_closed(self, keys: Iterable[int]) -> None:
        """Note what the step may move though it is closed: those of these parameters that have a gradient."""
        among = [self.tracked[key] for key in keys if key in self.tracked]
        risky = [each for each in among if not each.parameter.requires_grad and each.gradient is not None]
        for each, found in zip(risky, fingerprints([each.parameter for each in risky]), strict=True):
            each.in_step = found

    def see_closed(self) -> None:
        """Note which of the watched parameters the step has moved."""
        closed = [each for each in self.tracked.values() if each.in_step is not None]
        for each, now in zip(closed, fingerprints([each.parameter for each in closed]), strict=True):
            each.record.moved_closed |= bool(differs(each.in_step, now))
            each.in_step = None

    def see_gradients(self, seen: Iterable[Tracked], held: Mapping[int, torch.optim.Optimizer | None]) -> None:
        """Note which parameters have a gradient, and which one that is not zero."""
        present = [
            (each, gradient)
            for each in seen
            if (gradient := each.gradient) is not None and not self._is_left_over(each, gradient, held)
        ]
        found = nonzero([gradient for _, gradient in present])
        for (each, gradient), is_nonzero in zip(present, found, strict=True):
            record = each.record
            record.had_gradient = True
            record.nonzero_gradient |= is_nonzero
            if each.sample is not None and is_nonzero:
                each.sample.see_gradient(gradient)
            if not record.nonzero_gradient:
                record.nonzero_gradient = _had_before(each.parameter, held.get(id(each.parameter)))

    def _is_left_over(self, each: Tracked, gradient: Tensor, held: Mapping[int, torch.optim.Optimizer | None]) -> bool:
        """Return True for a gradient that nobody steps with and that is as in the look before.

        A model that was trained before the audit began may still have the gradients of its last step.
        """
        if held.get(id(each.parameter)) is not None or each.record.homes or each.is_fresh:
            return False
        version = local(gradient)[0]._version  # a shard counts what is added to it, its DTensor does not
        before, each.last_gradient = each.last_gradient, (weakref.ref(gradient), version)
        if before is None:
            return False
        each.is_fresh = before[0]() is not gradient or before[1] != version
        if not each.is_fresh:
            each.record.had_gradient = each.record.nonzero_gradient = False
        return not each.is_fresh

    def after_look(self, held: Mapping[int, torch.optim.Optimizer | None], *, moved: bool) -> None:
        """Look again after the step: gradients that the step computed itself, and what moved.

        Args:
            held: as for :meth:`before_look`.
            moved: fingerprint the parameters.
        """
        late = [
            each
            for key, each in self.tracked.items()
            if key in held and each.parameter.requires_grad and not each.record.had_gradient
        ]
        self.see_gradients(late, held)
        if moved:
            self._see_moves([each for key, each in self.tracked.items() if key in held])

    def finish(self) -> None:
        """Look a last time, and let go of the parameters."""
        inner = self._inner()
        merged: set[str] = set()
        if inner is not None:
            self._ties.look(inner)
            merged = merged_modules_of(inner)
        self._let_go(merged)

    def _on_death(self, _: object) -> None:
        self._let_go()

    def _on_unload(self, path: str, _: object) -> None:
        """Look a last time as the first module with an adapter goes, which was probably merged just before."""
        self._let_go({path})

    def _let_go(self, merged: Collection[str] = ()) -> None:
        """Look a last time, except at the modules of these paths, and let go of the parameters."""
        if not self._names:  # a model may die after its audit has ended
            return
        paths = tuple(f"{path}." for path in merged)
        self._see_moves([each for name, each in self._names.items() if not name.startswith(paths)])
        self._labels.finish()
        self.record.untied = self._ties.broken(
            {name for name, each in self._names.items() if each.record.learned},
            {name: each.after for name, each in self._names.items()},
        )
        self.tracked, self._names, self._adapted = {}, {}, []

    def _see_moves(self, seen: list[Tracked]) -> None:
        tensors: list[Tensor] = [each.parameter for each in seen]
        for each, now, is_finite in zip(seen, fingerprints(tensors), finite(tensors), strict=True):
            each.record.not_finite = not is_finite
            found = differs(each.before, now)
            if now is None or found is None or each.record.empty:  # moved to another device or dtype
                continue
            each.after = now
            rows = self._unselected.get(each.record.name, [])
            parts = fingerprints([each.parameter[part] for part, _ in rows])
            each.record.moved_unselected |= any(
                differs(before, part) for (_, before), part in zip(rows, parts, strict=True)
            )
            # What has moved and is put back, as for the next trial of a search, has moved.
            each.record.moved = bool(each.record.moved or found)
            each.record.end = "" if each.record.sharded else now.digest
            if each.sample is not None:
                share = each.sample.moved_share(each.parameter)
                each.record.moved_share = each.record.moved_share if share is None else share


def _named_from(root: nn.Module) -> tuple[nn.Module, Any]:
    """Return the module whose names the audit uses, with its layer map if it has one."""
    candidates = list(chain(root))
    for module in candidates:
        layers = map_without_running(module)
        if layers is not None:
            return module, layers
    return next((module for module in candidates if not is_shell(module)), root), None


def _had_before(parameter: Parameter, optimizer: torch.optim.Optimizer | None) -> bool:
    """Return True if the optimizer's state shows that the parameter had a gradient that was not zero."""
    if optimizer is None or parameter not in optimizer.state:
        return False
    group = next(group for group in optimizer.param_groups if any(each is parameter for each in group["params"]))
    decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay", False)
    if group.get("weight_decay") and not decoupled:  # decay alone fills the state
        return False
    state = optimizer.state[parameter]
    histories = [state[name] for name in _HISTORIES if isinstance(state.get(name), Tensor)]
    return any(nonzero(histories))
