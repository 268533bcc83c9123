"""Observe every optimizer step of a process by torch's global hooks, and look closely at a few of them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gradgate.auditing.discovery import ids, models_trained, variables_of_callers
from gradgate.auditing.expectation import Expectation
from gradgate.auditing.model_watch import ModelWatch
from gradgate.auditing.records import OptimizerRecord, ParameterRecord, ProcessRecord
from gradgate.auditing.uncompiled import uncompiled
from gradgate.errors import counted
from gradgate.hub import first_line


@dataclass
class _Stepped:
    """An optimizer that has stepped at least once.

    Attributes:
        looked: whether its latest step is one that is looked at closely.
    """

    optimizer: weakref.ref[torch.optim.Optimizer]
    record: OptimizerRecord
    looked: bool = False
    models: list[ModelWatch] = field(default_factory=list)
    strangers: dict[int, list[int]] = field(default_factory=dict)


class Watch:
    """Follows the optimizers of this process and the models that they train.

    An error within the observation ends it, never the training.

    Args:
        expectation: what the user expects to learn.
        looks_at: a step to look at, in addition to steps 1, 2, 4, 8, …, the last, and those of an optimizer whose
            groups have changed.
        models: those to follow; None for all that are trained.
        folder: where to write the record after each look; None to write nothing.
    """

    def __init__(
        self,
        expectation: Expectation | None = None,
        looks_at: int | None = None,
        *,
        models: Iterable[nn.Module] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._expectation, self._looks_at, self._folder = expectation, looks_at, folder
        self._stepped: dict[int, _Stepped] = {}
        self._models: list[ModelWatch] = []
        self._given = None if models is None else [weakref.ref(model) for model in models]
        self._ticks = self._rank = 0
        self.trouble = ""
        self._handles: list[Any] = []

    def start(self) -> None:
        """Begin to observe steps."""
        self._handles = [
            register_optimizer_step_pre_hook(uncompiled(self.before)),
            register_optimizer_step_post_hook(uncompiled(self.after)),
        ]

    def stop(self) -> ProcessRecord:
        """Look a last time, and return what was seen."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        try:
            for model in self._models:
                model.finish()
        except Exception as error:  # torch may be shutting down
            self._fail(error)
        return replace(self.record(), ended=True)

    def before(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Observe the beginning of a step."""
        self._guard(self._before, optimizer)

    def after(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Observe the end of a step."""
        self._guard(self._after, optimizer)

    def forget(self) -> None:
        """Forget everything, and continue with the next step; for a process that was forked from an observed one."""
        self._stepped, self._models, self._ticks = {}, [], 0

    def _guard(self, work: Callable[[torch.optim.Optimizer], None], optimizer: torch.optim.Optimizer) -> None:
        if self.trouble:
            return
        try:
            work(optimizer)
        except Exception as error:  # the training must not end because of its audit
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.trouble = self.trouble or f"{type(error).__name__}: {first_line(error)}"

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        stepped = self._of(optimizer)
        self._ticks += 1
        record = stepped.record
        record.steps += 1
        record.last = self._ticks
        record.first = record.first or self._ticks
        groups = record.groups
        _note_rates(record, optimizer)
        stepped.looked = self._is_look(record.steps) or record.groups != groups
        for model in stepped.models:
            closed = model.note_flags()
            model.record.steps = max(model.record.steps, record.steps)
            if closed:
                model.watch_closed(closed & _own(optimizer))
        if stepped.looked:
            self._look(stepped, optimizer)

    def _look(self, stepped: _Stepped, optimizer: torch.optim.Optimizer) -> None:
        held = self._held(stepped, optimizer)
        for model in stepped.models:
            model.before_look(held)
        self._note_homes(stepped, optimizer)
        self._rank = _rank()  # a script may leave its group before it ends

    def _after(self, optimizer: torch.optim.Optimizer) -> None:
        stepped = self._of(optimizer)
        for model in stepped.models:
            model.see_closed()
        if not stepped.looked:
            return
        held = self._held(stepped, optimizer)
        # The first fingerprints are only just taken; what a single step moves is seen at the end.
        for model in stepped.models:
            model.after_look(held, moved=stepped.record.steps > 1)
        if self._folder is not None:
            self.record().write(self._folder / f"record-{os.getpid()}.json")

    def _is_look(self, step: int) -> bool:
        return step & (step - 1) == 0 or step == self._looks_at

    def _of(self, optimizer: torch.optim.Optimizer) -> _Stepped:
        """Return what is known of an optimizer; the first time, find the models that it trains."""
        known = self._stepped.get(id(optimizer))
        if known is not None and known.optimizer() is optimizer:
            return known
        stepped = _Stepped(weakref.ref(optimizer), OptimizerRecord(type(optimizer).__name__))
        stepped.record.wraps = any(isinstance(each, torch.optim.Optimizer) for each in vars(optimizer).values())
        self._stepped[id(optimizer)] = stepped
        wanted = _own(optimizer)
        # A look at all live objects is slow, and some trainings have an optimizer per parameter.
        if not wanted <= {key for model in self._models for key in model.tracked}:
            self._follow(models_trained(wanted))
        for model in self._models:
            gradients = any(each.gradient is not None for each in model.tracked.values())
            if gradients or not wanted.isdisjoint(model.tracked):
                stepped.models.append(model)
                model.record.optimizers.append(stepped.record)
        _note_resumed(stepped, optimizer)
        return stepped

    def _follow(self, roots: Iterable[nn.Module]) -> None:
        """Begin to follow the models that an optimizer trains; of given ones, those that are among them."""
        variables = variables_of_callers()
        for root in roots:
            taken = {key for model in self._models for key in model.tracked}
            if self._given is None:
                named: list[nn.Module | None] = [None]
            else:
                inside = {id(module) for module in root.modules()}
                named = [model for ref in self._given if (model := ref()) is not None and id(model) in inside]
            for model in named:
                if not ids((root if model is None else model).parameters()) <= taken:
                    watch = ModelWatch(root, self._expectation, taken, model)
                    watch.record.variable = variables.get(id(root), "")
                    self._models.append(watch)

    def _held(self, stepped: _Stepped, optimizer: torch.optim.Optimizer) -> dict[int, Any]:
        """Return the parameters that a look at an optimizer's step is about: its own, and those that nobody holds."""
        others = {
            key
            for each in self._stepped.values()
            if each is not stepped and (other := each.optimizer()) is not None
            for key in _own(other)
        }
        free = {key: None for model in stepped.models for key in model.tracked if key not in others}
        return {**free, **dict.fromkeys(_own(optimizer), optimizer)}

    def _note_homes(self, stepped: _Stepped, optimizer: torch.optim.Optimizer) -> None:
        """Note which groups hold which parameter, and which parameters of the optimizer belong to no module."""
        tracked = {key: (model, each) for model in self._models for key, each in model.tracked.items()}
        silent: dict[int, list[int]] = {}
        for place, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) in tracked:
                    model, each = tracked[id(parameter)]
                    _add_home(model, each.record, stepped.record, place)
                elif parameter.grad is None:
                    silent[id(parameter)] = list(parameter.shape)
        before = silent if stepped.record.steps == 1 else stepped.strangers
        stepped.strangers = {key: shape for key, shape in before.items() if key in silent}
        stepped.record.strangers = list(stepped.strangers.values())

    def record(self) -> ProcessRecord:
        """Return what was seen so far, of the given models or of those that take part in the training."""
        followed = [model.record for model in self._models if model.record.steps]
        models = [each for each in followed if self._given is not None or each.takes_part]
        return ProcessRecord(self._rank, models, self.trouble)

    def untrained(self) -> list[str]:
        """Return a sentence per given model of which no optimizer held a weight while others were trained."""
        made = sorted((each.record.steps, each.record.name) for each in self._stepped.values())
        steps = {name: count for count, name in made}  # of those with one name, the optimizer that took most
        followed = {key for model in self._models if model.record.steps for key in model.followed}
        given = [model for ref in self._given or () if (model := ref()) is not None]
        names = [type(model).__name__ for model in given if ids(model.parameters()).isdisjoint(followed)]
        others = " and ".join(f"{counted(count, 'step')} of {name}" for name, count in steps.items())
        return [
            f"{name}: no optimizer holds a weight of it; the training made {others} on other weights. Audit the model "
            f"that is trained, not a copy or an earlier one."
            for name in names
            if steps
        ]


def _rank() -> int:
    """Return the rank of this process: that of its group if it is in one, else what a launcher says."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else 0


def _own(optimizer: torch.optim.Optimizer) -> set[int]:
    """Return the ``id`` of each parameter of an optimizer."""
    return ids(parameter for group in optimizer.param_groups for parameter in group["params"])


def _add_home(model: ModelWatch, parameter: ParameterRecord, optimizer: OptimizerRecord, group: int) -> None:
    number = next((n for n, one in enumerate(model.record.optimizers) if one is optimizer), None)
    if number is not None and [number, group] not in parameter.homes:
        parameter.homes.append([number, group])


def _note_rates(record: OptimizerRecord, optimizer: torch.optim.Optimizer) -> None:
    """Note the size and the highest rate of each group. Rates on a device are read at looks only."""
    record.groups = [len(group["params"]) for group in optimizer.param_groups]
    record.rates += [None] * (len(record.groups) - len(record.rates))
    for place, group in enumerate(optimizer.param_groups):
        rate = group.get("lr")
        if isinstance(rate, Tensor) and record.steps & (record.steps - 1):
            continue
        number = _number(rate)
        if number is not None:
            record.rates[place] = max(record.rates[place] or 0.0, number)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float | Tensor) else None


def _note_resumed(stepped: _Stepped, optimizer: torch.optim.Optimizer) -> None:
    """Note the parameters without a state in an optimizer that was restored with states of others."""
    own = ids(parameter for group in optimizer.param_groups if _is_restored(group) for parameter in group["params"])
    states = ids(parameter for parameter, state in optimizer.state.items() if state)
    if not states:  # a new optimizer
        return
    for model in stepped.models:
        for key, each in model.tracked.items():
            each.record.resumed_without |= key in own and key not in states and each.parameter.requires_grad


def _is_restored(group: dict[str, Any]) -> bool:
    """Return True for a group of an optimizer that ``load_state_dict`` has restored.

    An optimizer that has only trained before, as in an earlier phase, has states too. But a new group begins with its
    parameters, and a restored one, as ``state_dict`` writes it, has them after its options.
    """
    return next(iter(group)) != "params"
