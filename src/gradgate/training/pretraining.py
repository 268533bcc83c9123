"""Task-adaptive pre-training: the adapter first learns to fill in masked words of the task's own training texts.

AdapterEff (He et al. 2021), Sec. 3.1: https://arxiv.org/abs/2106.03164; Gururangan et al. 2020:
https://arxiv.org/abs/2004.10964. Labels, dev and test texts are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gradgate.errors import AdapterError, RunError, UsageError
from gradgate.files import read_json, write_json
from gradgate.training.adapter_setting import read_choice
from gradgate.training.config import RunConfig
from gradgate.training.interrupt import stoppable
from gradgate.training.masked_lm import Row, Stage, train_masked
from gradgate.training.pretrained import NAME
from gradgate.training.progress import RunProgress, Silent
from gradgate.training.run_folder import RunFolder

PROBABILITY = 0.15
_PER_TOKEN = ("input_ids", "token_type_ids")


@dataclass(frozen=True)
class _Settings:
    """The run that an adapter is trained for: its method does not matter."""

    config: RunConfig

    def record(self) -> dict[str, Any]:
        return {name: value for name, value in self.config.record().items() if name != "method"}


def adapt(config: RunConfig, tokenizer: Any, features: Any, folder: Path, progress: RunProgress, stop: Event) -> None:
    """Train the run's adapter on the texts of its training split; what is done already is not done again.

    The adapter is then in ``folder/task``, as :func:`gradgate.adapters.restore` reads it.

    Args:
        config: of the run; learning rate, batch size, schedule and seed hold here too.
        features: the encoded training split, of which the token ids are read, as long as the run's ``max_length``.
    """
    choice = read_choice(config.adapter or "")
    length = config.model_copy(update={**(config.tapt or {}), "lr": config.peak_lr, "adapter": None})
    stage = Stage(length, _Settings(config), NAME, choice.kind, PROBABILITY, list(_rows(features)))
    progress.note("First the adapter learns from the task's texts (TAPT).")
    train_masked(stage, tokenizer, RunFolder(folder), folder / NAME, progress, stop)


def _rows(features: Any) -> Iterator[Row]:
    """The token ids of each text; of multiple choice, of each text with each choice."""
    names = [name for name in _PER_TOKEN if name in features.column_names]
    for row in features.select_columns(names):
        if row["input_ids"] and isinstance(row["input_ids"][0], list):
            yield from ({name: row[name][choice] for name in names} for choice in range(len(row["input_ids"])))
        else:
            yield row


_OF_RUN = (
    "model", "max_length", "steps", "epochs", "batch_size", "accumulate", "lr", "schedule", "warmup", "weight_decay",
    "clip", "dropout", "seed", "save_every", "device", "precision", "audit", "trust_remote_code",
)  # fmt: skip


class PretrainConfig(BaseModel):
    """Everything that decides what a language adapter learns. Without ``epochs`` and ``steps`` it takes one epoch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("sample", description="hub name or folder of a pretrained encoder; 'sample' is built in")
    language_data: str = Field(
        description="a text file with one text a line, a csv, tsv, JSON or Parquet file, or a data set of the hub; "
        "texts are packed into blocks of --max-length tokens"
    )
    text: str = Field("text", description="column of the text, where there are columns")
    subset: str | None = Field(None, description="configuration of a hub data set, such as 20231101.sw")
    kind: str = Field("pfeiffer+inv", description="kind of adapter with its options, such as pfeiffer+inv:reduction=2")
    name: str = Field("lang", description="name of the adapter")
    mlm_probability: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are to be filled in")
    held_out: float = Field(0.05, ge=0, lt=1, description="share of the texts that is only scored; 0 for none")
    max_length: int = Field(128, ge=4, description="tokens of a block")
    steps: int | None = Field(None, ge=1, description="optimizer steps, instead of epochs")
    epochs: float | None = Field(None, gt=0, description="passes over the texts")
    batch_size: int = Field(32, ge=1, description="blocks in one forward pass of one process")
    accumulate: int = Field(1, ge=1, description="forward passes for one optimizer step")
    lr: float = Field(1e-4, gt=0, description="peak learning rate of AdamW")
    schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="learning rate after warm-up")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay")
    clip: float = Field(1.0, ge=0, description="limit of the gradient's norm; 0 for none")
    dropout: float | None = Field(None, ge=0, lt=1, description="ordinary dropout, instead of the model's own")
    seed: int = Field(0, ge=0, description="of the adapter's start, the held-out texts, order, masks and dropout")
    save_every: int | None = Field(None, ge=1, description="optimizer steps between checkpoints; default ten in all")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto is a GPU where there is one")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="of the forward and backward pass")
    audit: bool | None = Field(None, description="prove at the end that the pretrained weights are bit-identical")
    trust_remote_code: bool = Field(False, description="run code that comes with a hub model")

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, text: str) -> str:
        from gradgate.adapters.config import adapter_config

        plain = "".join(text.split())
        try:
            adapter_config(plain)
        except AdapterError as error:
            raise UsageError(str(error)) from None
        return plain

    @field_validator("name")
    @classmethod
    def _possible_name(cls, text: str) -> str:
        from gradgate.adapters.attach import check_name

        try:
            check_name(text)
        except AdapterError as error:
            raise UsageError(str(error)) from None
        return text

    @model_validator(mode="after")
    def _one_length(self) -> PretrainConfig:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give epochs or steps, not both")
        return self

    def record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.model_dump(mode="json")


def pretrain_adapter(config: PretrainConfig, out: Path, progress: RunProgress | None = None) -> dict[str, Any]:
    """Train a language adapter on a frozen model, or go on where the folder holds a checkpoint.

    The folder is then one that :func:`gradgate.adapters.load` takes, with ``run.json`` (what was done on what) and
    ``scores.json`` (loss and perplexity on the held-out texts before and after). The head for masked words is not
    kept: a language adapter runs under a task's adapter and head.

    Raises:
        GradgateError: for anything that a user can mend.
        FolderLockedError: if another process trains in the folder.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped it after saving.
    """
    from gradgate.distributed import launch
    from gradgate.training.pretrained import silence_libraries
    from gradgate.training.trainer import on_cpu

    progress = progress if progress and launch.is_first() else Silent()
    run = RunConfig(**{name: getattr(config, name) for name in _OF_RUN})
    launch.join(on_cpu(run))
    silence_libraries()
    folder = RunFolder(Path(out))
    with ExitStack() as held:
        done: dict[str, Any] | None = launch.on_first(lambda: folder.claim_alone(config, held))
        if done is not None:
            progress.note(f"{folder.path} is finished; nothing to do.")
            return done
        return _pretrain(config, run, folder, progress)


def _pretrain(config: PretrainConfig, run: RunConfig, folder: RunFolder, progress: RunProgress) -> dict[str, Any]:
    from gradgate.distributed import launch
    from gradgate.training.masked_lm import Stage, hold_out, packed, read_texts, train_masked
    from gradgate.training.pretrained import load_tokenizer
    from gradgate.training.records import versions

    texts = read_texts(config.language_data, config.text, config.subset)
    tokenizer = load_tokenizer(run)
    train, dev = (packed(part, tokenizer, config.max_length) for part in hold_out(texts, config.held_out, config.seed))
    data = {"texts": len(texts), "blocks": len(train), "held_out_blocks": len(dev), "fingerprint": _digest(texts)}
    launch.on_first(lambda: _note(folder, config, data, versions()))
    with stoppable(progress.note) as stop:
        stage = Stage(run, config, config.name, config.kind, config.mlm_probability, train, dev)
        return train_masked(stage, tokenizer, folder, folder.path, progress, stop)


def _note(folder: RunFolder, config: PretrainConfig, data: dict[str, Any], versions: dict[str, str]) -> None:
    begun = read_json(folder.run_file).get("data")
    if begun is not None and begun["fingerprint"] != data["fingerprint"] and folder.history_file.is_file():
        raise RunError(f"{folder.path} was begun on other texts: {config.language_data} has changed since.")
    write_json(folder.run_file, {"config": config.record(), "data": data, "versions": versions})


def _digest(texts: list[str]) -> str:
    state = sha256()
    for text in texts:
        state.update(text.encode() + b"\n")
    return state.hexdigest()
