"""What finished runs predict for rows without labels."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from gradgate.distributed import launch
from gradgate.errors import UsageError
from gradgate.tasks import kind_of
from gradgate.tasks.readers.rows import Table
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.unlabelled import SPLIT, load_unlabelled, read_file, read_text
from gradgate.training.evaluation import FinishedRun, load_finished
from gradgate.training.named_tasks import find_task_of
from gradgate.training.prediction_files import Predictions
from gradgate.training.pretrained import silence_libraries
from gradgate.training.progress import RunProgress, Silent
from gradgate.training.run_folder import RunFolder
from gradgate.training.trainer import RunTrainer, scoring_arguments

_GOLD = "gold"


def predict(
    runs: Sequence[Path],
    rows: Path | str,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    batch_size: int | None = None,
    data: Path | None = None,
    progress: RunProgress | None = None,
    trust_remote_code: bool = False,
) -> Predictions:
    """Predict with the models of finished runs, one after another.

    A model sees the rows as in its own run: cut to its length, in windows where its kind of task has them, in batches
    of its size. So the rows of a test file get what the run has predicted for them.

    Args:
        runs: folders.
        rows: a file like the test file of the runs' task, CSV, TSV, JSON lines, JSON or Parquet; or text, in a file
            or itself: one example a line, or JSON lines.
        text, text_pair: columns of the file; by default those of each run's task.
        batch_size: rows of a batch; by default the run's.
        data: folder with the files of the runs' task, where it is not where it was.
        trust_remote_code: run code that comes with the models. What the runs' folders say of it does not count.

    Raises:
        UsageError: without a run, or for a run that is named twice.
        DataError: for rows that the task of a run cannot be of.
        RunError: for a run that has not finished, or cannot be read.
    """
    launch.refuse("gradgate predict")
    silence_libraries()
    progress = progress or Silent()
    again = [run for run in runs if list(runs).count(run) > 1]
    if again or not runs:
        raise UsageError(f"{again[0]} is named twice." if again else "No run is named; expected one folder or more.")
    names = _names(runs)
    columns = {name: value for name, value in (("text", text), ("text_pair", text_pair), ("data", data)) if value}
    found: dict[str, list[dict[str, Any]]] = {}
    progress.begin(len(names), 0)
    for number, (name, path) in enumerate(zip(names, runs, strict=True), 1):
        run = load_finished(path, trust_remote_code=trust_remote_code)
        spec = find_task_of(run.config.model_copy(update=columns))
        table = read_text(rows, spec) if isinstance(rows, str) else read_file(rows, spec)
        found[name] = _predict(run, spec, table, batch_size, progress.note)
        progress.advance(number, None)
    return Predictions(found)


def _names(runs: Sequence[Path]) -> list[str]:
    """The runs' paths without what all of them begin with."""
    paths = [run.resolve() for run in runs]
    common = os.path.commonpath(paths) if len(set(paths)) > 1 else paths[0].parent
    return [path.relative_to(common).as_posix() for path in paths]


def _predict(
    run: FinishedRun, spec: TaskSpec, table: Table, batch_size: int | None, note: Callable[[str], None]
) -> list[dict[str, Any]]:
    kind = kind_of(spec)
    held = load_unlabelled(spec, run.task.labels, table, may_lack_answers=_may_lack_answers(run.folder))
    for text in held.notes:
        note(text)
    rows = held.tests[SPLIT]
    features = kind.encode(rows, run.tokenizer, run.config.max_length)
    config = run.config if batch_size is None else run.config.model_copy(update={"batch_size": batch_size})
    with _scratch() as folder:
        trainer = RunTrainer(
            model=run.model,
            args=scoring_arguments(config, folder),
            data_collator=kind.collator(run.tokenizer),
            processing_class=run.tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        outputs = trainer.predict(features).predictions
    scored = kind.score(rows, features, outputs, held, SPLIT)
    return [{name: value for name, value in row.items() if name != _GOLD} for row in scored.predictions]


def _may_lack_answers(folder: RunFolder) -> bool:
    """Whether the run's own predictions weigh "no answer", as they do where it was trained on such questions."""
    for file in sorted(folder.predictions.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            first = next(lines, "{}")
        return "no_answer_score" in json.loads(first)
    return False


@contextmanager
def _scratch() -> Iterator[RunFolder]:
    """A folder for what Trainer writes."""
    with tempfile.TemporaryDirectory() as folder:
        yield RunFolder(Path(folder))
