"""Write the predictions of models, into a run's folder and for rows without labels, and read them again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.files import read_bytes, remedy, write_text
from gradgate.printable import csv_table
from gradgate.runs.folder import RunFolder

_MOST_BYTES = 16 << 30  # of the predictions of one split


def predictions_text(rows: Iterable[dict[str, Any]]) -> str:
    """Return the content of a prediction file: one JSON object per row."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_predictions(folder: RunFolder, texts: Mapping[str, str]) -> None:
    """Write prediction files; ``texts`` maps a split, or a task and a split, to the content of its file."""
    for name, text in texts.items():
        write_text(folder.predictions / f"{name}.jsonl", text)


def copy_predictions(best: Path, folder: RunFolder) -> None:
    """Write the prediction files that belong to the best weights."""
    texts: dict[str, str] = {}
    for file in sorted(best.rglob("*.jsonl")):
        try:
            texts[file.relative_to(best).with_suffix("").as_posix()] = read_bytes(file, _MOST_BYTES).decode("utf-8")
        except (OSError, ValueError) as error:
            raise RunError(f"{file} cannot be read: {error}. {remedy(file)}") from None
    write_predictions(folder, texts)


@dataclass(frozen=True)
class Predictions:
    """The predictions of several models for the same rows.

    Attributes:
        by_run: a run's name to one record for each row, in their order: ``predicted`` at least, and what its kind of
            task adds, such as ``probability``.
        row_cells: cells of the rows themselves, by column; empty if none are wanted.
        probabilities: a run's name to the probability of each label, by row; empty for outputs that are not classes.
    """

    by_run: dict[str, list[dict[str, Any]]]
    row_cells: list[dict[str, Any]] = field(default_factory=list)
    probabilities: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per row with the cells of the row: the prediction of one run, or of several by run.

        Cells that JSON does not have, such as dates, are text.

        Raises:
            UsageError: for a column of the rows that is called like one of the predictions.
        """
        count = len(next(iter(self.by_run.values()), ()))
        row_cells = [{name: _plain(cell) for name, cell in cells.items()} for cells in self.row_cells or [{}] * count]
        if len(self.by_run) == 1:
            (found,) = self.by_run.values()
            return [_joined(row, cells) for row, cells in zip(found, row_cells, strict=True)]
        without = [[{k: v for k, v in row.items() if k != "index"} for row in rows] for rows in self.by_run.values()]
        return [
            _joined({"index": index}, cells) | _joined(cells, dict(zip(self.by_run, row, strict=True)))
            for index, (cells, *row) in enumerate(zip(row_cells, *without, strict=True))
        ]

    def columns(self) -> list[dict[str, Any]]:
        """Return one flat record per row: cells of the row, ``label``, and ``probability.LABEL`` of every label.

        Outputs that are not classes are ``predicted``, with what their kind of task adds. The columns of several runs
        are called ``RUN.label``.

        Raises:
            UsageError: for a column of the rows that is called like one of the predictions.
        """
        flat: list[dict[str, Any]] = [dict(cells) for cells in self.row_cells]
        for run, rows in self.by_run.items():
            flat = flat or [{} for _ in rows]
            stem = f"{run}." if len(self.by_run) > 1 else ""
            shares = self.probabilities.get(run) or [{} for _ in rows]
            for place, (row, own) in enumerate(zip(rows, shares, strict=True)):
                found = {f"{stem}{name}": value for name, value in _shown(row, bool(own)).items()}
                found |= {f"{stem}probability.{label}": share for label, share in own.items()}
                flat[place] = _joined(flat[place], found)
        return flat

    def as_csv(self) -> str:
        """Return the records as CSV; columns of several runs are called ``RUN.predicted``. Lists are JSON."""
        flat = self.records()
        if len(self.by_run) > 1:
            flat = [
                {name: value for name, value in row.items() if name not in self.by_run}
                | {f"{run}.{name}": v for run in self.by_run for name, v in row[run].items()}
                for row in flat
            ]
        return csv_table({name: _cell(value) for name, value in row.items()} for row in flat)

    def write(self, path: Path) -> None:
        """Write them as CSV or JSON lines, by the file's ending; RunError if that cannot be done."""
        check_ending(path)
        write_text(path, self.as_csv() if path.suffix == ".csv" else predictions_text(self.records()))


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return both as one record; raise UsageError for a name that has two values."""
    twice = next((name for name in one if name in other and one[name] != other[name]), None)
    if twice is not None:
        raise UsageError(
            f"keep={twice}: the predictions have a column of that name, too. Rename the one of the rows, or leave it "
            "out: predictions are in the order of the rows."
        )
    return {**one, **other}


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it: a date in ISO's form, and what else JSON lacks as text."""
    if cell is None or isinstance(cell, str | int | float | list | dict):
        return cell
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def check_ending(path: Path) -> None:
    """Raise UsageError for a file that is neither CSV nor JSON lines."""
    if path.suffix not in (".csv", ".jsonl"):
        raise UsageError(f"out={path}: expected a file that ends in .jsonl or .csv.")


def read_predictions(folder: RunFolder, split: str) -> list[dict[str, Any]]:
    """Read the prediction file of a split.

    Raises:
        RunError: if it is absent or damaged; the message names the file and the line.
    """
    path = folder.predictions / f"{split}.jsonl"
    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}. Score the run again with 'gradgate evaluate'") from None
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise RunError(f"{path}:{number} is damaged: expected a JSON object. Score the run again into another out=")
        rows.append(row)
    return rows


def _shown(row: dict[str, Any], has_probabilities: bool) -> dict[str, Any]:
    """Return the values of a prediction under their names in a frame."""
    if not has_probabilities:
        return {name: value for name, value in row.items() if name != "index"}
    others = ("index", "predicted", "probability", "probabilities")
    return {"label": row["predicted"], **{name: value for name, value in row.items() if name not in others}}
