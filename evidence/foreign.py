"""Import what others measured of arms that gradgate has: ``python -m evidence foreign``.

Both sources are Apache-2.0 and their numbers facts: SetFit's ``final_results`` (github.com/huggingface/setfit at
0f8e322c), and PEFT's method comparison on MetaMathQA (github.com/huggingface/peft at 5d602fdb and earlier commits).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import SHARED, here
from evidence.studies import FOLDER
from gradgate.csv_rows import CsvRows

SOURCE = f"{SHARED}/results"
FILE = FOLDER / "foreign" / "scores.csv"
SETFIT, PEFT = "SetFit", "PEFT"
_FEW = ("8", "64")
_PROBED, _TUNED = "paraphrase-mpnet-base-v2", "roberta-large"
_METHODS = {("linear-probe", _PROBED): "probe", ("full", _TUNED): "full"}
_ARMS = {
    "full-finetuning/llama-3.2-3B-lr_0.00001": "full",
    "lora/llama-3.2-3B-rank32": "lora:r=32",
    "lora/llama-3.2-3B-rank64": "lora:r=64",
    "lora/llama-3.2-3B-rank64-rslora": "rslora:r=64",
    "lora/llama-3.2-3B-rank32-dora": "dora:r=32",
}
ROUNDS = ("2025-06-24", "2026-01-13", "2026-07-20")
"""In which every one of these arms was run, with one version of the libraries each."""


@dataclass(frozen=True, kw_only=True)
class ForeignScore:
    """One score of somebody's run.

    Attributes:
        source: the project.
        rows: of the training set, as it says it.
        arm: what it is called here.
        pair: what makes two scores a pair: the draw of the training rows, or the round of reruns with one seed.
        score: on test, a share of 1.
        memory: the peak in bytes; None if it is not stated.
        seconds: of the training; None if they are not stated.
    """

    source: str
    task: str
    model: str
    rows: str
    arm: str
    pair: int
    score: float
    memory: float | None = None
    seconds: float | None = None


_SCORES = CsvRows(ForeignScore, "python -m evidence foreign")


def source() -> Path:
    """Return where the sources are on this machine; they may be absent."""
    return Path(here(SOURCE))


def record(file: Path = FILE) -> None:
    """Write the scores that the pages use."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _SCORES.write(file, [*_setfit(), *_peft()])


def read_foreign(file: Path = FILE) -> list[ForeignScore]:
    """Read the committed scores."""
    return list(_SCORES.read(file))


def _setfit() -> Iterator[ForeignScore]:
    """Yield a probe on a sentence encoder and full fine-tuning of a larger encoder, on the same draws of few rows."""
    with (source() / "setfit" / "runs.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            arm = _METHODS.get((row["method"], row["base"]))
            drawn = row["rows"] in _FEW and row["rows_per"] == "class" and row["split"]
            if arm and drawn and not row["variant"]:
                yield ForeignScore(
                    source=SETFIT, task=row["dataset"], model=row["base"], arm=arm,
                    rows=f"{row['rows']} rows per class", pair=int(row["split"]),
                    score=round(float(row["score"]) / 100, 6),
                )  # fmt: skip


def _peft() -> Iterator[ForeignScore]:
    with (source() / "peft-metamathqa" / "runs.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["arm"] in _ARMS and row["result_date"] in ROUNDS:
                yield ForeignScore(
                    source=PEFT, task="GSM8K after MetaMathQA", model="Llama-3.2-3B", rows="20,000 rows",
                    arm=_ARMS[row["arm"]], pair=ROUNDS.index(row["result_date"]),
                    score=round(float(row["test_accuracy"]), 6), memory=float(row["memory_max_bytes"]),
                    seconds=float(row["train_seconds"]),
                )  # fmt: skip
