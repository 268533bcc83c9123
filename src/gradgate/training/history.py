"""``history.jsonl``: a line for each logged training loss and for each evaluation on dev."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import RunError
from gradgate.files import parse_json, remedy
from gradgate.training.records import DEV


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
        """The values of a line of ``history.jsonl``."""
        values = asdict(self)
        return {"step": values.pop("step"), "epoch": values.pop("epoch"), "split": "train", **values}


@dataclass(frozen=True)
class DevRecord:
    """One evaluation on dev during training: metric name to value after ``step`` optimizer steps."""

    step: int
    metrics: dict[str, float]

    def line(self, epoch: float) -> dict[str, Any]:
        """The values of a line of ``history.jsonl``."""
        return {"step": self.step, "epoch": epoch, "split": DEV, **self.metrics}


def read_history(path: Path) -> tuple[DevRecord, ...]:
    """The evaluations on dev in ``history.jsonl``, in their order.

    Raises:
        RunError: if the file cannot be read or a line is damaged; the line is named.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RunError(f"Cannot read {path}: {error.strerror or error}. {remedy(path)}") from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            values = parse_json(line, finite=False)
            if values["split"] == DEV:
                metrics = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
                records.append(DevRecord(int(values["step"]), metrics))
        except KeyError as error:
            raise RunError(
                f"{path} is damaged in line {number}: it has no {error}; expected a split and a step. {remedy(path)}"
            ) from None
        except (ValueError, TypeError, OverflowError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None
    return tuple(records)


def lines_until(path: Path, step: int) -> str:
    """The lines of ``history.jsonl`` up to an optimizer step; a last line that was cut off is left out.

    Raises:
        RunError: if the file cannot be read or a line is damaged; the line is named.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise RunError(f"Cannot read {path}: {error.strerror or error}. {remedy(path)}") from error
    kept = []
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith(b"}\n"):
            break
        try:
            if parse_json(line, finite=False)["step"] <= step:
                kept.append(line.decode())
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}. {remedy(path)}") from None
    return "".join(kept)
