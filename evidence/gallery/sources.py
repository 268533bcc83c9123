"""Reduce two public sources to the columns that the gallery imports: ``python -m evidence foreign``.

Both are Apache-2.0: PEFT's method comparison (github.com/huggingface/peft at 5d602fdb and earlier commits), and
``final_results`` of SetFit (github.com/huggingface/setfit at 0f8e322c).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from evidence.foreign import PEFT, ROUNDS, SETFIT, source

FOLDER = Path(__file__).parent
FILES = {PEFT: "peft.csv", SETFIT: "setfit.csv"}
_ROWS = ("8", "64")
_FEW = {
    ("full", "roberta-large", ""): "full",
    ("linear-probe", "paraphrase-mpnet-base-v2", ""): "probe",
    ("setfit", "paraphrase-mpnet-base-v2", "epochs_20"): "SetFit",
    ("adapet", "albert-xxlarge-v2", ""): "ADAPET",
    ("perfect", "roberta-large", ""): "PERFECT",
}


def record_sources(folder: Path = FOLDER) -> None:
    """Write the two files."""
    _write(folder / FILES[PEFT], ("arm", "round", "accuracy", "peak_memory_bytes", "train_seconds"), _peft())
    _write(folder / FILES[SETFIT], ("arm", "dataset", "rows_per_class", "split", "metric", "score"), _setfit())


def compared_arms(project: str) -> int:
    """Return how many arms a project compared with full fine-tuning, of those in its committed file."""
    with (FOLDER / FILES[project]).open(newline="", encoding="utf-8") as stream:
        return len({row["arm"] for row in csv.DictReader(stream)} - {"full"})


def _peft() -> Iterator[tuple[object, ...]]:
    """Yield the runs of the arms that were run in each round, as accuracy differs by round for all of them."""
    rows = _rows("peft-metamathqa")
    rounds = defaultdict(set)
    for row in rows:
        rounds[row["arm"]].add(row["result_date"])
    for row in rows:
        if rounds[row["arm"]].issuperset(ROUNDS) and row["result_date"] in ROUNDS:
            arm = row["arm"].replace("/llama-3.2-3B-", " ").replace("full-finetuning lr_0.00001", "full")
            place = ROUNDS.index(row["result_date"]) + 1
            yield arm, place, row["test_accuracy"], row["memory_max_bytes"], row["train_seconds"]


def _setfit() -> Iterator[tuple[object, ...]]:
    """Yield the scores on draws of 8 and 64 rows per class, of the tasks that full fine-tuning was run on."""
    drawn = [
        (_FEW[key], row)
        for row in _rows("setfit")
        if (key := (row["method"], row["base"], row["variant"])) in _FEW
        and (row["rows"] in _ROWS and row["rows_per"] == "class" and row["split"] and row["metric"] != "mae_x100")
    ]
    tasks = {row["dataset"] for arm, row in drawn if arm == "full"}
    for arm, row in drawn:
        if row["dataset"] in tasks:
            yield arm, row["dataset"], row["rows"], row["split"], row["metric"], row["score"]


def _rows(name: str) -> list[dict[str, str]]:
    with (source() / name / "runs.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _write(file: Path, header: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
