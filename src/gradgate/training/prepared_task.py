"""What a run needs of its data, for one task and for several at once."""

from __future__ import annotations

from typing import Any, Protocol

from gradgate.errors import UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import TRAIN, SplitScores, TaskRecord
from gradgate.settings.run import RunConfig
from gradgate.tasks import TaskData, load_task
from gradgate.tasks.held_out import dev_as_test
from gradgate.tasks.kinds.generation import Generation
from gradgate.tasks.multitask import is_multitask
from gradgate.training.generation.task import PreparedGeneration
from gradgate.training.multitask.task import PreparedMultitask
from gradgate.training.named_tasks import find_task_of, refuse_mix
from gradgate.training.single_task import PreparedSingleTask


class EncodedTask(Protocol):
    """The data as a model takes it."""

    @property
    def examples(self) -> int:
        """Training rows as read."""

    @property
    def windows(self) -> int:
        """Training rows as the model takes them: a batch size goes into them as often as an epoch has batches."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about the data as the model takes them."""

    def trainer(self, **options: Any) -> Any:
        """A Trainer; ``options`` are all but the data and what scores it."""

    def predictions(self) -> dict[str, str]:
        """Name -> content of the prediction files of the latest score on dev."""

    def scores(self, trainer: Any, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score the weights in the model on the test splits, and write the prediction files of these."""

    def test_metrics(self, trainer: Any) -> dict[str, dict[str, float]]:
        """Test split -> metrics of the weights in the model, with nothing written; of several tasks, TASK/SPLIT."""


class PreparedTask(Protocol):
    """Data that was read and checked, and the model for it.

    Attributes:
        notes: what a person should know about the data.
        metric, higher_is_better: what selects on dev.
        packages: those that train or score this kind of task alone, for the record of a run.
    """

    notes: tuple[str, ...]
    packages: tuple[str, ...]
    metric: str
    higher_is_better: bool

    def record(self) -> TaskRecord:
        """What results say about the data."""

    def check_size(self, config: RunConfig) -> None:
        """UsageError if there are fewer training rows than are to be drawn for train and dev."""

    def encode(self, config: RunConfig, tokenizer: Any) -> EncodedTask:
        """The data as the model takes it."""

    def load_model(self, config: RunConfig, tokenizer: Any) -> tuple[Any, frozenset[str]]:
        """The model with fresh heads, and the names of the parameters that the pretrained weights lacked."""

    def save_model(self, model: Any, config: RunConfig, folder: RunFolder, whole: dict[str, Any] | None) -> None:
        """Write the trained model; ``whole`` is the state of a sharded one."""


def prepare_task(config: RunConfig) -> PreparedTask:
    """What the configuration names, read and checked.

    Raises:
        GradgateError: for names, settings or data that a user can mend.
    """
    if is_multitask(config.task):
        return PreparedMultitask.of(config)
    refuse_mix(config)
    return prepare_single(config)


def prepare_single(config: RunConfig) -> PreparedSingleTask:
    """The one task that the configuration names, read and checked.

    Raises:
        DataError: for a fault in the data.
        UsageError: for settings that do not go with them.
    """
    spec = find_task_of(config)
    if config.dev_size is None:
        return prepared(load_task(spec), config)
    return prepared(dev_as_test(load_task(spec, required=(TRAIN,)), config.dev_size), config)


def prepared(data: TaskData, config: RunConfig) -> PreparedSingleTask:
    """Data that were read, for the model that the configuration names."""
    if data.spec.kind == Generation.info.name:
        return PreparedGeneration.of(data, config)
    given = [
        f"--{name.replace('_', '-')}" for name in ("packing", "max_new_tokens") if getattr(config, name) is not None
    ]
    if given:
        raise UsageError(
            f"{', '.join(given)}: these are for tasks of kind generation, and {data.spec.name} is {data.spec.kind}. "
            f"Leave them out."
        )
    return PreparedSingleTask(data)
