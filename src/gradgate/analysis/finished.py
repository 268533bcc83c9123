"""A finished run ready to be measured: its model, that from which it began, and batches of its task."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback

from gradgate.errors import RunError, UsageError, nearest
from gradgate.evaluation.finished import FinishedRun, load_finished
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV, TRAIN
from gradgate.settings.analysis import ComputeSettings
from gradgate.settings.run import RunConfig
from gradgate.training.arguments import scoring_arguments
from gradgate.training.prepared_task import prepare_single
from gradgate.training.single_task import PreparedSingleTask
from gradgate.training.start import load_start, load_unadapted
from gradgate.training.trainer import RunTrainer


@dataclass(frozen=True)
class LoadedRun:
    """A finished run with its data.

    Attributes:
        found: its model, with the weights that were best on dev.
        config: its settings, on this device.
        task: its data.
        batch_size: rows in a forward pass.
    """

    found: FinishedRun
    config: RunConfig
    task: PreparedSingleTask
    batch_size: int

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.found.folder.path

    def rows(self, split: str) -> Dataset:
        """Return the rows of a split as read; of train, those that the run was trained on.

        Raises:
            UsageError: if the task has no such split, or the run has a language adapter of its own for it.
        """
        train, dev = self.task.train_and_dev(self.config)
        splits = {TRAIN: train, DEV: dev, **self.task.data.tests}
        if split not in splits:
            raise UsageError(
                f"split={split!r}: the task {self.config.task} has {', '.join(splits)}.{nearest(split, splits)}"
            )
        self._check_language(split)
        return splits[split]

    def _check_language(self, split: str) -> None:
        """Refuse a split that the run was scored on with another language adapter than the one in the model."""
        languages, language = self.found.language_adapters, self.task.data.spec.language_of(split)
        if languages is not None and languages.replaces(language):
            raise UsageError(
                f"split={split!r} is in {language}, where the run in {self.path} uses another language adapter; "
                f"only the model with the adapter for {languages.source} is analyzed. Name a split in "
                f"{languages.source}, such as dev."
            )

    def features(self, rows: Dataset) -> Dataset:
        """Return rows as the model takes them."""
        features: Dataset = self.task.kind.encode(rows, self.found.tokenizer, self.config.max_length)
        return features

    def trainer(self, model: Any) -> RunTrainer:
        """Return a trainer whose batches and losses are exactly those of training; it moves the model to the device."""
        with tempfile.TemporaryDirectory() as scratch:  # Trainer makes the folder of its output
            arguments = scoring_arguments(self.config, RunFolder(Path(scratch)))
            arguments.per_device_eval_batch_size = self.batch_size
            trainer = RunTrainer(
                model=model.eval(),
                args=arguments,
                data_collator=self.task.kind.collator(self.found.tokenizer),
                processing_class=self.found.tokenizer,
            )
        trainer.remove_callback(PrinterCallback)
        return trainer

    def pretrained(self) -> Any:
        """Load the pretrained model without an adapter, with the fresh head and tokens that the run began with."""
        return load_unadapted(self.config, self.task, self.found.tokenizer)[0].eval()

    def start(self) -> Any:
        """Load the model as its training began."""
        return load_start(self.config, self.found.folder, self.task, self.found.tokenizer)[0].eval()


class Loader:
    """Loads finished runs; the data of runs on one task are read once."""

    def __init__(self, computing: ComputeSettings) -> None:
        self.computing = computing
        self._tasks: dict[tuple[str | None, int | None], PreparedSingleTask] = {}

    def load(self, path: Path) -> LoadedRun:
        """Load the run in a folder and its data.

        Raises:
            RunError: as :func:`load_finished`, or data that have changed since the run.
            DataError: data that cannot be read.
        """
        found = load_finished(path, trust_remote_code=self.computing.trust_remote_code)
        changes: dict[str, Any] = {"device": self.computing.device}
        if self.computing.data is not None:
            changes["data"] = self.computing.data
        config = found.config.model_copy(update=changes)
        mark = found.task.fingerprint
        key = mark, config.dev_size
        if key not in self._tasks:
            self._tasks[key] = prepare_single(config)
        task = self._tasks[key]
        if mark is not None and task.data.fingerprint != mark:
            raise RunError(
                f"The files of task {found.task.name!r} have changed since the run in {path}. Restore those that it "
                f"was trained on, or name their folder with data=."
            )
        return LoadedRun(found, config, task, self.computing.batch_size)
