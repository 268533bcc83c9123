"""Read the setting ``fisher:every=50,batches=8`` for measurements during a run, and the lines that the run writes.

This module does not import torch; :mod:`gradgate.training.fisher_tracker` measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError, nearest
from gradgate.files import parse_json, remedy
from gradgate.measure.request import FisherRequest
from gradgate.specs import Syntax, shown

NAME = "fisher"
_SYNTAX = Syntax("track", error=UsageError, hint=lambda name: "options: every=50,batches=8")
_OPTIONS = {"every": "optimizer steps", "batches": "batches"}


@dataclass(frozen=True)
class FisherTrack:
    """The setting to measure tr(F) of each layer during a training.

    Attributes:
        every: optimizer steps between two measurements; the start and the end are measured too. FUN uses 100, and 50
            on its smallest task.
        batches: training batches per measurement; FUN uses 40.
    """

    every: int = 50
    batches: int = 8

    def __str__(self) -> str:
        return f"{NAME}:every={self.every},batches={self.batches}"

    def request(self, groups: Iterable[str], seed: int) -> FisherRequest:
        """Build the request: Eq. 1 of FUN, with labels drawn from the model, per-example gradients, no dropout."""
        return FisherRequest(groups=tuple(groups), batches=self.batches, seed=seed)

    def is_due(self, step: int, last: int) -> bool:
        """Return True if a measurement is due after ``step`` of ``last`` optimizer steps."""
        return step % self.every == 0 or step >= last


def read_track(text: str) -> FisherTrack:
    """Read a text such as ``"fisher:every=50,batches=8"``.

    Raises:
        UsageError: for any name but ``fisher``, an unknown option, or a number below 1.
    """
    spec = _SYNTAX.parse(text)
    if spec.name != NAME:
        raise UsageError(
            f"track={shown(text)}: there is nothing to track by the name {shown(spec.name)}."
            f"{nearest(spec.name, (NAME,))} Expected fisher:every=50,batches=8."
        )
    options = spec.typed(dict.fromkeys(_OPTIONS, int))
    for option, value in options.items():
        if value < 1:
            raise UsageError(
                f"track={shown(text)}: {option}={value} is not a number of {_OPTIONS[option]}; expected 1 or more."
            )
    return FisherTrack(**options)


@dataclass(frozen=True, kw_only=True)
class FisherRecord:
    """One measurement: a line of ``fisher.jsonl``.

    Attributes:
        step: optimizer steps done.
        epoch: passes over the training data so far.
        batches: number of batches measured.
        open: the layers that the next step may change.
        traces: layer to tr(F), including closed layers; from the bottom.
    """

    step: int
    epoch: float
    batches: int
    open: tuple[str, ...]
    traces: dict[str, float]

    def line(self) -> dict[str, Any]:
        """Return the values of a line."""
        return asdict(self)


def read_fisher(path: Path) -> tuple[FisherRecord, ...]:
    """Read the measurements in ``fisher.jsonl``, in order; none if the file does not exist.

    Raises:
        RunError: if the file cannot be read or a line is damaged, with the line's number.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RunError(f"Cannot read {path}: {error.strerror or error}. {remedy(path)}") from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_record(parse_json(line)))
        except KeyError as error:
            raise RunError(f"{path} is damaged in line {number}: it has no {error}. {remedy(path)}") from None
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None
    return tuple(records)


def _record(values: dict[str, Any]) -> FisherRecord:
    traces = {str(name): float(value) for name, value in values["traces"].items()}
    if not traces or not all(isfinite(value) and value >= 0 for value in traces.values()):
        raise ValueError("expected a trace of 0 or more per layer")
    return FisherRecord(
        step=int(values["step"]),
        epoch=float(values["epoch"]),
        batches=int(values["batches"]),
        open=tuple(map(str, values["open"])),
        traces=traces,
    )
