"""Tabulate what the arms of a decoder's study learned, and what they forgot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from evidence.arms import runs_by_arm
from gradgate.analysis.forgetting import ForgettingRow
from gradgate.csv_rows import CsvRows
from gradgate.statistics import compare_paired, summarize

ROWS = CsvRows(ForgettingRow, "python -m evidence run")
_FULL = "full"
_TOGETHER = 0.95
_HEAD = """\
| arm | score ± deviation over seeds | minus full [95 % for all arms together] | loss on other text, nats per token | \
KL on its own prompts, nats per token |
|---|---:|---:|---:|---:|"""


def forgetting_table(runs: Path, measured: Path) -> str:
    """Return scores, losses and divergences by arm as a table of means over seeds.

    Scores are in points, losses and divergences in nats per token. The intervals hold together at 95 % (Bonferroni).

    Args:
        runs: the scores and costs of every run.
        measured: rows of ``gradgate analyze forgetting`` with the metric ``kl``.
    """
    moved: dict[str, list[float]] = {}
    for row in ROWS.read(measured):
        if row.best and row.value is not None:
            moved.setdefault(row.arm, []).append(row.value)
    (by_arm,) = runs_by_arm(runs).values()
    full = _scores(by_arm[_FULL])
    confidence = 1 - (1 - _TOGETHER) / max(1, len(by_arm) - 1)
    lines = [_HEAD]
    for name, own in by_arm.items():
        before, after = (_mean(own, f"forgetting.{when}") for when in ("before", "after"))
        versus = "reference" if name == _FULL else _difference(_scores(own), full, confidence)
        lines.append(
            f"| `{name}` | {_spread(list(_scores(own).values()))} | {versus} | {before:.3f} → {after:.3f} | "
            f"{fmean(moved[name]):.3f} |"
        )
    return "\n".join(lines)


def _mean(runs: Sequence[Mapping[str, str]], column: str) -> float:
    return fmean(float(row[column]) for row in runs)


def _scores(runs: Sequence[Mapping[str, str]]) -> dict[int, float]:
    return {int(row["seed"]): 100 * float(row["score"]) for row in runs}


def _spread(scores: list[float]) -> str:
    found = summarize(scores)
    return f"{found.mean:.1f} ± {found.sd:.1f}"


def _difference(scores: dict[int, float], full: dict[int, float], confidence: float) -> str:
    versus = compare_paired(scores, full, confidence=confidence)
    interval = "" if versus.interval is None else " [{:+.1f} to {:+.1f}]".format(*versus.interval)
    return f"{versus.difference:+.1f}{interval}".replace("-", "−")
