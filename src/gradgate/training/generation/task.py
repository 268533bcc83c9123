"""Prepare, train and score a generation task, for decoders and encoder-decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from datasets import Dataset
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

from gradgate.distributed import launch
from gradgate.errors import DataError, RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import write_predictions
from gradgate.runs.records import DEV, TRAIN
from gradgate.runs.scores import SplitScores
from gradgate.settings.run import RunConfig
from gradgate.tasks import TaskData
from gradgate.tasks.kinds.base import PLACE
from gradgate.tasks.kinds.generation import Generation
from gradgate.tasks.kinds.sequence import check_padding
from gradgate.tasks.metrics import GENERATED
from gradgate.tasks.metrics.texts import PACKAGES, check_libraries
from gradgate.tasks.types import IGNORED, GenerationOptions
from gradgate.training.generation.decoding import Greedy, check_settings, new_tokens
from gradgate.training.generation.trainer import EncoderDecoderTrainer, GenerationTrainer
from gradgate.training.pretrained import load_pretrained
from gradgate.training.single_task import EncodedSingleTask, PreparedSingleTask, Scorer, Split
from gradgate.training.truncation import truncation_notes


@dataclass(frozen=True)
class EncodedGeneration(EncodedSingleTask):
    """Prompts and responses, encoded for a model.

    While a run trains, dev is scored by its loss, and by generated texts only if the metric that selects needs them.
    Texts are generated with the best weights at the end.

    Attributes:
        config: of the run.
        tokenizer: of the model.
        said: messages for the user about the data.
    """

    kind: Generation
    config: RunConfig
    tokenizer: Any
    said: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about rows that were cut or left out."""
        return self.said

    @property
    def runs_in_one_pass(self) -> bool:
        """False: a text takes one forward pass per token."""
        return False

    @property
    def selects_by_texts(self) -> bool:
        """True if the metric that selects is one of generated texts."""
        return self.metric in GENERATED

    def predictions(self) -> dict[str, str]:
        """Return name -> content of the file for the texts generated last; empty if there are none."""
        return super().predictions() if self.scorer.latest.predictions else {}

    def trainer(self, **options: Any) -> GenerationTrainer:
        """Build a Trainer for this data; ``options`` are Trainer's others."""
        features = self.splits[DEV].features
        return self._trainer(train_dataset=self.train, eval_dataset=features, **options)

    def scoring_trainer(self, **options: Any) -> GenerationTrainer:
        """Build a Trainer that only scores; TRL's constructor requires training rows nevertheless."""
        return self._trainer(train_dataset=next(iter(self.splits.values())).features, **options)

    def _trainer(self, **options: Any) -> GenerationTrainer:
        options["args"].per_device_eval_batch_size = self.config.batch_size  # decoders fill the memory
        options |= {"text_scores": self.text_scores, "generates": self.selects_by_texts}
        if self.kind.encoder_decoder:
            return EncoderDecoderTrainer(data_collator=self.kind.collator(self.tokenizer), **options)
        from gradgate.training.generation.sft import DecoderTrainer

        return DecoderTrainer(packed=bool(self.config.packing), **options)

    def text_scores(self, model: Any) -> dict[str, float]:
        """Generate texts for the scorer's split, score them, and store them as the latest predictions."""
        split = self.splits[self.scorer.split]
        texts = self._texts(model, split)
        self.scorer.latest = self.kind.score(split.rows, split.features, texts, self.data, self.scorer.split)
        return self.scorer.latest.metrics

    def outputs(self, split: str, **options: Any) -> list[str]:
        """Return the texts that a model generates for a split."""
        model = options["model"].to(options["args"].device)
        return self._texts(model, self.splits[split])

    def _texts(self, model: Any, split: Split) -> list[str]:
        config = self.config
        greedy = Greedy(config.batch_size, new_tokens(config.max_new_tokens, model.config), config.precision)
        return greedy.texts(model, self.tokenizer, split.features["prompt_ids"][:])

    def scores(self, trainer: Any, dev: dict[str, float], folder: RunFolder) -> SplitScores:
        """Score losses and texts of the weights in the model, on dev and the test splits."""
        if not self.selects_by_texts and not self.config.skip_test:
            self.scorer.split = DEV
            dev = {**dev, **self.text_scores(trainer.accelerator.unwrap_model(trainer.model))}
            launch.on_first(lambda: write_predictions(folder, self.predictions()))
        return super().scores(trainer, dev, folder)

    def score(self, trainer: Any, name: str) -> dict[str, float]:
        """Return loss, perplexity, and the metrics of generated texts."""
        with _generating(trainer):
            return super().score(trainer, name)

    def test_metrics(self, trainer: Any) -> dict[str, dict[str, float]]:
        """Return the metrics on each test split; those of texts only if one of them selects."""
        with self.scorer.set_aside():
            return {name: super(EncodedGeneration, self).score(trainer, name) for name in self.tests}


@contextmanager
def _generating(trainer: GenerationTrainer) -> Iterator[None]:
    """Score texts too within the body."""
    before, trainer.generates = trainer.generates, True
    try:
        yield
    finally:
        trainer.generates = before


class PreparedGeneration(PreparedSingleTask):
    """A generation task, read and checked, for one model.

    Args:
        data: of the task.
        encoder_decoder: whether the model has an encoder.
    """

    kind: Generation

    def __init__(self, data: TaskData, *, encoder_decoder: bool) -> None:
        super().__init__(data)
        options = data.spec.options
        assert isinstance(options, GenerationOptions)
        self.kind = Generation(options, encoder_decoder)
        self.packages = (*PACKAGES, *(() if encoder_decoder else ("trl",)))

    @classmethod
    def of(cls, data: TaskData, config: RunConfig) -> PreparedGeneration:
        """Prepare the task for the model that the configuration names.

        Raises:
            UsageError: for missing packages, or options that do not go with the model.
            RunError: for a model that does not generate text.
        """
        check_libraries()
        settings = load_pretrained(AutoConfig, config, "configuration")
        new_tokens(config.max_new_tokens, settings)
        task = cls(data, encoder_decoder=bool(settings.is_encoder_decoder))
        if task.kind.encoder_decoder:
            _check_encoder_decoder(task.kind.options, config)
            return task
        if type(settings) in MODEL_FOR_MASKED_LM_MAPPING:
            raise RunError(
                f"{config.model!r} is a {settings.model_type} model, an encoder, which cannot generate text. "
                f"Expected a "
                f"decoder such as Llama, or an encoder with a decoder such as T5. Pass one of these as model=; "
                f"sample-decoder is built in."
            )
        if find_spec("trl") is None:
            raise UsageError(
                "Decoders are trained to generate text with TRL, which is not installed. Install it with: "
                "pip install 'gradgate[llm]' (TRL needs Python 3.11 or later)"
            )
        return task

    def load_model(
        self, config: RunConfig, tokenizer: Any, note: Callable[[str], None] = lambda text: None
    ) -> tuple[Any, frozenset[str]]:
        """Load the model; raise RunError too for one that cannot generate with its settings, or take packed rows."""
        model, fresh = super().load_model(config, tokenizer, note)
        check_settings(model, tokenizer, config.model)
        if config.packing:
            from gradgate.training.generation.packing import check_packing

            check_packing(model, config.model)
        return model, fresh

    def length_notes(self, config: RunConfig, tokenizer: Any) -> tuple[str, ...]:
        """Return messages about training rows, prompt and response, that are longer than ``max_length``."""
        train, _ = self.train_and_dev(config)
        limit = config.max_length

        def lengths(rows: Dataset) -> list[int]:
            return [limit + cut for cut in self.kind.encode(rows, tokenizer, limit)["cut"][:]]

        return truncation_notes(train, lengths, tokenizer, limit)

    def encode_splits(self, rows: dict[str, Dataset], config: RunConfig, tokenizer: Any) -> EncodedGeneration:
        """Encode splits for the model.

        Raises:
            DataError: if cutting rows to their length leaves nothing to learn or to score.
        """
        check_padding(tokenizer)
        notes = [_padding(tokenizer)] if tokenizer.pad_token_id == tokenizer.eos_token_id else []
        splits = {}
        for name, split in rows.items():
            features = self.kind.encode(split, tokenizer, config.max_length)
            if name != TRAIN:  # length_notes has those of train
                notes += _cuts(name, features, config.max_length)
            if not self.kind.encoder_decoder:  # there, prompts take no room from responses
                features, lost = _without_lost(name, split, features, config.max_length)
                notes += lost
            if name == TRAIN and config.packing:
                from gradgate.training.generation.packing import pack

                packed = pack(features, config.max_length)
                notes.append(f"train: {len(features):,} examples are packed into {len(packed):,} rows")
                features = packed
            splits[name] = Split(split, features)
        scorer = Scorer(self.kind, self.data, splits)
        return EncodedGeneration(self.data, self.kind, splits, scorer, config, tokenizer, tuple(notes))


def _check_encoder_decoder(options: GenerationOptions, config: RunConfig) -> None:
    wrong = {
        "loss_on: all": options.loss_on == "all",
        "turns: all": options.turns == "all",
        "packing=True": bool(config.packing),
    }
    for name, applies in wrong.items():
        if applies:
            raise UsageError(
                f"{name} is for decoders, but {config.model!r} has an encoder, which reads the prompt of one response. "
                f"Leave it out, or pass a decoder as model=."
            )


def _padding(tokenizer: Any) -> str:
    return f"the tokenizer has no padding token, so {tokenizer.pad_token!r} pads; the loss ignores it"


def _cuts(name: str, features: Dataset, length: int) -> list[str]:
    """Return a message about the rows of a split that were cut."""
    cuts = [cut for cut in features["cut"][:] if cut]
    if not cuts:
        return []
    longest = length + max(cuts)
    return [
        f"{name}: {len(cuts):,} of {len(features):,} rows are cut to {length} tokens at their end; the longest has "
        f"{longest:,}. max_length={longest} keeps all"
    ]


def _without_lost(name: str, rows: Dataset, features: Dataset, length: int) -> tuple[Dataset, list[str]]:
    """Drop training rows whose responses were cut off completely; return the split and messages about them.

    Rows of other splits stay: texts are generated for them.
    """
    lost = [number for number, labels in enumerate(features["labels"][:]) if set(labels[1:]) <= {IGNORED}]
    if not lost:
        return features, []
    which = (
        f"{name}: nothing of the response is within max_length={length} in {len(lost):,} of {len(features):,} rows, "
        f"the first at {rows[lost[0]][PLACE]}"
    )
    if len(lost) == len(features):
        raise DataError(f"{which}. Raise max_length=, or shorten the prompts")
    if name != TRAIN:
        return features, [f"{which}; the loss ignores them. Raise max_length= to keep them"]
    gone = set(lost)
    remaining = features.select([number for number in range(len(features)) if number not in gone])
    return remaining, [f"{which}; they are left out. Raise max_length= to keep them"]
