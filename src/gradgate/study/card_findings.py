"""Read what the card of a run says beyond its folder: intervals of its scores, and the verdicts of its study."""

from __future__ import annotations

import numpy as np

from gradgate.errors import GradgateError, RunError
from gradgate.runs.card import CardFindings, CardSource
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import read_predictions
from gradgate.statistics.multibootstrap import score_interval
from gradgate.study.results import read_study
from gradgate.study.row_counts import counted_metric, row_counts
from gradgate.study.verdicts import ArmVerdict, verdicts_of

_ROUNDING = 1e-6


def card_findings(source: CardSource, folder: RunFolder, task: str | None = None) -> CardFindings:
    """Return what a card says of a run beyond its folder.

    Args:
        source: what the folder says.
        folder: of the run.
        task: one of several that it trained together; None for a run of one task.
    """
    return CardFindings(_intervals(source, folder, task), *_verdicts(source, folder))


def _intervals(source: CardSource, folder: RunFolder, task: str | None) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval over rows of each split whose stored predictions give the recorded score."""
    labels = source.task.labels or ()
    metric = counted_metric(source.metric, source.task.kind, len(labels))
    found: dict[str, tuple[float, float]] = {}
    for split, values in source.splits.items():
        score = values.get(source.metric)
        if metric is None or score is None:
            continue
        try:
            rows = read_predictions(folder, split if task is None else f"{task}/{split}")
            counts = row_counts(rows, source.metric, labels)
        except (RunError, ValueError):
            continue
        if len(counts) and abs(float(metric(counts.sum(axis=0))) - score) <= _ROUNDING:
            interval = score_interval(np.asarray(counts), metric)
            if interval is not None:
                found[split] = interval
    return found


def _verdicts(source: CardSource, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of the study that a run is one of, and a sentence per verdict that its arm is in."""
    if folder.study is None:
        return None, ()
    try:
        results = read_study(folder.study)
        verdicts = [each for each in verdicts_of(results) if each.collapsed.runs]
    except GradgateError:  # a study that cannot be read says nothing of its run
        return folder.study.name, ()
    # The run's own settings do not tell its arm: one with a learning rate of its own has that rate among them.
    here = folder.path.resolve()
    cells = (cell for cell in results.cells if cell.folder is not None and cell.folder.resolve() == here)
    arm = next((cell.arm.name for cell in cells), None)
    own = [each for each in verdicts if each.arm == arm] or [each for each in verdicts if each.reference == arm]
    return folder.study.name, tuple(map(_sentence, own))


def _sentence(found: ArmVerdict) -> str:
    """Say how an arm compares with the reference: the word of the verdict with its numbers, nothing beyond."""
    versus, factor = found.verdict.comparison, found.factor
    unit = " points" if factor == 100 else ""
    head = f"{found.arm} compared with {found.reference}, {found.metric} on {found.split}, {versus.n} common seeds"
    if versus.difference is None:
        return f"{head}: {found.verdict.word}."
    numbers = [f"mean difference {versus.difference * factor:+.2f}{unit}"]
    if found.verdict.interval_corrected is not None:
        low, high = (end * factor for end in found.verdict.interval_corrected)
        numbers.append(f"corrected 95 % interval {low:+.2f} to {high:+.2f}")
    if found.verdict.p_corrected is not None:
        numbers.append(f"p = {found.verdict.p_corrected:.3g} (Holm, {found.verdict.family} tests)")
    return f"{head}: {found.verdict.word}; {', '.join(numbers)}."
