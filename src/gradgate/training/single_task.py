"""Encode the data of one task, score the model on its splits, and write prediction files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback

from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import predictions_text, write_predictions
from gradgate.runs.records import DEV, TRAIN, TaskRecord
from gradgate.runs.scores import SplitScores
from gradgate.settings.run import RunConfig
from gradgate.tasks import Kind, Scored, TaskData, greater_is_better, kind_of, subsample
from gradgate.tasks.held_out import hold_out
from gradgate.tasks.languages import average
from gradgate.training.class_weights import ClassWeights
from gradgate.training.pretrained import load_for_task
from gradgate.training.trainer import ExactTrainer, RunTrainer, dev_scores
from gradgate.training.truncation import token_counts, truncation_notes


@dataclass(frozen=True)
class Split:
    """A split as read, and encoded for the model."""

    rows: Dataset
    features: Dataset


class Scorer:
    """Scores outputs for the current split, which Trainer does not pass on, and stores the predictions.

    Args:
        kind, data: the task.
        splits: name -> split, ``dev`` among them.
    """

    def __init__(self, kind: Kind, data: TaskData, splits: dict[str, Split]) -> None:
        self.kind = kind
        self.data = data
        self.splits = splits
        self.split = DEV
        self.latest = Scored({}, [])

    def __call__(self, output: Any) -> dict[str, float]:
        """Return the metrics of outputs for ``split``, as Trainer's ``compute_metrics``."""
        split = self.splits[self.split]
        self.latest = self.kind.score(split.rows, split.features, output.predictions, self.data, self.split)
        return self.latest.metrics

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Score other splits within the body, and restore ``split`` and ``latest`` afterwards."""
        before = self.split, self.latest
        try:
            yield
        finally:
            self.split, self.latest = before


@dataclass(frozen=True)
class EncodedSingleTask:
    """One task with its splits, encoded for the model.

    Attributes:
        scorer: scores its current split, and stores the predictions.
        language_adapters: the adapter of a split's language is active while it is scored; None without any.
        class_weights: weight the loss of training; None without any.
    """

    data: TaskData
    kind: Kind
    splits: dict[str, Split]
    scorer: Scorer
    language_adapters: LanguageAdapters | None = field(default=None, kw_only=True)
    class_weights: ClassWeights | None = field(default=None, kw_only=True)

    @property
    def examples(self) -> int:
        """Number of rows of the training split."""
        return len(self.splits[TRAIN].rows)

    @property
    def windows(self) -> int:
        """Number of encoded training rows; some kinds make several out of one row."""
        return len(self.splits[TRAIN].features)

    @property
    def train(self) -> Dataset:
        """The encoded training split."""
        return self.splits[TRAIN].features

    @property
    def tests(self) -> list[str]:
        """Names of the test splits that are scored."""
        return [name for name in self.data.tests if name in self.splits]

    @property
    def tested_languages(self) -> list[str]:
        """The languages of the test splits that are scored."""
        return list(dict.fromkeys(map(self.data.spec.language_of, self.tests)))

    @property
    def metric(self) -> str:
        """The metric that selects."""
        return self.data.spec.metric

    def predictions(self) -> dict[str, str]:
        """Return name -> content of the file of the latest predictions."""
        return {self.scorer.split: predictions_text(self.scorer.latest.predictions)}

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about the encoded data: the weights of classes."""
        if self.class_weights is None:
            return ()
        return (f"the loss is weighted by class: {self.class_weights}",)

    def trainer(self, **options: Any) -> ExactTrainer:
        """Build a Trainer for this data; ``options`` are Trainer's others."""
        return RunTrainer(
            train_dataset=self.train,
            eval_dataset=self.splits[DEV].features,
            data_collator=self.kind.collator(options["processing_class"]),
            compute_metrics=self.scorer,
            class_weights=self.class_weights,
            **options,
        )

    def scoring_trainer(self, **options: Any) -> ExactTrainer:
        """Build a Trainer that only scores splits; ``options`` are model, arguments and tokenizer."""
        collator = self.kind.collator(options["processing_class"])
        return RunTrainer(data_collator=collator, compute_metrics=self.scorer, **options)

    def outputs(self, split: str, **options: Any) -> Any:
        """Return a model's raw outputs for a split; ``options`` are model, arguments and tokenizer."""
        trainer = RunTrainer(data_collator=self.kind.collator(options["processing_class"]), **options)
        trainer.remove_callback(PrinterCallback)
        return trainer.predict(self.splits[split].features).predictions

    @property
    def runs_in_one_pass(self) -> bool:
        """True if one forward pass per batch is enough to predict."""
        return True

    def scores(self, trainer: Any, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score the model's weights on the test splits, and write their prediction files."""
        tests: dict[str, dict[str, float]] = {}
        for name in self.tests:
            tests[name] = self.score(trainer, name)
            launch.on_first(functools.partial(write_predictions, folder, self.predictions()))
        return self.split_scores(dev, tests)

    def test_metrics(self, trainer: Any) -> dict[str, dict[str, float]]:
        """Return the metrics on each test split; the predictions for dev stay the latest."""
        with self.scorer.set_aside():
            return {name: self.score(trainer, name) for name in self.tests}

    def score(self, trainer: Any, name: str) -> dict[str, float]:
        """Return the metrics of the model's weights on a split; the scorer stores the predictions as its latest."""
        self.scorer.split = name
        with self._in_language(trainer.model, name):
            return dev_scores(trainer.predict(self.splits[name].features, metric_key_prefix="eval").metrics)

    def _in_language(self, model: Any, split: str) -> AbstractContextManager[None]:
        """Activate the adapter of the split's language within the body, if the model has language adapters."""
        if self.language_adapters is None:
            return nullcontext()
        return self.language_adapters.running(model, self.data.spec.language_of(split))

    def split_scores(self, dev: dict[str, float], tests: dict[str, dict[str, float]]) -> SplitScores:
        """Return the scores with their means over languages."""
        means = average({DEV: dev, **tests}, self.data.languages, self.data.spec.source)
        return SplitScores(metric=self.metric, dev=dev, tests=tests, averages=means)


def task_record(data: TaskData) -> TaskRecord:
    """Return the record of the data for ``run.json``."""
    spec = data.spec
    return TaskRecord(
        name=spec.name,
        kind=spec.kind,
        metric=spec.metric,
        metric_higher_is_better=greater_is_better(spec.metric),
        labels=data.labels,
        fingerprint=data.fingerprint,
        rows=data.rows,
        languages=data.languages,
        source=spec.source,
        split=data.division,
        reading=spec.reading(),
        train_counts=data.train_counts,
    )


class PreparedSingleTask:
    """The task that a configuration names, read and checked."""

    packages: tuple[str, ...] = ()

    def __init__(self, data: TaskData) -> None:
        self.data = data
        self.kind = kind_of(data.spec)
        self.notes = data.notes
        self.metric = data.spec.metric
        self.higher_is_better = greater_is_better(data.spec.metric)

    def record(self) -> TaskRecord:
        """Return the record of the data for ``run.json``."""
        return task_record(self.data)

    def check_size(self, config: RunConfig) -> None:
        """Raise UsageError if there are fewer training rows than ``train_size`` and ``dev_size`` ask for."""
        self.train_and_dev(config)

    def length_notes(self, config: RunConfig, tokenizer: Any) -> tuple[str, ...]:
        """Return messages about training rows that are longer than ``max_length``."""
        train, _ = self.train_and_dev(config)
        return truncation_notes(
            train, lambda rows: token_counts(rows, self.kind, tokenizer), tokenizer, config.max_length
        )

    def encode(self, config: RunConfig, tokenizer: Any) -> EncodedSingleTask:
        """Encode the splits for the model; training and dev rows are drawn if ``train_size`` or ``dev_size`` is set."""
        train, dev = self.train_and_dev(config)
        tests = {} if config.skip_test else self.data.tests
        encoded = self.encode_splits({TRAIN: train, DEV: dev, **tests}, config, tokenizer)
        if config.class_weights is None:
            return encoded
        return replace(encoded, class_weights=ClassWeights.balanced(self.data, train))

    def encode_splits(self, rows: dict[str, Dataset], config: RunConfig, tokenizer: Any) -> EncodedSingleTask:
        """Encode splits for the model."""
        splits = {
            name: Split(split, self.kind.encode(split, tokenizer, config.max_length)) for name, split in rows.items()
        }
        return EncodedSingleTask(self.data, self.kind, splits, Scorer(self.kind, self.data, splits))

    def load_model(
        self, config: RunConfig, tokenizer: Any, note: Callable[[str], None] = lambda text: None
    ) -> tuple[Any, frozenset[str]]:
        """Load the model with a head for the task; return it and the names of its fresh parameters.

        ``note`` receives a sentence on a head that the checkpoint brings.
        """
        return load_for_task(config, self.kind, self.data, tokenizer, note)

    def save_model(self, model: Any, config: RunConfig, folder: RunFolder, whole: dict[str, Any] | None) -> None:
        """Write the trained model."""
        model.save_pretrained(folder.model, state_dict=whole)

    def train_and_dev(self, config: RunConfig) -> tuple[Dataset, Dataset]:
        """Return the rows that a run trains on, and those that it selects on.

        Raises:
            UsageError: if train has fewer rows than ``train_size`` and ``dev_size`` ask for.
        """
        if config.dev_size is not None:
            return hold_out(self.data.train, config.dev_size, config.train_size, config.seed)
        if config.train_size is None:
            return self.data.train, self.data.dev
        return subsample(self.data.train, config.train_size, config.seed), self.data.dev
