"""Read the setting ``fisher:every=50,batches=8`` of what a run tracks, and the lines that it writes.

Plain data, without torch. The measuring is in :mod:`gradgate.training.fisher_tracker`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError, nearest
from gradgate.files import parse_json, read_bytes, remedy
from gradgate.measure.request import FisherRequest
from gradgate.specs import Syntax, shown

NAME = "fisher"
_SYNTAX = Syntax("track", error=UsageError, hint=lambda name: "options: every=50,batches=8")
_OPTIONS = {"every": "optimizer steps", "batches": "batches"}


@dataclass(frozen=True)
class FisherTrack:
    """A setting to measure tr(F) of each layer during a training.

    Attributes:
        every: optimizer steps between two measurements; the start and the end are measured too. FUN takes 100, and 50
            on its smallest task.
        batches: training batches per measurement; FUN takes 40.
    """

    every: int = 50
    batches: int = 8

    def __str__(self) -> str:
        return f"{NAME}:every={self.every},batches={self.batches}"

    def request(self, groups: Iterable[str], seed: int) -> FisherRequest:
        """Return the request: Eq. 1 of FUN, labels drawn from the model, gradients of single examples, no dropout."""
        return FisherRequest(groups=tuple(groups), batches=self.batches, seed=seed)

    def is_due(self, step: int, last: int) -> bool:
        """Return whether to measure after ``step`` of ``last`` optimizer steps."""
        return step % self.every == 0 or step >= last


def read_track(text: str) -> FisherTrack:
    """Return the setting that a text such as ``"fisher:every=50,batches=8"`` describes.

    Raises:
        UsageError: if the text does not name ``fisher``, an option is unknown, or a number is below 1.
    """
    spec = _SYNTAX.parse(text)
    if spec.name != NAME:
        raise UsageError(
            f"track={shown(text)}: cannot track {shown(spec.name)}."
            f"{nearest(spec.name, (NAME,))} Expected fisher:every=50,batches=8."
        )
    given = spec.typed(dict.fromkeys(_OPTIONS, int))
    for option, value in given.items():
        if value < 1:
            raise UsageError(
                f"track={shown(text)}: {option}={value} is not a number of {_OPTIONS[option]}; expected 1 or more."
            )
    return FisherTrack(**given)


@dataclass(frozen=True, kw_only=True)
class FisherRecord:
    """One measurement: a line of ``fisher.jsonl``.

    Attributes:
        step: optimizer steps done.
        epoch: passes over the training data until then.
        batches: number of batches measured on.
        open: the layers that the next step may change.
        traces: layer to tr(F), from the bottom, including closed layers.
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
    """Return the measurements in ``fisher.jsonl``, in order; none if there is no such file.

    Raises:
        RunError: if the file cannot be read or a line is damaged; the line is named.
    """
    try:
        lines = read_bytes(path).splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}. {remedy(path)}") from error
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
        raise ValueError("expected a trace of 0 or more for each layer")
    return FisherRecord(
        step=int(values["step"]),
        epoch=float(values["epoch"]),
        batches=int(values["batches"]),
        open=tuple(map(str, values["open"])),
        traces=traces,
    )
