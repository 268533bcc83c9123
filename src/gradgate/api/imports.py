"""Import results that other programs measured, as a study."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from gradgate.api.compare import Study
from gradgate.settings.base import checked_settings
from gradgate.settings.imports import ImportSettings


def import_results(
    results: str | PathLike[str] | Sequence[str | PathLike[str]] | Any,
    out: str | PathLike[str] = "studies/imported",
    *,
    arm: str | Sequence[str] | None = None,
    score: str | Sequence[str] | None = None,
    seed: str | Sequence[str] | None = None,
    task: str | Sequence[str] | None = None,
    model: str | Sequence[str] | None = None,
    split: str | None = None,
    step: str | None = None,
    metric: str | None = None,
    rows: str | None = None,
    cost: str | Sequence[str] | None = None,
    lower_is_better: bool = False,
    reference: str | None = None,
    pair: str | None = None,
) -> Study:
    """Import results as a study that can be reported and judged; nothing can be trained in it.

    ``gradgate study import`` calls this. Columns that are not named are found by their names.

    Args:
        results: a file or folder, or several; or a data frame of pandas or Polars, or a list of mappings, with a row
            per score, or a column per metric or seed.
        out: the study's folder, new or empty, or with an import of the same files.
        arm: column with what is compared; several are joined to one name.
        score: column with the scores; several for a column per metric or seed.
        seed: column with the seed of a run, a number or a name.
        task: column with the task; several are joined.
        model: column with the pretrained model; several are joined.
        split: column with the split of a score; or ``dev`` or ``test`` if all are of one.
        step: column with the optimizer step or epoch of a score.
        metric: column with the metric; or the name of the metric to compare on.
        rows: column with a number of rows, such as the size of the training set.
        cost: columns with costs.
        lower_is_better: whether lower scores are better, whatever the metric's name says.
        reference: the arm that the others are compared to; by default ``full``, or the first.
        pair: column that makes two scores a pair; by default the seed. ``"none"`` if nothing does.

    Returns:
        The study. Its folder has ``import.json``: the sources with their digests, the columns, what was left out and
        why, and what is doubtful about the comparison.

    Raises:
        UsageError: for a column or a reference that is not there, or if no arm or score can be found.
        DataError: for a file that cannot be read, two scores of one run, or no score at all.
        RunError: if ``out`` holds something else.
    """
    from gradgate.study.importing.sources import read_files, recognised
    from gradgate.study.importing.studies import import_tables
    from gradgate.study.importing.tables import of_frame

    named = {
        "arm": arm, "score": score, "seed": seed, "task": task, "model": model, "split": split, "step": step,
        "metric": metric, "rows": rows, "cost": cost, "lower_is_better": lower_is_better, "reference": reference,
        "pair": pair,
    }  # fmt: skip
    asked = checked_settings(ImportSettings, named)
    paths = [results] if isinstance(results, str | PathLike) else results
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | PathLike) for path in paths):
        tables, files = read_files([Path(path) for path in paths])
    else:
        tables, files = [recognised(of_frame(results))], []
    import_tables(tables, files, asked, Path(out))
    return Study(out)
