"""Read ``history.jsonl``: one line per logged training loss, and per evaluation on dev or a test split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from gradgate.errors import RunError
from gradgate.files import parse_json, read_bytes, remedy
from gradgate.runs.records import DEV, TRAIN
from gradgate.runs.scores import comparable

_UNUSED = "used_for_selection"


@dataclass(frozen=True, kw_only=True)
class TrainRecord:
    """The mean training loss since the line before, after ``step`` optimizer steps."""

    step: int
    epoch: float
    loss: float
    lr: float | None
    grad_norm: float | None
    open_fraction: float | None

    def line(self) -> dict[str, Any]:
        """Return the values of a line of ``history.jsonl``."""
        values = asdict(self)
        return {"step": values.pop("step"), "epoch": values.pop("epoch"), "split": TRAIN, **values}


@dataclass(frozen=True)
class DevRecord:
    """One evaluation on dev during training: metric name to value after ``step`` optimizer steps."""

    step: int
    metrics: dict[str, float]

    @property
    def epoch(self) -> float | None:
        """Passes over the training data until then; None if that was not noted."""
        epoch = self.metrics.get("epoch")
        return epoch if comparable(epoch) else None

    def line(self, epoch: float) -> dict[str, Any]:
        """Return the values of a line of ``history.jsonl``."""
        return {"step": self.step, "epoch": epoch, "split": DEV, **self.metrics}


@dataclass(frozen=True)
class EpochScores:
    """One evaluation on a test split during training: metric name to value. Nothing was selected by it."""

    step: int
    epoch: float
    split: str
    metrics: dict[str, float]

    def line(self) -> dict[str, Any]:
        """Return the values of a line of ``history.jsonl``."""
        return {"step": self.step, "epoch": self.epoch, "split": self.split, _UNUSED: False, **self.metrics}


@dataclass(frozen=True)
class History:
    """The records of a run while it trained, in order.

    Attributes:
        dev: the evaluations on dev.
        losses: optimizer steps, and the mean training loss since the line before.
        tests: the evaluations on test splits; none unless they were asked for.
    """

    dev: tuple[DevRecord, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    tests: tuple[EpochScores, ...] = ()


def read_history(path: Path) -> History:
    """Read ``history.jsonl``.

    Raises:
        RunError: if the file cannot be read or a line is damaged; the line is named.
    """
    return _history_of(path, _lines(path).splitlines())


def read_history_so_far(path: Path) -> History:
    """Read ``history.jsonl`` of a run that has not finished, without a last line that was cut off.

    The run writes that line again when it resumes.

    Raises:
        RunError: as :func:`read_history` does.
    """
    return _history_of(path, _whole_lines(path))


def _history_of(path: Path, lines: Iterable[bytes]) -> History:
    dev: list[DevRecord] = []
    losses: list[tuple[int, float]] = []
    tests: list[EpochScores] = []
    for number, line in enumerate(lines, 1):
        try:
            values = parse_json(line, finite=False)
            split = values["split"]
            metrics = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
            if split == DEV:
                dev.append(DevRecord(int(values["step"]), metrics))
            elif split != TRAIN:
                tests.append(_epoch_scores(values, metrics))
            elif isfinite(metrics.get("loss", float("nan"))):
                losses.append((int(values["step"]), metrics["loss"]))
        except KeyError as error:
            raise RunError(
                f"{path} is damaged in line {number}: it has no {error}; expected a split and a step. {remedy(path)}"
            ) from None
        except (ValueError, TypeError, OverflowError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None
    return History(tuple(dev), tuple(losses), tuple(tests))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the values of each line of ``history.jsonl``; raise RunError as :func:`read_history` does."""
    for number, line in enumerate(_lines(path).splitlines(), 1):
        try:
            yield parse_json(line, finite=False)
        except ValueError as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None


def _lines(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}. {remedy(path)}") from error


def _whole_lines(path: Path) -> list[bytes]:
    """Return the lines, without a last one that was cut off as the run was killed or its disk was full."""
    lines = _lines(path).splitlines(keepends=True)
    return lines if lines and lines[-1].endswith(b"}\n") else lines[:-1]


def _epoch_scores(values: dict[str, Any], metrics: dict[str, float]) -> EpochScores:
    step, epoch, split = int(values["step"]), float(values["epoch"]), str(values["split"])
    own = {name: value for name, value in metrics.items() if name not in ("step", "epoch", _UNUSED)}
    return EpochScores(step, epoch, split, own)


def lines_until(path: Path, step: int) -> str:
    """Return the lines of ``history.jsonl`` up to an optimizer step, without a last line that was cut off.

    Raises:
        RunError: if the file cannot be read or a line is damaged; the line is named.
    """
    lines_before = []
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            if parse_json(line, finite=False)["step"] <= step:
                lines_before.append(line.decode())
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None
    return "".join(lines_before)
