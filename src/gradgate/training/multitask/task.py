"""Train one encoder on several tasks together, after MT-DNN (Liu et al. 2019)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gradgate.distributed import launch
from gradgate.errors import DataError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import write_predictions
from gradgate.runs.records import TaskRecord
from gradgate.runs.scores import SplitScores
from gradgate.settings.run import RunConfig
from gradgate.tasks.data import load_to_train
from gradgate.tasks.kinds.tokens import mark_word_starts
from gradgate.tasks.multitask import KIND, MultitaskSpec
from gradgate.training.multitask.model import load_multitask, save_encoder, save_heads
from gradgate.training.multitask.trainer import MEAN, MultitaskTrainer, TaskBatches
from gradgate.training.named_tasks import find_multitask_of, several_in_one_process
from gradgate.training.single_task import EncodedSingleTask, PreparedSingleTask

TEST = "test"


@dataclass(frozen=True)
class EncodedMultitask:
    """Several tasks with their splits, encoded for the model.

    Attributes:
        encoded_tasks: the splits by task.
        batches: draws the training batches.
    """

    encoded_tasks: dict[str, EncodedSingleTask]
    batches: TaskBatches

    @property
    def examples(self) -> int:
        """Rows of all training splits."""
        return sum(encoded.examples for encoded in self.encoded_tasks.values())

    @property
    def windows(self) -> int:
        """Rows in an epoch if every batch were full."""
        return len(self.batches) * self.batches.batch_size

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about the encoded data; none."""
        return ()

    def predictions(self) -> dict[str, str]:
        """Return name -> content of the files of the latest predictions for each task."""
        return {name: text for task in self.encoded_tasks for name, text in self._filed(task).items()}

    def trainer(self, **options: Any) -> MultitaskTrainer:
        """Build a Trainer for this data; ``options`` are Trainer's others."""
        return MultitaskTrainer(encoded_tasks=self.encoded_tasks, batches=self.batches, **options)

    def scores(self, trainer: MultitaskTrainer, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score the model's weights on each task's test splits, and write their prediction files.

        Returns:
            The means over tasks, and each task's own scores. The tests have a mean only if every task has one.
        """
        tasks = {task: self._task_scores(trainer, task, dev, folder) for task in self.encoded_tasks}
        means = [mean for scores in tasks.values() if (mean := scores.test_mean) is not None]
        return SplitScores(
            metric=MEAN,
            dev={name: value for name, value in dev.items() if "/" not in name},
            tests={TEST: {MEAN: fmean(means)}} if len(means) == len(tasks) else {},
            tasks=tasks,
        )

    def test_metrics(self, trainer: MultitaskTrainer) -> dict[str, dict[str, float]]:
        """Return ``TASK/SPLIT`` -> metrics; the predictions for dev stay the latest."""
        scores: dict[str, dict[str, float]] = {}
        for task, encoded in self.encoded_tasks.items():
            with encoded.scorer.set_aside():
                scores |= {f"{task}/{split}": trainer.score(task, split) for split in encoded.tests}
        return scores

    def _filed(self, task: str) -> dict[str, str]:
        return {f"{task}/{split}": text for split, text in self.encoded_tasks[task].predictions().items()}

    def _task_scores(
        self, trainer: MultitaskTrainer, task: str, dev: dict[str, float], folder: RunFolder
    ) -> SplitScores:
        encoded = self.encoded_tasks[task]
        tests: dict[str, dict[str, float]] = {}
        for split in encoded.tests:
            tests[split] = trainer.score(task, split)
            write_predictions(folder, self._filed(task))
        of_task = {name.removeprefix(f"{task}/"): value for name, value in dev.items() if name.startswith(f"{task}/")}
        return encoded.split_scores(of_task, tests)


class PreparedMultitask:
    """The tasks that a configuration names, read and checked."""

    metric = MEAN
    higher_is_better = True
    packages: tuple[str, ...] = ()

    def __init__(self, spec: MultitaskSpec) -> None:
        self.name, self.mix = spec.name, spec.mix
        self.tasks = {task.name: PreparedSingleTask(load_to_train(task)) for task in spec.tasks}
        self.notes = tuple(f"{name}: {note}" for name, task in self.tasks.items() for note in task.notes)

    @classmethod
    def of(cls, config: RunConfig) -> PreparedMultitask:
        """Read and check the tasks.

        Raises:
            UsageError: for settings of a single task, an adapter, or several processes.
            DataError: for a fault in the data.
        """
        if launch.count() > 1:
            raise UsageError(several_in_one_process(config))
        if config.class_weights is not None:
            raise UsageError(
                f"class_weights={config.class_weights!r} weights the classes of one task, but {config.task} is "
                f"several. Leave it out."
            )
        return cls(find_multitask_of(config))

    def record(self) -> TaskRecord:
        """Return the record of the tasks for ``run.json``."""
        tasks = tuple(task.record() for task in self.tasks.values())
        marks = json.dumps([[task.name, task.fingerprint] for task in tasks] + [self.mix.text])
        return TaskRecord(
            name=self.name,
            kind=KIND,
            metric=self.metric,
            metric_higher_is_better=self.higher_is_better,
            fingerprint=hashlib.sha256(marks.encode()).hexdigest(),
            rows={split: sum(task.rows[split] for task in tasks) for split in ("train", "dev")},
            source=tasks[0].source,
            mix=self.mix.text,
            tasks=tasks,
        )

    def check_size(self, config: RunConfig) -> None:
        """Raise UsageError if a task has fewer training rows than ``train_size``."""
        for name, task in self.tasks.items():
            try:
                task.check_size(config)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None

    def length_notes(self, config: RunConfig, tokenizer: Any) -> tuple[str, ...]:
        """Return messages about training rows that are longer than ``max_length``, with the names of their tasks."""
        return tuple(
            f"{name}: {note}" for name, task in self.tasks.items() for note in task.length_notes(config, tokenizer)
        )

    def encode(self, config: RunConfig, tokenizer: Any) -> EncodedMultitask:
        """Encode the splits for the model; ``train_size`` rows are drawn per task."""
        self.check_size(config)
        if any(task.data.spec.kind == "token-classification" for task in self.tasks.values()):
            mark_word_starts(tokenizer)  # before any task is encoded, as all share the tokenizer that is saved
        encoded_tasks = {name: task.encode(config, tokenizer) for name, task in self.tasks.items()}
        sizes = [encoded.windows for encoded in encoded_tasks.values()]
        if 0 in sizes:
            raise DataError(
                f"The task {list(encoded_tasks)[sizes.index(0)]} has no training row that the model can take."
            )
        return EncodedMultitask(encoded_tasks, TaskBatches(sizes, config.batch_size, self.mix, config.seed))

    def load_model(
        self, config: RunConfig, tokenizer: Any, note: Callable[[str], None] = lambda text: None
    ) -> tuple[Any, frozenset[str]]:
        """Load the encoder with a head per task; return it and the names of its fresh parameters.

        ``note`` receives a sentence on each head that the checkpoint brings.
        """
        tasks = {name: (task.kind, task.data) for name, task in self.tasks.items()}
        return load_multitask(config, tasks, tokenizer, note)

    def save_model(self, model: Any, config: RunConfig, folder: RunFolder, whole: dict[str, Any] | None) -> None:
        """Write the encoder as a pretrained model, and the heads next to it."""
        save_encoder(model, config, folder.model)
        save_heads(model, folder.heads)
