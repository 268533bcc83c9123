"""Score guessing on the test rows of a study: the model that always answers with the most frequent class of train."""

from __future__ import annotations

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import read_predictions
from gradgate.study.results import StudyResults

_KIND = "classification"


def guessing_score(results: StudyResults, split: str) -> float | None:
    """Return the score of the most frequent class of train on a split, in the study's metric.

    The labels of the split are in the predictions of its runs, which all have the same rows.

    Args:
        results: of the study.
        split: a test split.

    Returns:
        None for a task whose outputs are not classes, another metric than one of these, and runs without predictions.
    """
    import numpy as np  # with scikit-learn, which only verdicts of classes need

    from gradgate.tasks.metrics.classes import FUNCTIONS

    task = results.study.task
    metric, labels, counts = FUNCTIONS.get(task.metric), task.labels, task.train_counts
    if metric is None or not labels or not counts or task.kind != _KIND:
        return None
    gold = _labels(results, split)
    if not gold or not set(gold) <= set(labels):
        return None
    guess = labels.index(max(counts, key=lambda label: counts[label]))
    found = np.array([labels.index(label) for label in gold])
    return metric(np.full_like(found, guess), found)


def _labels(results: StudyResults, split: str) -> list[str]:
    """Return the labels of a split's rows; none if no run has readable predictions."""
    for cell in results.runs:
        if cell.scores is None or cell.folder is None:
            continue
        folder = RunFolder(cell.folder)
        if not (folder.predictions / f"{split}.jsonl").is_file():
            continue
        try:
            return [str(row.get("gold")) for row in read_predictions(folder, split)]
        except RunError:
            continue
    return []
