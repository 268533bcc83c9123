"""Predict rows without labels with the models of finished runs."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch import Tensor, nn

from gradgate.deltas.shared_prefix import SharedPrefix
from gradgate.errors import UsageError
from gradgate.evaluation.finished import FinishedRun, begin, load_finished
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import Predictions
from gradgate.runs.progress import RunProgress
from gradgate.settings.run import RunConfig
from gradgate.tasks import TaskData
from gradgate.tasks.kinds import sequence
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.unlabelled import SPLIT, examples_of, load_unlabelled, read_file, read_text, read_texts
from gradgate.training.arguments import scoring_arguments
from gradgate.training.named_tasks import task_of_run
from gradgate.training.single_task import EncodedSingleTask

_GOLD = "gold"
_SHARES: dict[str, Callable[[Any], Any]] = {
    "classification": sequence.softmax,
    "ranking": sequence.softmax,
    "multiple-choice": sequence.softmax,
    "multi-label": sequence.sigmoid,
}
"""Kind to the function that turns logits, of shape ``(rows, labels)``, into probabilities."""
_LABELS = ("labels", "start_positions", "end_positions")


def predict(
    runs: Sequence[Path],
    rows: Path | str | Sequence[Any],
    *,
    text: str | None = None,
    text_pair: str | None = None,
    keep: Sequence[str] = (),
    language: str | None = None,
    batch_size: int | None = None,
    data: Path | None = None,
    of_task: str | None = None,
    progress: RunProgress | None = None,
    trust_remote_code: bool = False,
) -> Predictions:
    """Predict with the models of finished runs; layers that several share from the bottom are run once.

    Args:
        runs: folders.
        rows: a file like the test file of the runs' task, CSV, TSV, JSON lines, JSON or Parquet; or text, in a file
            or as a string: one example per line, or JSON lines.
        text, text_pair: columns of the file; by default those of each run's task.
        keep: columns of the file to return with each prediction, such as an identifier or the language of the row.
        language: of the rows, for runs on language adapters; by default the language of training.
        batch_size: rows of a batch; by default 64, or the run's if that is more (texts are generated in the run's).
        data: folder with the files of the runs' task, if it has moved.
        of_task: one of the tasks that each run trained together.
        trust_remote_code: run code that comes with the models. The setting in the runs' folders is ignored.

    Raises:
        UsageError: without a run, for a run that is named twice, or for a language that a run has no adapter for.
        DataError: for rows that do not fit the task of a run, or a column of ``keep`` that does not exist.
        RunError: for a run that has not finished, or cannot be read.
    """
    progress = begin("gradgate predict", progress)
    names = names_of(runs)
    progress.begin(len(names), 0)
    tasks, cells = list[_Task](), list[dict[str, Any]]()
    with ExitStack() as active_languages:
        for path in runs:
            run = load_finished(path, of_task=of_task, trust_remote_code=trust_remote_code)
            active_languages.enter_context(_in_language(run, language, progress.note))
            spec, table = _read_rows(run, rows, text=text, text_pair=text_pair, data=data)
            examples = examples_of(spec, table)
            cells = cells or _kept(table, examples, keep)
            tasks.append(_Task.of(run, spec, examples, batch_size, progress.note))
        return _predicted(names, tasks, cells, progress)


def _predicted(
    names: Sequence[str], tasks: Sequence[_Task], cells: list[dict[str, Any]], progress: RunProgress
) -> Predictions:
    """Return each run's predictions by its name; runs that share layers from the bottom compute these once."""
    predicted: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    probabilities: dict[str, list[dict[str, float]]] = {}
    for group in _groups(tasks):
        for task, outputs in zip(group, _outputs(group), strict=True):
            name = names[tasks.index(task)]
            predicted[name], probabilities[name] = task.records(outputs), task.probabilities(outputs)
        progress.advance(sum(map(bool, predicted.values())), None)
    return Predictions(predicted, cells, probabilities)


def _read_rows(run: FinishedRun, rows: Path | str | Sequence[Any], **passed: Any) -> tuple[TaskSpec, SourceTable]:
    """Read rows as a run's task does, with other columns or another folder of its data if these are passed."""
    columns = {name: value for name, value in passed.items() if value}
    changed = run.config.model_copy(update=columns)
    spec = run.find_task(**columns) if "data" in columns or run.together else task_of_run(changed, run.task)
    if isinstance(rows, str):
        return spec, read_text(rows, spec)
    return spec, read_file(rows, spec) if isinstance(rows, Path) else read_texts(rows, spec)


def _in_language(run: FinishedRun, language: str | None, note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Activate the adapter of the rows' language within the body, if the run has language adapters."""
    adapters = run.language_adapters
    if language is None:
        if adapters is not None and run.task.languages:
            source = run.task.source
            note(
                f"The rows are assumed to be in {source!r}, so its language adapter is used. language= selects another."
            )
        return nullcontext()
    if adapters is None:
        raise UsageError(
            f"language={language} selects a language adapter, and {run.folder.path} was trained without "
            f"language_adapters=. Leave language= out: its model is the same for all languages."
        )
    adapters.check([language])
    return adapters.running(run.model, language)


def _kept(table: SourceTable, examples: SourceTable, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the cells of these columns, by example; of one that has several rows, such as tokens, the first row's."""
    table = table if len(table) == len(examples) else examples
    columns = {name: table.column(name, "keep=") for name in names}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def names_of(runs: Sequence[Path]) -> list[str]:
    """Return the runs' paths without their common parent; raise UsageError without a run, or for one named twice."""
    if not runs:
        raise UsageError("No run is named; expected one folder or more.")
    paths = [run.resolve() for run in runs]
    for place, path in enumerate(paths):
        first = runs[paths.index(path)]
        if path in paths[:place]:
            also = "" if first == runs[place] else f", also as {first}"
            raise UsageError(f"{runs[place]} is named twice{also}. Name each run once.")
    common = os.path.commonpath(paths) if len(paths) > 1 else paths[0].parent
    return [path.relative_to(common).as_posix() for path in paths]


@dataclass(frozen=True, eq=False)
class _Task:
    """One run, with the rows encoded for its model."""

    run: FinishedRun
    config: RunConfig
    data: TaskData
    encoded: EncodedSingleTask
    batch_size: int | None

    @classmethod
    def of(
        cls,
        run: FinishedRun,
        spec: TaskSpec,
        examples: SourceTable,
        batch_size: int | None,
        note: Callable[[str], None],
    ) -> _Task:
        data = replace(load_unlabelled(spec, run.task.labels, examples), may_lack_answers=run.may_lack_answers)
        for text in data.notes:
            note(text)
        config = run.config if batch_size is None else run.config.model_copy(update={"batch_size": batch_size})
        encoded = run.prepared(data).encode_splits(data.tests, config, run.tokenizer)
        return cls(run, config, data, encoded, batch_size)

    @property
    def features(self) -> Dataset:
        return self.encoded.splits[SPLIT].features

    def batches_like(self, other: _Task) -> bool:
        """Return True if both models get the same batches, except for the labels."""
        if not (self.encoded.runs_in_one_pass and other.encoded.runs_in_one_pass):
            return False
        mine, theirs = (
            (
                task.config.batch_size,
                task.config.pass_precision,
                type(task.encoded.kind.collator(task.run.tokenizer)),
                task.features["input_ids"][:],
            )
            for task in (self, other)
        )
        return mine == theirs

    def probabilities(self, outputs: Any) -> list[dict[str, float]]:
        """Return the probability of each label for each row; empty if outputs are not classes of whole rows."""
        kind, labels = self.run.task.kind, self.run.task.labels
        if kind not in _SHARES:
            return []
        shares = _SHARES[kind](sequence.logits_of(outputs))
        names = labels if labels is not None else [str(number) for number in range(shares.shape[1])]
        return [dict(zip(names, row, strict=True)) for row in shares.tolist()]

    def records(self, outputs: Any) -> list[dict[str, Any]]:
        scored = self.encoded.kind.score(self.data.tests[SPLIT], self.features, outputs, self.data, SPLIT)
        return [{name: value for name, value in row.items() if name != _GOLD} for row in scored.predictions]


def _groups(tasks: Sequence[_Task]) -> list[list[_Task]]:
    """Group the tasks whose models get the same batches."""
    groups: list[list[_Task]] = []
    for task in tasks:
        group = next((group for group in groups if task.batches_like(group[0])), None)
        if group is None:
            groups.append([task])
        else:
            group.append(task)
    return groups


def _outputs(group: Sequence[_Task]) -> list[Any]:
    """Return each model's output, an array or a tuple of arrays; layers that the models share are run once."""
    shared = SharedPrefix.of([task.run.model for task in group]) if len(group) > 1 else None
    if shared is None or not shared.depth:
        return [_passed(task, task.run.model) for task in group]
    together = _Together(shared)
    flat = _passed(group[0], together)  # Trainer joins the outputs of all models to one tuple; split it by model
    arrays = flat if isinstance(flat, tuple) else (flat,)
    starts = [sum(together.widths[:place]) for place in range(len(group))]
    parts = [arrays[start : start + width] for start, width in zip(starts, together.widths, strict=True)]
    return [part[0] if len(part) == 1 else part for part in parts]


def _passed(task: _Task, model: Any) -> Any:
    """Return the outputs of a model for the rows of a task."""
    with _scratch() as folder:
        args = scoring_arguments(task.config, folder, task.batch_size)
        return task.encoded.outputs(SPLIT, model=model, args=args, processing_class=task.run.tokenizer)


class _Together(nn.Module):
    """Several models as one module, for Trainer; their outputs follow one another.

    Attributes:
        widths: number of tensors that each model has returned.
    """

    def __init__(self, shared: SharedPrefix) -> None:
        super().__init__()
        self.models = nn.ModuleList(shared.models)
        self.config = shared.models[0].config
        self.widths: list[int] = []
        self._shared = shared
        # Trainer drops all columns that the signature of forward does not name, so take over that of a model.
        self.__dict__["forward"] = functools.wraps(shared.models[0].forward)(lambda **inputs: self._run(**inputs))

    def _run(self, **inputs: Any) -> dict[str, Any]:
        unlabelled = {name: value for name, value in inputs.items() if name not in _LABELS}
        outputs = [
            [value for value in output.to_tuple() if isinstance(value, Tensor)] for output in self._shared(**unlabelled)
        ]
        self.widths = [len(values) for values in outputs]
        return {f"{place}": value for place, value in enumerate(value for values in outputs for value in values)}


@contextmanager
def _scratch() -> Iterator[RunFolder]:
    """Yield a temporary folder for the files that Trainer writes."""
    with tempfile.TemporaryDirectory() as folder:
        yield RunFolder(Path(folder))
