"""Define what one training leaves for its audit: plain values that a process writes and another one reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from gradgate.files import write_text

RECORD = "record-*.json"


@dataclass
class ParameterRecord:
    """Observations of one parameter of a model.

    Attributes:
        name: canonical name.
        shape, dtype: of the full tensor.
        group, tower, part: place in the layer map; ``group`` is the path of a module if the model has no map.
        opened: it required a gradient in at least one step.
        homes: groups that hold it, each as the place of its optimizer in :attr:`ModelRecord.optimizers` and its own.
        looks: looked steps in which it required a gradient.
        had_gradient, nonzero_gradient: in at least one look.
        moved: its bits differ from those before the first step; None if unknown.
        moved_unselected: rows of it have moved that the expectation does not select, though it selects others.
        moved_closed: an optimizer's step changed it while it required no gradient.
        moved_share: share of sampled elements with a gradient that changed, for 16-bit tensors; None if unknown.
        not_finite: an element is NaN or infinite at the last look.
        replaced: another tensor had its name when training began.
        new_rows: size of the table in the pretrained model, if it has grown since; else 0.
        resumed_without: the restored optimizer had states of other parameters, but none of this one.
        sharded: other processes have other elements of it.
        empty: no observed process has an element of it.
        start, end: digests of its bits before the first step and at the last look; empty if sharded or unknown.
    """

    name: str
    shape: list[int]
    dtype: str
    group: str = ""
    tower: str = ""
    part: str = ""
    opened: bool = False
    homes: list[list[int]] = field(default_factory=list)
    looks: int = 0
    had_gradient: bool = False
    nonzero_gradient: bool = False
    moved: bool | None = None
    moved_unselected: bool = False
    moved_closed: bool = False
    moved_share: float | None = None
    not_finite: bool = False
    replaced: bool = False
    new_rows: int = 0
    resumed_without: bool = False
    sharded: bool = False
    empty: bool = False
    start: str = ""
    end: str = ""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def learned(self) -> bool:
        """True if it was open and moved, and not by weight decay alone."""
        only_zeros = self.had_gradient and not self.nonzero_gradient
        return bool(self.moved) and self.opened and not only_zeros

    def is_apart_from(self, other: ParameterRecord) -> bool:
        """Return True for a matrix that began with equal bits in two processes and ended with different ones."""
        ends = (self.end, other.end)
        return (
            len(self.shape) > 1 and bool(self.start) and self.start == other.start and all(ends) and len(set(ends)) > 1
        )

    def in_optimizers_after(self, count: int) -> ParameterRecord:
        """Return the record with its optimizers counted after as many others."""
        return replace(self, homes=[[optimizer + count, group] for optimizer, group in self.homes])

    def merged(self, other: ParameterRecord) -> ParameterRecord:
        """Return the observations of two processes that train the same model, as one."""
        known = [moved for moved in (self.moved, other.moved) if moved is not None]
        shares = [share for share in (self.moved_share, other.moved_share) if share is not None]
        flags = (
            "opened", "had_gradient", "nonzero_gradient", "moved_unselected", "moved_closed", "not_finite", "replaced",
            "resumed_without",
        )  # fmt: skip
        return replace(
            self,
            homes=self.homes or other.homes,
            looks=max(self.looks, other.looks),
            moved=any(known) if known else None,
            moved_share=max(shares, default=None),
            empty=self.empty and other.empty,
            **{name: getattr(self, name) or getattr(other, name) for name in flags},
        )


@dataclass
class OptimizerRecord:
    """One optimizer of a training.

    Attributes:
        name: of its class.
        steps: it took.
        first, last: numbers of its first and last step among the steps of all optimizers.
        groups: number of parameters of each group.
        rates: highest learning rate of each group in any step; None for a group without one.
        strangers: shapes of parameters that no module has and that had no gradient in any look.
        wraps: it steps by another optimizer, such as one inside SAM or Lookahead.
    """

    name: str
    steps: int = 0
    first: int = 0
    last: int = 0
    groups: list[int] = field(default_factory=list)
    rates: list[float | None] = field(default_factory=list)
    strangers: list[list[int]] = field(default_factory=list)
    wraps: bool = False


@dataclass
class AdapterRecord:
    """One adapter of PEFT.

    Attributes:
        kind: its type, such as LORA.
        targets: names of modules; empty for a regular expression.
        adapted: paths of the modules that have it.
        chosen_layers: the configuration chooses layers on purpose.
    """

    kind: str
    targets: list[str] = field(default_factory=list)
    adapted: list[str] = field(default_factory=list)
    chosen_layers: bool = False


@dataclass
class ModelObservations:
    """Observations of one model in one process.

    Attributes:
        name: of its class.
        variable: that the script has it in; empty if unknown.
        parameters: in the model's order.
        optimizers: those that hold at least one of its parameters, or stepped while it had gradients.
        steps: of the optimizer that took most.
        replicated: inside DistributedDataParallel.
        mapped: its groups come from a layer map.
        adapters: of PEFT.
        untied: pairs of names that shared a tensor, or should, and do not.
        tokens: labels under the loss of each observed batch.
        selected: names that the expectation selects; None without one.
        selector_error: why the expectation selects nothing.
        processes: that trained it together.
        apart: names of matrices that began with equal bits in these processes and ended with different ones.
        partly: names that learned in some of these processes only.
    """

    name: str
    parameters: list[ParameterRecord] = field(default_factory=list)
    variable: str = ""
    optimizers: list[OptimizerRecord] = field(default_factory=list)
    steps: int = 0
    replicated: bool = False
    mapped: bool = False
    adapters: list[AdapterRecord] = field(default_factory=list)
    untied: list[list[str]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    selected: list[str] | None = None
    selector_error: str = ""
    processes: int = 1
    apart: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)

    def rate(self, parameter: ParameterRecord) -> float:
        """Return the highest learning rate that a parameter had; infinity if its optimizer has none."""
        rates = [self.optimizers[optimizer].rates[group] for optimizer, group in parameter.homes]
        return max((float("inf") if rate is None else rate for rate in rates), default=0.0)

    @property
    def takes_part(self) -> bool:
        """False for a model of an earlier training: in no optimizer, with gradients and weights that stay the same."""
        return any(each.homes or each.had_gradient or each.moved for each in self.parameters)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Equal for copies of one model in several processes."""
        return (self.name, *((each.name, *each.shape) for each in self.parameters))

    def merged(self, other: ModelObservations) -> ModelObservations:
        """Return the observations of two processes that train the same model, as one."""
        pairs = list(zip(self.parameters, other.parameters, strict=True))
        in_step = self.steps == other.steps  # else one was cut off, and its last look was an earlier one
        apart = [one.name for one, two in pairs if in_step and one.is_apart_from(two)]
        partly = [one.name for one, two in pairs if in_step and one.learned != two.learned and not one.sharded]
        shift, elsewhere = len(self.optimizers), any(two.homes and not one.homes for one, two in pairs)
        return replace(
            self,
            parameters=[one.merged(two.in_optimizers_after(0 if one.homes else shift)) for one, two in pairs],
            optimizers=[*self.optimizers, *(other.optimizers if elsewhere else [])],
            processes=self.processes + other.processes,
            apart=list(dict.fromkeys((*self.apart, *apart))),
            partly=list(dict.fromkeys((*self.partly, *partly))),
            steps=max(self.steps, other.steps),
            tokens=[*self.tokens, *other.tokens],
            untied=[*self.untied, *(pair for pair in other.untied if pair not in self.untied)],
            replicated=self.replicated or other.replicated,
        )


@dataclass
class ProcessRecord:
    """The observations of one process.

    Attributes:
        rank: of the process among those that train together.
        models: that its optimizers trained.
        trouble: why the observation ended early; empty if it did not.
        ended: the process ended by itself; else this is what its latest look saw.
    """

    rank: int = 0
    models: list[ModelObservations] = field(default_factory=list)
    trouble: str = ""
    ended: bool = False

    def write(self, path: Path) -> None:
        """Write it as JSON; a reader never sees a part of it."""
        write_text(path, json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> ProcessRecord:
        """Read what :meth:`write` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        models = [
            ModelObservations(
                **{
                    **model,
                    "parameters": [ParameterRecord(**each) for each in model["parameters"]],
                    "optimizers": [OptimizerRecord(**each) for each in model["optimizers"]],
                    "adapters": [AdapterRecord(**each) for each in model["adapters"]],
                }
            )
            for model in content["models"]
        ]
        return cls(content["rank"], models, content["trouble"], content["ended"])


def merge(processes: Iterable[ProcessRecord]) -> list[ModelObservations]:
    """Return the models of all processes, those that processes of several ranks trained together once.

    Equal models of one rank, as of the runs of a search, were trained one after the other, so the first ones of all
    ranks belong together, then the second ones.
    """
    models: list[ModelObservations] = []
    places: dict[tuple[Any, ...], int] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for process in sorted(processes, key=lambda each: each.rank):
        for model in process.models:
            seen[process.rank, model.signature] += 1
            place = places.setdefault((seen[process.rank, model.signature], *model.signature), len(models))
            if place == len(models):
                models.append(model)
            else:
                models[place] = models[place].merged(model)
    return models
