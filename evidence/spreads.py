"""Find how much paired differences vary over seeds, for ``--dry-run``.

The runs are those of this folder and those of What would Elsa do? (Lee et al. 2019, Apache-2.0), which
``python -m evidence.spreads ELSA.csv`` reads again.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evidence.arms import runs_by_arm
from evidence.studies import read_studies
from gradgate.statistics import collapsed, compare_paired
from gradgate.statistics.collapse import LEAST_GAP
from gradgate.study.spreads import FILE, SPREADS, RecordedSpread

ELSA = "What would Elsa do? (Lee et al. 2019)"
METRICS = {"acc": "accuracy", "mcc": "matthews", "spearmanr": "spearman"}  # of the file to ours
Key = tuple[str, str, str, str]
Runs = dict[Key, dict[str, dict[int, float]]]


def main(file: Path) -> None:
    """Replace the rows of the Elsa authors' runs by those of their file."""
    SPREADS.write(FILE, [*own_spreads(), *_spreads(_elsa(file))])


def spreads() -> list[RecordedSpread]:
    """Return the rows of the committed studies, and those of the Elsa authors' runs that the file has."""
    return [*own_spreads(), *(row for row in SPREADS.read(FILE) if row.source == ELSA)]


def own_spreads() -> list[RecordedSpread]:
    """Return the rows of the committed studies, in the order of the file."""
    found: Runs = {}
    for study in (study for study in read_studies() if study.is_committed):
        for size, by_arm in runs_by_arm(study.runs).items():
            one = next(iter(by_arm.values()))[0]
            key = (one["task"], Path(one["model"]).name, one["metric"], f"{study.name} {size}".strip())
            found[key] = {arm: {int(row["seed"]): float(row["score"]) for row in own} for arm, own in by_arm.items()}
    return sorted(_spreads(found), key=lambda row: (row.task, row.metric, row.model, row.source))


def _elsa(file: Path) -> Runs:
    found: Runs = {}
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            metric = METRICS.get(row["metric"], row["metric"])
            if row["family"] == "single" and metric not in ("acc_and_f1", "corr"):
                key = (row["task"], row["model"], metric, ELSA)
                found.setdefault(key, {}).setdefault(row["arm"], {})[int(row["seed"])] = float(row["score"])
    return found


def _spreads(runs: Runs) -> Iterator[RecordedSpread]:
    """Yield one row per task, model, metric and source with three or more common seeds, without collapsed runs."""
    for (task, model, metric, source), arms in runs.items():
        reference, *others = map(_kept, arms.values())
        versus = [compare_paired(other, reference) for other in others]
        # Larger deviations are of arms of which about half collapsed, which the rule cannot see.
        known = [each for each in versus if each.n >= 3 and each.sd and each.sd <= LEAST_GAP]
        if known:
            sds = np.array([each.sd for each in known])
            low, middle, high = (float(f"{end:.3g}") for end in np.quantile(sds, [0.1, 0.5, 0.9]))
            yield RecordedSpread(
                task=task, model=model, metric=metric, comparisons=len(known), seeds=min(each.n for each in known),
                low=low, sd=middle, high=high, source=source,
            )  # fmt: skip


def _kept(scores: dict[int, float]) -> dict[int, float]:
    lost = collapsed(scores, True)
    return {seed: score for seed, score in scores.items() if seed not in lost}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
