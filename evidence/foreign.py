"""Import what two other projects measured: ``python -m evidence foreign``. The gallery and the advice read it.

Both sources are Apache-2.0 and their numbers facts: SetFit's ``final_results`` (github.com/huggingface/setfit at
0f8e322c), and PEFT's method comparison on MetaMathQA (github.com/huggingface/peft at 5d602fdb and earlier commits).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import SHARED, here
from evidence.rates import ComparedRates
from evidence.studies import FOLDER

SOURCE = f"{SHARED}/results"
SCORES = FOLDER / "foreign"
SETFIT, PEFT = "SetFit", "PEFT"
FILES = {PEFT: "peft.csv", SETFIT: "setfit.csv"}
"""The committed scores of each project, in the folder of scores."""
_ROWS = ("8", "64")
_FEW = {
    ("full", "roberta-large", ""): "full",
    ("linear-probe", "paraphrase-mpnet-base-v2", ""): "probe",
    ("setfit", "paraphrase-mpnet-base-v2", "epochs_20"): "SetFit",
    ("adapet", "albert-xxlarge-v2", ""): "ADAPET",
    ("perfect", "roberta-large", ""): "PERFECT",
}
_OURS = {
    SETFIT: {"full": "full", "probe": "probe"},
    PEFT: {
        "full": "full",
        "lora rank32": "lora:r=32",
        "lora rank64": "lora:r=64",
        "lora rank64-rslora": "rslora:r=64",
        "lora rank32-dora": "dora:r=32",
    },
}
"""The arms that gradgate has, by their names in the files."""
ROUNDS = ("2025-06-24", "2026-01-13", "2026-07-20")
"""In which every one of these arms was run, with one version of the libraries each."""
PEFT_RATES = ComparedRates(tried=(1e-5, 1e-4), arm=(1e-4,), full=(1e-5,))
"""Of PEFT's runs: one for full fine-tuning, and one for every other arm of ``_OURS``."""


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
    rows: str
    arm: str
    pair: int
    score: float
    memory: float | None = None
    seconds: float | None = None


def source() -> Path:
    """Return where the sources are on this machine; they may be absent."""
    return Path(here(SOURCE))


def record(folder: Path = SCORES) -> None:
    """Write the scores of both projects."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(
        folder / FILES[PEFT],
        ("arm", "task", "model", "round", "accuracy", "peak_memory_bytes", "train_seconds"),
        _peft(),
    )
    _write(folder / FILES[SETFIT], ("arm", "dataset", "rows_per_class", "split", "metric", "score"), _setfit())


def read_foreign() -> Iterator[ForeignScore]:
    """Yield the committed scores of the arms that gradgate has."""
    for row in _rows(SCORES / FILES[SETFIT]):
        if row["arm"] in _OURS[SETFIT]:
            yield ForeignScore(
                source=SETFIT, task=row["dataset"], rows=f"{row['rows_per_class']} rows per class",
                arm=_OURS[SETFIT][row["arm"]], pair=int(row["split"]), score=float(row["score"]) / 100,
            )  # fmt: skip
    for row in _rows(SCORES / FILES[PEFT]):
        if row["arm"] in _OURS[PEFT]:
            yield ForeignScore(
                source=PEFT, task="GSM8K after MetaMathQA", rows="20,000 rows", arm=_OURS[PEFT][row["arm"]],
                pair=int(row["round"]), score=float(row["accuracy"]), memory=float(row["peak_memory_bytes"]),
                seconds=float(row["train_seconds"]),
            )  # fmt: skip


def compared_arms(project: str) -> int:
    """Return how many arms a project compared with full fine-tuning."""
    return len({row["arm"] for row in _rows(SCORES / FILES[project])} - {"full"})


def _peft() -> Iterator[tuple[object, ...]]:
    """Yield the runs of the arms that were run in each round, as accuracy differs by round for all of them."""
    rows = _rows(source() / "peft-metamathqa" / "runs.csv")
    rounds = defaultdict(set)
    for row in rows:
        rounds[row["arm"]].add(row["result_date"])
    for row in rows:
        if rounds[row["arm"]].issuperset(ROUNDS) and row["result_date"] in ROUNDS:
            arm = row["arm"].replace("/llama-3.2-3B-", " ").replace("full-finetuning lr_0.00001", "full")
            place = ROUNDS.index(row["result_date"]) + 1
            yield (
                arm,
                "GSM8K",
                "Llama-3.2-3B",
                place,
                row["test_accuracy"],
                row["memory_max_bytes"],
                row["train_seconds"],
            )


def _setfit() -> Iterator[tuple[object, ...]]:
    """Yield the scores on draws of 8 and 64 rows per class, of the tasks that full fine-tuning was run on."""
    drawn = [
        (_FEW[key], row)
        for row in _rows(source() / "setfit" / "runs.csv")
        if (key := (row["method"], row["base"], row["variant"])) in _FEW
        and (row["rows"] in _ROWS and row["rows_per"] == "class" and row["split"] and row["metric"] != "mae_x100")
    ]
    tasks = {row["dataset"] for arm, row in drawn if arm == "full"}
    for arm, row in drawn:
        if row["dataset"] in tasks:
            yield arm, row["dataset"], row["rows"], row["split"], row["metric"], row["score"]


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _write(file: Path, header: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
