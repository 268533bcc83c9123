"""Follow the parameters of one model through a training: flags, gradients, fingerprints, ties and labels."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.auditing.adapters import adapters_of, new_rows_of
from gradgate.auditing.discovery import chain, is_replicated
from gradgate.auditing.expectation import Expectation
from gradgate.auditing.fingerprints import Fingerprint, Sample, differs, fingerprints, nonzero
from gradgate.auditing.labels import LabelCounter
from gradgate.auditing.places import module_group, place_parameters
from gradgate.auditing.records import ModelRecord, ParameterRecord
from gradgate.auditing.skeleton import map_without_running
from gradgate.auditing.ties import Ties
from gradgate.layers.names import canonical_name

_HISTORIES = ("exp_avg_sq", "exp_avg", "momentum_buffer", "square_avg", "sum")


@dataclass
class Tracked:
    """A parameter with what is known of it.

    Attributes:
        parameter: kept only as long as its model lives.
        record: what the audit reports.
        before, after: fingerprints before the first step and at the last look.
        sample: of a 16-bit tensor.
    """

    parameter: Parameter
    record: ParameterRecord
    before: Fingerprint | None
    after: Fingerprint | None = None
    sample: Sample | None = None
    in_step: Fingerprint | None = field(default=None, repr=False)


class ModelWatch:
    """Follows one model. It holds its parameters, but not the model: they are looked at a last time when that dies.

    Args:
        root: the outermost module.
        expectation: what the user expects to learn; None for no expectation.
        taken: ``id`` of parameters that other watches follow.
        model: the module inside it that the user names; None to find one with a layer map.

    Attributes:
        tracked: by ``id`` of the parameter.
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
        self.record = ModelRecord(type(inner).__name__, replicated=is_replicated(root), mapped=layers is not None)
        self.tracked: dict[int, Tracked] = {}
        self._names: dict[str, Tracked] = {}
        self._foreign = {canonical_name(raw) for raw, each in inner.named_parameters() if id(each) in taken}
        self._follow(inner)
        if layers is not None:
            place_parameters(self.record.parameters, layers)
        self.record.adapters = adapters_of(inner)
        for name, rows in new_rows_of(inner).items():
            if name in self._names:
                self._names[name].record.new_rows = rows
        self._ties = Ties(inner, {name: each.before for name, each in self._names.items()})
        self._labels = LabelCounter(root, self.record.tokens)
        if expectation is not None:
            self.record.selected, self.record.selector_error = expectation.select(inner, layers)

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
            record = ParameterRecord(name, list(each.shape), dtype, module_group(name))
            if older is not None:
                record.group, record.tower, record.part = older.record.group, older.record.tower, older.record.part
                record.replaced = True
                self.tracked.pop(id(older.parameter), None)
                self.record.parameters[self.record.parameters.index(older.record)] = record
            else:
                self.record.parameters.append(record)
            sample = Sample(each) if each.dtype in (torch.float16, torch.bfloat16) else None
            self._names[name] = self.tracked[id(each)] = Tracked(each, record, before, sample=sample)

    def note_flags(self) -> None:
        """Note which parameters are open in the step that comes."""
        for each in self.tracked.values():
            each.record.opened |= each.parameter.requires_grad

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
        seen = [each for key, each in self.tracked.items() if key in held and each.parameter.requires_grad]
        for each in seen:
            each.record.looks += 1
        self.see_gradients(seen, held)
        risky = [
            each
            for key, each in self.tracked.items()
            if key in held and not each.parameter.requires_grad and each.parameter.grad is not None
        ]
        for each, found in zip(risky, fingerprints([each.parameter for each in risky]), strict=True):
            each.in_step = found

    def see_gradients(self, seen: Iterable[Tracked], held: Mapping[int, torch.optim.Optimizer | None]) -> None:
        """Note which parameters have a gradient, and which one that is not zero."""
        present = [each for each in seen if each.parameter.grad is not None]
        gradients = [_gradient(each.parameter) for each in present]
        for each, gradient, is_nonzero in zip(present, gradients, nonzero(gradients), strict=True):
            record = each.record
            record.had_gradient = True
            record.nonzero_gradient |= is_nonzero
            if each.sample is not None and is_nonzero:
                each.sample.see_gradient(gradient)
            if not record.nonzero_gradient:
                record.nonzero_gradient = _had_before(each.parameter, held.get(id(each.parameter)))

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
        closed = [each for each in self.tracked.values() if each.in_step is not None]
        for each, now in zip(closed, fingerprints([each.parameter for each in closed]), strict=True):
            each.record.moved_closed |= bool(differs(each.in_step, now))
            each.in_step = None
        if moved:
            self._see_moves([each for key, each in self.tracked.items() if key in held])

    def finish(self) -> None:
        """Look a last time, and let go of the parameters."""
        inner = self._inner()
        if inner is not None:
            self._ties.look(inner)
        self._let_go()

    def _on_death(self, _: object) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if not self._names:  # a model may die after its audit has ended
            return
        self._see_moves(list(self.tracked.values()))
        self._labels.finish()
        self.record.untied = self._ties.broken(
            {name for name, each in self._names.items() if each.record.learned},
            {name: each.after for name, each in self._names.items()},
        )
        self.tracked, self._names = {}, {}

    def _see_moves(self, seen: list[Tracked]) -> None:
        for each, now in zip(seen, fingerprints([each.parameter for each in seen]), strict=True):
            found = differs(each.before, now)
            if found is None:  # moved to another device or dtype: the last look stands
                continue
            each.after = now
            each.record.moved = found
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
    return candidates[0], None


def _gradient(parameter: Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


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
