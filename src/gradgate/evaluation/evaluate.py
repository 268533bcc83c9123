"""Load a finished run from its folder and score it on a task."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from transformers import AutoConfig, PrinterCallback

from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError, nearest
from gradgate.files import below, in_use, remedy
from gradgate.methods import Full
from gradgate.runs.checkpoints import writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import write_predictions
from gradgate.runs.progress import RunProgress, Silent
from gradgate.runs.records import RunRecord, TaskRecord, read_record, to_json, write_record
from gradgate.runs.scores import EvaluationRecord
from gradgate.settings.run import RunConfig
from gradgate.specs import shown
from gradgate.tasks import Kind, TaskData, TaskSpec, find_task
from gradgate.tasks.data import load_tests
from gradgate.tasks.held_out import load_tests_and_dev
from gradgate.tasks.kinds import KINDS
from gradgate.tasks.languages import average
from gradgate.tasks.metrics.per_class import ClassScores, score_each_class
from gradgate.tasks.multitask import KIND as MIXED
from gradgate.tasks.multitask import is_multitask
from gradgate.tasks.readers.files import ENDINGS
from gradgate.tasks.types import QuestionAnsweringOptions
from gradgate.training.multitask.heads import load_with_head
from gradgate.training.named_tasks import find_multitask_of, find_task_of, task_of_run
from gradgate.training.prepared_task import prepared
from gradgate.training.pretrained import load_pretrained, load_tokenizer, silence_libraries
from gradgate.training.single_task import EncodedSingleTask, PreparedSingleTask, task_record
from gradgate.training.trainer import scoring_arguments
from gradgate.training.weights import add_rows, check_loaded, check_vocabulary

_WITH_LABELS = ("classification", "token-classification")


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, loaded from its folder.

    Attributes:
        folder, config: of the run; ``settings`` are those of the configuration as in ``run.json``.
        task: the record of its task in ``run.json``: name, kind, metric, labels and more.
        model: with the weights that were best on dev, its adapter active, on the adapter of the source language if the
            run has language adapters; in evaluation mode.
        tokenizer: of the model.
        language_adapters: of the run; None without any.
        together: the settings of the run of several tasks that this model is of one of; None for a run of one task.
    """

    folder: RunFolder
    config: RunConfig
    settings: dict[str, Any]
    task: TaskRecord
    model: Any
    tokenizer: Any
    language_adapters: LanguageAdapters | None = None
    together: RunConfig | None = None

    def find_task(self, **changes: Any) -> TaskSpec:
        """Return the task of the run, with settings of its data replaced by ``changes``.

        Raises:
            GradgateError: if its files cannot be found, or a setting does not go with them.
        """
        if self.together is None or changes.keys() - {"data"}:
            return find_task_of(self.config.model_copy(update=changes))
        tasks = find_multitask_of(self.together.model_copy(update=changes)).tasks
        return next(task for task in tasks if task.name == self.task.name)

    def prepared(self, data: TaskData) -> PreparedSingleTask:
        """Prepare data for the model of the run."""
        return prepared(data, self.config.model_copy(update={"model": str(self.folder.model)}))


def load_finished(path: Path, *, of_task: str | None = None, trust_remote_code: bool = False) -> FinishedRun:
    """Load a run that ``gradgate train`` or ``compare`` has finished.

    Args:
        path: folder of the run.
        of_task: one of the tasks that the run trained together; None for a run of one task.
        trust_remote_code: run code that comes with the model. The setting in the run's folder is ignored.

    Raises:
        RunError: if the folder has no run, a run that has not finished or stored no model, or damaged files.
        AdapterError: if the adapter no longer fits the pretrained model.
    """
    folder = RunFolder(Path(path))
    folder.require_finished()
    record = read_record(folder.run_file, RunRecord)
    config = config_of(record, folder)
    task = record.task
    if task is not None and task.kind == MIXED:
        return _load_of_several(folder, config, record, of_task, trust_remote_code)
    if of_task is not None and (task is None or of_task != task.name):
        named = "no task" if task is None else f"the task {task.name}"
        raise UsageError(f"of_task={of_task!r}: the run in {folder.path} trained {named} alone. Leave it out.")
    if task is None or task.kind not in KINDS:
        actual = "no task" if task is None else f"a task of kind {task.kind!r}"
        raise RunError(
            f"{folder.run_file} is damaged or of another version: it names {actual}, expected one of kind "
            f"{', '.join(KINDS)}. Train it again with another out=."
        )
    kind = KINDS[task.kind]
    loaded = config.model_copy(update={"trust_remote_code": trust_remote_code})
    saved = loaded.model_copy(update={"model": str(folder.model)})
    tokenizer = load_tokenizer(saved)
    model = _load_model(kind, loaded, saved, tokenizer)
    _check_labels(folder, task, model)
    check_vocabulary(model, tokenizer, saved.model)
    if config.adapter is not None:
        config.adapter.kind.load(model, folder.model)
    languages = None
    if config.language_adapters is not None:
        languages = LanguageAdapters(config.language_adapters, task.source, folder.language_adapters)
        languages.put(model)
    return FinishedRun(folder, loaded, record.config, task, model.eval(), tokenizer, languages)


def _load_of_several(
    folder: RunFolder, config: RunConfig, record: RunRecord, of_task: str | None, trust_remote_code: bool
) -> FinishedRun:
    """Load the model of one of the tasks that a run trained together, with their encoder."""
    assert record.task is not None
    tasks = {task.name: task for task in record.task.tasks or ()}
    if of_task not in tasks:
        near = "" if of_task is None else nearest(of_task, tasks)
        raise UsageError(
            f"The run in {folder.path} trained several tasks at once ({', '.join(tasks)}), each with a head of its "
            f"own.{near} Predictions, scores and exports take one with of_task=; an analysis takes a run of one task: "
            f"train it from model={folder.model}."
        )
    task = tasks[of_task]
    together = config.model_copy(update={"trust_remote_code": trust_remote_code})
    config = together.model_copy(update={"task": of_task, "mix": None})
    saved = config.model_copy(update={"model": str(folder.model)})
    tokenizer = load_tokenizer(saved)
    model = load_with_head(KINDS[task.kind], task_of_run(config, task), task, saved, tokenizer, folder.heads)
    return FinishedRun(folder, config, record.config, task, model.eval(), tokenizer, together=together)


def _check_labels(folder: RunFolder, task: TaskRecord, model: Any) -> None:
    """Refuse a record whose labels are not those of the model's outputs.

    Raises:
        RunError: naming both.
    """
    if task.kind not in _WITH_LABELS:
        return
    named = [str(model.config.id2label.get(place, place)) for place in range(model.config.num_labels)]
    labels = list(task.labels or ())
    unnamed = all(name == f"LABEL_{place}" for place, name in enumerate(named))
    if labels != named and not (unnamed and len({*labels}) == len(named)):
        raise RunError(
            f"{folder.run_file} is damaged: its labels are {shown(', '.join(labels) or 'none')}, and the model in "
            f"{folder.model} has {shown(', '.join(named))}. {remedy(folder.run_file)}"
        )


def config_of(record: RunRecord, folder: RunFolder) -> RunConfig:
    """Return the run's settings, with ``full`` in place of an unknown method, since nothing is trained."""
    try:
        return RunConfig.model_validate(record.config)
    except ValidationError as error:
        if [fault["loc"] for fault in error.errors()] == [("method",)]:
            return RunConfig.model_validate({**record.config, "method": Full.name})
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise RunError(
            f"{folder.run_file} is damaged or of another version: {faults}. Train it again with another out=."
        ) from None


def _load_model(kind: Kind, config: RunConfig, saved: RunConfig, tokenizer: Any) -> Any:
    """Load the trained model from the run's folder, or the pretrained one that the run's adapter belongs to."""
    base = saved if config.adapter is None else config
    settings = load_pretrained(AutoConfig, saved, "configuration")
    if config.open_new_tokens:  # the pretrained table has no rows for the new tokens yet
        pretrained = load_pretrained(AutoConfig, base, "configuration").get_text_config()
        settings.get_text_config().vocab_size = pretrained.vocab_size
    model, report = load_pretrained(
        kind.auto_model,
        base,
        "model",
        config=settings,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    check_loaded(model, report, base.model, head=base is config)
    if config.open_new_tokens:
        add_rows(model, tokenizer)
    return model


def load_base(run: FinishedRun) -> Any:
    """Load the pretrained model that a run's adapter belongs to, with a head of the task's shape."""
    saved = run.config.model_copy(update={"model": str(run.folder.model)})
    return _load_model(KINDS[run.task.kind], run.config, saved, run.tokenizer).eval()


def begin(command: str, progress: RunProgress | None) -> RunProgress:
    """Refuse several processes and silence libraries. Return what shows progress."""
    launch.refuse(command)
    silence_libraries()
    return progress or Silent()


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
        task: a task of the same kind; by default the run's own. All rows of a data file are scored.
        data: folder with its files.
        text, text_pair, label: columns; by default the task's own.
        languages: score in these only; with ``test_file``, the language of the file.
        test_file: a file to score in place of the task's test splits; of a task in several languages, in the language
            of training unless ``languages`` names another.
        of_task: one of the tasks that the run trained together; its own test splits are scored.
        trust_remote_code: run code that comes with the model. The setting in the run's folder is ignored.
        out: folder for ``scores.json`` and ``predictions/``; by default ``evaluations/TASK`` in the run's.

    Returns:
        The content of ``scores.json``: the run's configuration, the task, scores by split and their averages.

    Raises:
        GradgateError: for a task of another kind, a file in several languages, or what cannot be read.
    """
    progress = begin("gradgate evaluate", progress)
    loaded = load_finished(run, of_task=of_task, trust_remote_code=trust_remote_code)
    other = None if task == loaded.config.task else task
    columns = {"text": text, "text_pair": text_pair, "label": label}
    spec = _task(loaded, other, data, languages, test_file, columns)
    _check_kind(spec, loaded)
    folder = _free_folder(out or below(loaded.folder.path, "evaluations", "-".join((spec.name, *(languages or ())))))
    is_own = other is None and test_file is None
    tests = (load_tests_and_dev if is_own and loaded.config.dev_size else load_tests)(spec, loaded.task.labels)
    for note in tests.notes:
        progress.note(note)
    return dict(to_json(_score_task(loaded, tests, folder, progress)))


def _check_kind(spec: TaskSpec, loaded: FinishedRun) -> None:
    """Raise UsageError for a task of another kind than the run's."""
    if spec.kind != loaded.task.kind:
        raise UsageError(
            f"The task {spec.name} is {spec.kind}, and the model of {loaded.folder.path} was trained for "
            f"{loaded.task.kind}. Give a task of that kind."
        )


def _score_task(run: FinishedRun, data: TaskData, folder: RunFolder, progress: RunProgress) -> EvaluationRecord:
    """Score every split of a task, and write the scores and predictions."""
    encoded = run.prepared(data).encode_splits(data.tests, run.config, run.tokenizer)
    if run.language_adapters is not None:
        run.language_adapters.check(encoded.tested_languages)
        if run.task.languages and "test" in encoded.tests:
            progress.note(f"The rows are taken to be in {data.spec.source!r}, whose language adapter runs.")
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
        raise UsageError(f"task={task} is several tasks, and a model is scored on one. Name one of them.")
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
            f"languages={','.join(languages)}: test_file={file} is scored in one language. Name that of its rows."
        )
    changed = run.config.model_copy(update={"languages": None, **changes, "test_file": file})
    spec = find_task_of(changed) if "data" in changes else task_of_run(changed, run.task)
    return spec.model_copy(update={"source": languages[0]}) if languages else spec


def _free_folder(path: Path) -> RunFolder:
    """Return the folder of an evaluation; raise RunError for one that has other files."""
    folder = RunFolder(path)
    if folder.run_file.exists() or (in_use(folder.path) and not folder.finished):
        raise RunError(f"{folder.path} is not empty and is not the folder of an evaluation. Pass another out=.")
    return folder


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
