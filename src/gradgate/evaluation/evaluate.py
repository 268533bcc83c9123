"""Score a finished run on a task."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from gradgate.errors import UsageError
from gradgate.evaluation.finished import FinishedRun, begin, load_finished
from gradgate.files import below, refuse_used
from gradgate.replacing import is_part
from gradgate.runs.checkpoints import writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import write_predictions
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import to_json, write_record
from gradgate.runs.scores import EvaluationRecord
from gradgate.settings.same import differing
from gradgate.tasks import TaskData, TaskSpec, find_task, task_names
from gradgate.tasks.data import load_tests
from gradgate.tasks.held_out import load_tests_and_dev
from gradgate.tasks.languages import average
from gradgate.tasks.metrics.per_class import ClassScores, score_each_class
from gradgate.tasks.multitask import is_multitask
from gradgate.tasks.readers.files import ENDINGS
from gradgate.tasks.spec import plain_name
from gradgate.tasks.types import QuestionAnsweringOptions
from gradgate.training.arguments import scoring_arguments
from gradgate.training.named_tasks import find_task_of, task_of_run
from gradgate.training.single_task import EncodedSingleTask, task_record


def evaluate(
    run: Path,
    *,
    task: str | None = None,
    data: Path | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    languages: Sequence[str] | None = None,
    test_file: Path | None = None,
    of_task: str | None = None,
    out: Path | None = None,
    progress: RunProgress | None = None,
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """Score the model of a finished run on a task's test splits, or on dev if it has none.

    Args:
        run: folder of the run.
        task: a task of the same kind; by default the run's own. All rows of another data file are scored.
        data: folder with its files.
        text, text_pair, label: columns; by default the task's own.
        languages: score in these only; with ``test_file``, the language of the file.
        test_file: a file to score in place of the task's test splits; of a task in several languages, in the language
            of training unless ``languages`` names another.
        of_task: one of the tasks that the run trained together; its own test splits are scored.
        trust_remote_code: run code that comes with the model. The setting in the run's folder is ignored.
        out: folder for ``scores.json`` and ``predictions/``; by default ``evaluations/TASK`` in the run's, with the
            name of a file of tests behind it.

    Returns:
        The content of ``scores.json``: the run's configuration, the task, scores by split and their averages.

    Raises:
        GradgateError: for a task of another kind, a file in several languages, or what cannot be read.
    """
    progress = begin("gradgate evaluate", progress)
    loaded = load_finished(run, of_task=of_task, trust_remote_code=trust_remote_code)
    other = task
    if task is not None and _is_own(loaded, task):  # as it is spelled here, since its file may not be found otherwise
        loaded, other = replace(loaded, config=loaded.config.model_copy(update={"task": task})), None
    columns = {"text": text, "text_pair": text_pair, "label": label}
    spec = _task(loaded, other, data, languages, test_file, columns)
    _check_kind(spec, loaded)
    stem = () if test_file is None else (plain_name(test_file.stem),)
    own_name = "-".join((spec.name, *stem, *(languages or ())))
    is_own = other is None and test_file is None
    tests = (load_tests_and_dev if is_own and loaded.config.dev_size else load_tests)(spec, loaded.task.labels)
    folder = _free_folder(out or below(loaded.folder.path, "evaluations", own_name), tests.tests)
    return dict(to_json(_score_task(loaded, tests, folder, progress)))


def _is_own(run: FinishedRun, task: str) -> bool:
    """Return True if a task is the run's own, however its file or folder is spelled."""
    own = run.config.task
    if {own, task} & set(task_names()):  # no file or folder of that name is meant
        return own == task
    return not differing({"task": own}, {"task": task}, run.folder.path)


def _check_kind(spec: TaskSpec, loaded: FinishedRun) -> None:
    """Raise UsageError for a task of another kind than the run's."""
    if spec.kind != loaded.task.kind:
        raise UsageError(
            f"The task {spec.name} is {spec.kind}, and the model of {loaded.folder.path} was trained for "
            f"{loaded.task.kind}. Pass a task of that kind."
        )


def _score_task(run: FinishedRun, data: TaskData, folder: RunFolder, progress: RunProgress) -> EvaluationRecord:
    """Score every split of a task, and write the scores and predictions."""
    for text in data.notes:
        progress.note(text)
    data = replace(data, may_lack_answers=run.may_lack_answers)
    encoded = run.prepared(data).encode_splits(data.tests, run.config, run.tokenizer)
    if run.language_adapters is not None:
        run.language_adapters.check(encoded.tested_languages)
        if run.task.languages and "test" in encoded.tests:
            progress.note(f"The rows are assumed to be in {data.spec.source!r}, so its language adapter is used.")
        encoded = replace(encoded, language_adapters=run.language_adapters)
    for text in encoded.notes:
        progress.note(text)
    with writing_to(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)  # before what takes long
    tests, predictions, classes = _score(run, encoded, progress)
    record = EvaluationRecord(
        run=run.settings,
        task=task_record(data),
        metric=data.spec.metric,
        tests=tests,
        averages=average(tests, data.languages, data.spec.source),
        classes=classes or None,
    )
    with writing_to(folder.path):
        for old in folder.predictions.glob("*.jsonl"):
            if old.stem not in predictions:
                old.unlink()  # of another evaluation into this folder
        write_predictions(folder, predictions)
        write_record(folder.scores_file, record)
    return record


def _task(
    run: FinishedRun,
    task: str | None,
    data: Path | None,
    languages: Sequence[str] | None,
    test_file: Path | None,
    columns: Mapping[str, str | None],
) -> TaskSpec:
    named = {column: name for column, name in columns.items() if name is not None}
    if task is not None and is_multitask(task):
        raise UsageError(f"task={task} is several tasks, but a model is scored on one. Name one of them.")
    if task is None:
        changes: dict[str, Any] = {} if data is None else {"data": data}
        if test_file is not None:
            return _task_of_file(run, test_file, languages, changes | named)
        if languages:
            changes["languages"] = ",".join(languages)
        return run.find_task(**changes, **named)
    if test_file is None and Path(task).is_file() and Path(task).suffix in ENDINGS:
        test_file = Path(task)  # as a task, the file would be split into train, dev and test
    spec = find_task(task, data=data, languages=languages, test_file=test_file, **named)
    options = spec.options
    if not isinstance(options, QuestionAnsweringOptions):
        return spec
    all_articles = options.model_copy(update={"articles": None})  # none of them was trained on
    return spec.model_copy(update={"options": all_articles})


def _task_of_file(run: FinishedRun, file: Path, languages: Sequence[str] | None, changes: dict[str, Any]) -> TaskSpec:
    """Return the run's task with a file, which is in one language, in place of its test splits."""
    if languages and len(languages) > 1:
        raise UsageError(
            f"languages={','.join(languages)}: test_file={file} is scored in one language. Name the language of its "
            f"rows."
        )
    changed = run.config.model_copy(update={"languages": None, **changes, "test_file": file})
    spec = find_task_of(changed) if "data" in changes else task_of_run(changed, run.task)
    return spec.model_copy(update={"source": languages[0]}) if languages else spec


def _free_folder(path: Path, splits: Collection[str]) -> RunFolder:
    """Return the folder of an evaluation of these splits.

    Raises:
        UsageError: for a file.
        RunError: for a folder that has other files.
    """
    folder = RunFolder(path)
    if folder.run_file.exists() or not folder.finished:
        besides = (folder.predictions.name,) if _has_own_predictions(folder, splits) else ()
        refuse_used(folder.path, "is not the folder of an evaluation", besides)
    return folder


def _has_own_predictions(folder: RunFolder, splits: Collection[str]) -> bool:
    """Return True if a folder has what an evaluation of these splits leaves that was cut short while it wrote."""
    names = {f"{split}.jsonl" for split in splits}
    predictions = folder.predictions
    return predictions.is_dir() and all(is_part(file) or file.name in names for file in predictions.iterdir())


def _score(
    run: FinishedRun, encoded: EncodedSingleTask, progress: RunProgress
) -> tuple[dict[str, dict[str, float]], dict[str, str], dict[str, ClassScores]]:
    """Return split -> metrics, split -> content of its prediction file, and split -> scores of each class, if any."""
    with tempfile.TemporaryDirectory() as scratch:  # Trainer creates the folder of its output
        arguments = scoring_arguments(run.config, RunFolder(Path(scratch)))
        trainer = encoded.scoring_trainer(model=run.model, args=arguments, processing_class=run.tokenizer)
    trainer.remove_callback(PrinterCallback)
    tests: dict[str, dict[str, float]] = {}
    predictions: dict[str, str] = {}
    classes: dict[str, ClassScores] = {}
    progress.begin(len(encoded.splits), 0)
    for number, split in enumerate(encoded.splits, 1):
        tests[split] = encoded.score(trainer, split)
        predictions |= encoded.predictions()
        of_classes = score_each_class(run.task.kind, run.task.labels or (), encoded.scorer.latest.predictions)
        if of_classes is not None:
            classes[split] = of_classes
        progress.advance(number, None)
    return tests, predictions, classes
