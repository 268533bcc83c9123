"""Load a finished run: its model, tokenizer and settings, from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from transformers import AutoConfig

from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError, fault_with_place, nearest
from gradgate.files import parse_json, remedy
from gradgate.methods import Full
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import RunProgress, Silent
from gradgate.runs.records import RunRecord, TaskRecord, read_record
from gradgate.settings.run import RunConfig
from gradgate.specs import shown
from gradgate.tasks import Kind, TaskData, TaskSpec
from gradgate.tasks.kinds import KINDS
from gradgate.tasks.multitask import KIND as MIXED
from gradgate.training.multitask.heads import load_with_head
from gradgate.training.named_tasks import find_multitask_of, find_task_of, task_of_run
from gradgate.training.prepared_task import prepared
from gradgate.training.pretrained import load_pretrained, load_tokenizer, silence_libraries
from gradgate.training.single_task import PreparedSingleTask
from gradgate.training.weights import add_rows, check_loaded, check_vocabulary

_LONGEST_LINE = 64 << 20  # bytes of one prediction
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
        together: the settings of the run of several tasks, of which this model has one; None for a run of one task.
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

    @cached_property
    def may_lack_answers(self) -> bool | None:
        """Whether the run learned from questions without an answer, as its predictions tell; None without any.

        Raises:
            RunError: if they cannot be read.
        """
        folder = self.folder.predictions
        for file in sorted((folder if self.together is None else folder / self.task.name).glob("*.jsonl")):
            try:
                with file.open("rb") as lines:
                    return "no_answer_score" in parse_json(lines.readline(_LONGEST_LINE) or b"{}", finite=False)
            except OSError as error:
                raise RunError(f"Cannot read {file}: {error.strerror or error}. {remedy(file)}") from None
            except ValueError as error:
                raise RunError(f"{file} is damaged in line 1: {error}. {remedy(file)}") from None
        return None

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
            f"own.{near} For predictions, scores and exports, choose one with of_task=; for an analysis, train one "
            f"task from model={folder.model}."
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
        faults = "; ".join(fault_with_place(fault) for fault in error.errors())
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
