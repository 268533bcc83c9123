"""Ask finished runs: predictions for rows, and scores on labelled ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from gradgate.api.frames import arrow_table
from gradgate.api.progress import run_progress
from gradgate.api.shown import ResultView, data_frame
from gradgate.errors import GradgateError, UsageError
from gradgate.places import typed_path
from gradgate.runs.folder import RunFolder
from gradgate.settings.base import checked_settings
from gradgate.settings.finished import EvaluateSettings, PredictSettings
from gradgate.settings.keywords import EvaluateKeywords, PredictKeywords
from gradgate.settings.signature import takes

AnyRun = str | PathLike[str] | ResultView


@takes(PredictSettings, PredictKeywords)
def predict(
    runs: AnyRun | Sequence[AnyRun],
    rows: Any,
    *,
    quiet: bool = False,
    **settings: Unpack[PredictKeywords],
) -> Any:
    """Predict rows with one finished run or several; layers that runs share from the bottom up are computed once.

    ``gradgate predict`` does the same with a file.

    Args:
        runs: a run or its folder, or several.
        rows: texts; pairs of texts; dicts or a DataFrame with the columns of the task; or the path of a file.
        quiet: show no progress.

    Returns:
        A ``pandas.DataFrame`` with one line per row: ``label``, and ``probability.LABEL`` for each label. A number,
        tags, an answer or a generated text is in the column ``predicted``. Columns of several runs are called
        ``RUN.label``.

    Raises:
        UsageError: without a run or rows, for a file that does not exist, or a language without an adapter.
        DataError: for rows that do not fit the task of a run.
        RunError: for a run that has not finished, or kept no model.

    Example:
        >>> import gradgate as gg
        >>> run = gg.train(steps=2, batch_size=4, train_size=40, languages="en", out="runs/first", quiet=True)
        >>> gg.predict(run, ["a good day", "a bad day"], quiet=True).columns[0]
        'label'
    """
    asked = checked_settings(PredictSettings, settings)
    folders = folders_of(runs)
    for folder in folders:
        RunFolder(folder).require_finished()

    from gradgate.evaluation.predict import predict as predict_rows  # torch loads after these checks

    with _as_source(rows) as source, run_progress(quiet) as progress:
        return data_frame(predict_rows(folders, source, **dict(asked), progress=progress).columns())


@takes(EvaluateSettings, EvaluateKeywords)
def evaluate(
    run: AnyRun,
    rows: Any = None,
    *,
    out: str | PathLike[str] | None = None,
    quiet: bool = False,
    **settings: Unpack[EvaluateKeywords],
) -> dict[str, Any]:
    """Score a finished run on test splits, languages, or labelled rows, as ``gradgate evaluate`` does.

    Args:
        run: a run or its folder.
        rows: dicts or a DataFrame with the columns of the task, or the path of a file; by default the task's own test
            splits.
        out: folder for ``scores.json`` and ``predictions/``; by default ``evaluations/TASK`` in the run's, with the
            name of a file of rows behind it, and none for rows in memory.
        quiet: show no progress.

    Returns:
        The contents of ``scores.json``: ``tests`` has the metrics by split, ``averages`` those over languages.

    Raises:
        UsageError: for a task of another kind, or rows without labels.
        DataError: for rows that do not fit the task.
        RunError: for a run that has not finished, or kept no model.
    """
    asked = checked_settings(EvaluateSettings, settings)
    if rows is not None and asked.test_file is not None:
        raise UsageError(f"rows= and test_file={str(asked.test_file)!r} are both rows to score. Pass one of them.")
    folder = _folder(run)
    RunFolder(folder).require_finished()

    from gradgate.evaluation.evaluate import evaluate as evaluate_run  # torch loads after the folder is checked

    target = None if out is None else typed_path(out)
    with tempfile.TemporaryDirectory() as scratch, run_progress(quiet) as progress:
        if rows is None:
            return evaluate_run(folder, **dict(asked), out=target, progress=progress)
        if not isinstance(rows, str | PathLike) and target is None:
            target = Path(scratch) / "evaluation"
        with _as_source(rows) as source:
            if not isinstance(source, Path):
                what = "are texts without labels" if source else "has no rows"
                raise UsageError(f"rows= {what}. Expected dicts or a DataFrame with labels, or a file.")
            return evaluate_run(folder, **{**dict(asked), "test_file": source}, out=target, progress=progress)


def folders_of(runs: AnyRun | Sequence[AnyRun]) -> list[Path]:
    """Return the folders of one run or study, or of several.

    Raises:
        UsageError: for anything else.
    """
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        return [_folder(run) for run in runs]
    return [_folder(runs)]


def _folder(run: object) -> Path:
    if isinstance(run, ResultView):
        return run.path
    if not isinstance(run, str | PathLike):
        raise UsageError(f"{run!r:.80} is a {type(run).__name__}; expected a run or the folder of one.")
    return typed_path(run)


@contextmanager
def _as_source(rows: Any) -> Iterator[Path | list[Any]]:
    """Yield the path of a file, or texts as they are; other rows in memory become a temporary file."""
    if isinstance(rows, str | PathLike):
        path = typed_path(rows)
        if not path.is_file():
            raise UsageError(f"rows={str(rows)!r}: there is no such file. Pass texts in a list, or the path of one.")
        yield path
        return
    if _are_texts(rows):
        yield list(rows)
        return
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        parquet.write_table(arrow_table(rows, "rows"), file)
        try:
            yield file
        except GradgateError as error:
            error.args = (str(error.args[0]).replace(str(file), "rows"),)  # the file is not the user's
            raise


def _are_texts(rows: Any) -> bool:
    """Return True for a sequence of texts, or of the texts of each row."""
    return isinstance(rows, Sequence) and all(isinstance(row, str | list | tuple) for row in rows)
