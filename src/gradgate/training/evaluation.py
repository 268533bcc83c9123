"""Score a finished run's model on test splits, later and elsewhere; the run's own files stay as they are."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from gradgate.errors import RunError, UsageError
from gradgate.tasks import TaskSpec, find_task, kind_of
from gradgate.tasks.averages import average
from gradgate.tasks.data import load_tests
from gradgate.tasks.mixture import is_mixture
from gradgate.training import launched
from gradgate.training.arguments import scoring_arguments
from gradgate.training.callbacks import dev_scores
from gradgate.training.config import RunConfig
from gradgate.training.finished import FinishedRun, load_finished
from gradgate.training.folder import RunFolder, in_use, write_json
from gradgate.training.loading import hush_libraries
from gradgate.training.one_task import find_task_of
from gradgate.training.progress import RunProgress, Silent
from gradgate.training.record import task_record
from gradgate.training.scoring import Scorer, Split, predictions_text, write_predictions
from gradgate.training.trainer import RunTrainer


def evaluate(
    run: Path,
    *,
    task: str | None = None,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    test_file: Path | None = None,
    out: Path | None = None,
    progress: RunProgress | None = None,
) -> dict[str, Any]:
    """Score the model of a finished run on a task's test splits, or on dev where it has none.

    Args:
        run: folder of the run.
        task: a task of the same kind; the run's own by default.
        data: folder with its files.
        languages: score in these only.
        test_file: in place of the task's test splits.
        out: folder for ``scores.json`` and ``predictions/``; by default ``evaluations/TASK`` in the run's.

    Returns:
        What ``scores.json`` holds: the run's configuration, the task, scores by split and their averages.

    Raises:
        UsageError: a task of another kind than the run's.
        GradgateError: for a run or data that cannot be read.
    """
    launched.refuse("gradgate evaluate")
    hush_libraries()
    progress = progress or Silent()
    found = load_finished(run)
    spec = _task(found.config, task, data, languages, test_file)
    if spec.kind != found.task["kind"]:
        raise UsageError(
            f"The task {spec.name} is {spec.kind}, and the model of {run} was trained for {found.task['kind']}. Give a "
            f"task of that kind."
        )
    name = "-".join((spec.name, *(languages or ())))
    folder = RunFolder(out if out is not None else found.folder.path / "evaluations" / name)
    _check_free(folder)
    held = load_tests(spec, found.task.get("labels"))
    for note in held.notes:
        progress.note(note)
    kind = kind_of(held.spec)
    splits = {
        split: Split(rows, kind.encode(rows, found.tokenizer, found.config.max_length))
        for split, rows in held.tests.items()
    }
    scorer = Scorer(kind, held, splits)
    try:
        tests, predictions = _score(found, scorer, folder, progress)
    finally:
        shutil.rmtree(folder.checkpoints, ignore_errors=True)  # Trainer makes the folder
    record = {
        "run": found.config.record(),
        "task": task_record(held),
        "metric": spec.metric,
        "tests": tests,
        "averages": average(tests, held.languages, spec.source),
    }
    write_predictions(folder, predictions)
    write_json(folder.scores_file, record)
    return record


def _task(
    config: RunConfig, task: str | None, data: Path | None, languages: Sequence[str] | None, test_file: Path | None
) -> TaskSpec:
    if task is not None and is_mixture(task):
        raise UsageError(f"--task {task} is several tasks, and a model is scored on one.")
    if task is None or task == config.task:
        changes = {"data": data, "languages": ",".join(languages) if languages else None, "test_file": test_file}
        return find_task_of(config.model_copy(update={k: v for k, v in changes.items() if v is not None}))
    spec = find_task(task, data=data, languages=languages, test_file=test_file)
    return spec.model_copy(update={"articles": None})  # none of them was trained on


def _check_free(folder: RunFolder) -> None:
    if folder.run_file.exists() or (in_use(folder.path) and not folder.finished):
        raise RunError(f"{folder.path} is not empty and holds no evaluation. Give another --out.")


def _score(
    found: FinishedRun, scorer: Scorer, folder: RunFolder, progress: RunProgress
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Split -> metrics, and split -> content of its prediction file."""
    trainer = RunTrainer(
        model=found.model,
        args=scoring_arguments(found.config, folder),
        data_collator=scorer.kind.collator(found.tokenizer),
        processing_class=found.tokenizer,
        compute_metrics=scorer,
    )
    trainer.remove_callback(PrinterCallback)
    tests, predictions = {}, {}
    progress.begin(len(scorer.splits), 0)
    for number, (split, held) in enumerate(scorer.splits.items(), 1):
        scorer.split = split
        tests[split] = dev_scores(trainer.predict(held.features, metric_key_prefix="eval").metrics)
        predictions[split] = predictions_text(scorer.latest)
        progress.advance(number, None)
    return tests, predictions
