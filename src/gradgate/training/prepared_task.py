"""Define what a run needs of its data, and prepare it for one task or for several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gradgate.errors import UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import TRAIN, TaskRecord
from gradgate.runs.scores import SplitScores
from gradgate.settings.run import RunConfig
from gradgate.tasks import TaskData, load_task
from gradgate.tasks.data import load_to_train
from gradgate.tasks.held_out import dev_as_test
from gradgate.tasks.kinds.generation import Generation
from gradgate.tasks.multitask import KIND as MULTITASK
from gradgate.tasks.multitask import is_multitask
from gradgate.training.class_weights import check_classes
from gradgate.training.generation.task import PreparedGeneration
from gradgate.training.multitask.task import PreparedMultitask
from gradgate.training.named_tasks import find_task_of, refuse_generation_settings, refuse_mix
from gradgate.training.single_task import PreparedSingleTask


class EncodedTask(Protocol):
    """The data, encoded for a model."""

    @property
    def examples(self) -> int:
        """Number of training rows as read."""

    @property
    def windows(self) -> int:
        """Number of encoded training rows; divided by the batch size, the batches of an epoch."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about the encoded data."""

    def trainer(self, **options: Any) -> Any:
        """Build a Trainer; ``options`` are Trainer's, without the data and the scorer."""

    def predictions(self) -> dict[str, str]:
        """Return name -> content of the prediction files of the latest score on dev."""

    def scores(self, trainer: Any, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score the model's weights on the test splits, and write their prediction files."""

    def test_metrics(self, trainer: Any) -> dict[str, dict[str, float]]:
        """Return test split -> metrics of the model's weights, without writing files; TASK/SPLIT for several tasks."""


class PreparedTask(Protocol):
    """Data that was read and checked, and the model for it.

    Attributes:
        notes: messages for the user about the data.
        metric, higher_is_better: the metric that selects on dev.
        packages: those that only this kind of task needs, for the record of a run.
    """

    notes: tuple[str, ...]
    packages: tuple[str, ...]
    metric: str
    higher_is_better: bool

    def record(self) -> TaskRecord:
        """Return the record of the data for ``run.json``."""

    def check_size(self, config: RunConfig) -> None:
        """Raise UsageError if there are fewer training rows than ``train_size`` and ``dev_size`` ask for."""

    def length_notes(self, config: RunConfig, tokenizer: Any) -> tuple[str, ...]:
        """Return messages about training rows that are longer than ``max_length``."""

    def encode(self, config: RunConfig, tokenizer: Any) -> EncodedTask:
        """Encode the data for the model."""

    def load_model(
        self, config: RunConfig, tokenizer: Any, note: Callable[[str], None] = ...
    ) -> tuple[Any, frozenset[str]]:
        """Load the model with heads for the task; return it and the names of its fresh parameters.

        ``note`` receives a sentence on each head that the checkpoint brings.
        """

    def save_model(self, model: Any, config: RunConfig, folder: RunFolder, whole: dict[str, Any] | None) -> None:
        """Write the trained model; ``whole`` is the full state of a sharded one."""


def prepare_task(config: RunConfig) -> PreparedTask:
    """Read and check the task or tasks that the configuration names.

    Raises:
        GradgateError: for names, settings or data that a user can fix.
    """
    if is_multitask(config.task):
        config.method.check_task(MULTITASK)
        return PreparedMultitask.of(config)
    refuse_mix(config)
    return prepare_single(config)


def prepare_single(config: RunConfig) -> PreparedSingleTask:
    """Read and check the single task that the configuration names.

    Raises:
        DataError: for a fault in the data.
        UsageError: for settings that do not go with them.
    """
    spec = find_task_of(config)
    if config.dev_size is None:
        return prepared(load_to_train(spec), config)
    return prepared(dev_as_test(load_task(spec, required=(TRAIN,)), config.dev_size), config)


def prepared(data: TaskData, config: RunConfig) -> PreparedSingleTask:
    """Prepare data for the model that the configuration names."""
    check_classes(config, data)
    config.method.check_task(data.spec.kind)
    if data.spec.kind == Generation.info.name:
        if config.head is not None:
            raise UsageError(
                f"head={config.head!r}: {data.spec.name} is generation, whose model has no head with labels. Leave it "
                f"out."
            )
        return PreparedGeneration.of(data, config)
    refuse_generation_settings(config, f"{data.spec.name} is {data.spec.kind}")
    return PreparedSingleTask(data)
