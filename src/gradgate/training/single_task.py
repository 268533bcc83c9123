"""A run of one task: its data as the model takes them, its scores, and its prediction files."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback

from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import predictions_text, write_predictions
from gradgate.runs.records import DEV, TRAIN, SplitScores, TaskRecord
from gradgate.settings.run import RunConfig
from gradgate.tasks import Kind, Scored, TaskData, greater_is_better, kind_of, subsample
from gradgate.tasks.held_out import hold_out
from gradgate.tasks.languages import average
from gradgate.training.pretrained import load_with_fresh
from gradgate.training.trainer import ExactTrainer, RunTrainer, dev_scores


@dataclass(frozen=True)
class Split:
    """A split as read, and as the model takes it."""

    rows: Dataset
    features: Dataset


class Scorer:
    """Scores the outputs for one split, which Trainer does not know, and keeps what was predicted.

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
        """The metrics of outputs for ``split``: Trainer's ``compute_metrics``."""
        held = self.splits[self.split]
        self.latest = self.kind.score(held.rows, held.features, output.predictions, self.data, self.split)
        return self.latest.metrics

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Score other splits in the body; ``split`` and ``latest`` are afterwards what they were."""
        kept = self.split, self.latest
        try:
            yield
        finally:
            self.split, self.latest = kept


@dataclass(frozen=True)
class EncodedSingleTask:
    """One task with its splits as the model takes them.

    Attributes:
        scorer: scores the split that it is set to, and keeps what was predicted for it.
        language_adapters: of which that of a split's language runs while it is scored; None without.
    """

    data: TaskData
    kind: Kind
    splits: dict[str, Split]
    scorer: Scorer
    language_adapters: LanguageAdapters | None = field(default=None, kw_only=True)

    @property
    def examples(self) -> int:
        """Rows of the training split."""
        return len(self.splits[TRAIN].rows)

    @property
    def windows(self) -> int:
        """Rows as the model takes them; some kinds make several out of one row."""
        return len(self.splits[TRAIN].features)

    @property
    def train(self) -> Dataset:
        """The training split as the model takes it."""
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
        """Name -> content of the file for what was predicted last."""
        return {self.scorer.split: predictions_text(self.scorer.latest.predictions)}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about the data as the model takes them."""
        return ()

    def trainer(self, **options: Any) -> ExactTrainer:
        """A Trainer for it; ``options`` are all but the data."""
        return RunTrainer(
            train_dataset=self.train,
            eval_dataset=self.splits[DEV].features,
            data_collator=self.kind.collator(options["processing_class"]),
            compute_metrics=self.scorer,
            **options,
        )

    def scoring_trainer(self, **options: Any) -> ExactTrainer:
        """A Trainer that only scores splits; ``options`` are model, arguments and tokenizer."""
        collator = self.kind.collator(options["processing_class"])
        return RunTrainer(data_collator=collator, compute_metrics=self.scorer, **options)

    def outputs(self, split: str, **options: Any) -> Any:
        """What a model returns for a split, as the kind scores it; ``options`` are model, arguments and tokenizer."""
        trainer = RunTrainer(data_collator=self.kind.collator(options["processing_class"]), **options)
        trainer.remove_callback(PrinterCallback)
        return trainer.predict(self.splits[split].features).predictions

    @property
    def runs_in_one_pass(self) -> bool:
        """Whether one forward pass of a batch gives all that is predicted for it."""
        return True

    def scores(self, trainer: Any, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score the weights in the model on the test splits, and write the prediction files of these."""
        tests: dict[str, dict[str, float]] = {}
        for name in self.tests:
            tests[name] = self.score(trainer, name)
            launch.on_first(functools.partial(write_predictions, folder, self.predictions()))
        return self.split_scores(dev, tests)

    def test_metrics(self, trainer: Any) -> dict[str, dict[str, float]]:
        """The metrics on each test split; what was predicted for dev stays the latest."""
        with self.scorer.set_aside():
            return {name: self.score(trainer, name) for name in self.tests}

    def score(self, trainer: Any, name: str) -> dict[str, float]:
        """The metrics of the weights in the model on a split; what was predicted is the latest of the scorer."""
        self.scorer.split = name
        with self._in_language(trainer.model, name):
            return dev_scores(trainer.predict(self.splits[name].features, metric_key_prefix="eval").metrics)

    def _in_language(self, model: Any, split: str) -> AbstractContextManager[None]:
        """Where a model has language adapters, that of the split's language runs in the body."""
        if self.language_adapters is None:
            return nullcontext()
        return self.language_adapters.running(model, self.data.spec.language_of(split))

    def split_scores(self, dev: dict[str, float], tests: dict[str, dict[str, float]]) -> SplitScores:
        """The scores with their means over languages."""
        means = average({DEV: dev, **tests}, self.data.languages, self.data.spec.source)
        return SplitScores(metric=self.metric, dev=dev, tests=tests, averages=means)


def task_record(data: TaskData) -> TaskRecord:
    """What results say about the data."""
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
        """What results say about the data."""
        return task_record(self.data)

    def check_size(self, config: RunConfig) -> None:
        """UsageError if there are fewer training rows than are to be drawn for train and dev."""
        self.train_and_dev(config)

    def encode(self, config: RunConfig, tokenizer: Any) -> EncodedSingleTask:
        """The splits as the model takes them, training and dev rows drawn where a part of train is wanted."""
        train, dev = self.train_and_dev(config)
        tests = {} if config.skip_test else self.data.tests
        return self.encode_splits({TRAIN: train, DEV: dev, **tests}, config, tokenizer)

    def encode_splits(self, rows: dict[str, Dataset], config: RunConfig, tokenizer: Any) -> EncodedSingleTask:
        """Some splits as the model takes them."""
        splits = {
            name: Split(split, self.kind.encode(split, tokenizer, config.max_length)) for name, split in rows.items()
        }
        return EncodedSingleTask(self.data, self.kind, splits, Scorer(self.kind, self.data, splits))

    def load_model(self, config: RunConfig, tokenizer: Any) -> tuple[Any, frozenset[str]]:
        """The model with a fresh head, and the names of what the pretrained weights lacked."""
        return load_with_fresh(config, self.kind, self.data, tokenizer)

    def save_model(self, model: Any, config: RunConfig, folder: RunFolder, whole: dict[str, Any] | None) -> None:
        """Write the trained model."""
        model.save_pretrained(folder.model, state_dict=whole)

    def train_and_dev(self, config: RunConfig) -> tuple[Dataset, Dataset]:
        """The rows that a run trains and selects on.

        Raises:
            UsageError: if there are fewer rows of train than are to be drawn.
        """
        if config.dev_size is not None:
            return hold_out(self.data.train, config.dev_size, config.train_size, config.seed)
        if config.train_size is None:
            return self.data.train, self.data.dev
        return subsample(self.data.train, config.train_size, config.seed), self.data.dev
