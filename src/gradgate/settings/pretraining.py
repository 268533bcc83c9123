"""The settings of a language adapter's training."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gradgate.adapters.config import adapter_config, check_spelling
from gradgate.errors import AdapterError, UsageError
from gradgate.settings.base import (
    LEAST_EPOCHS,
    MOST_EPOCHS,
    MOST_IN_BATCH,
    MOST_SEED,
    MOST_STEPS,
    MOST_THREADS,
    CheckedSettings,
)
from gradgate.settings.fields import PlaceField


class PretrainConfig(CheckedSettings):
    """Everything that decides what a language adapter learns. Without ``epochs`` and ``steps`` it takes one epoch."""

    model: PlaceField = Field("sample", description="hub name or folder of a pretrained encoder; 'sample' is built in")
    language_data: PlaceField = Field(
        description="a text file with one text per line, a CSV, TSV, JSON or Parquet file, or a hub data set; texts "
        "are packed into blocks of max_length= tokens"
    )
    text: str = Field("text", description="column of the text, if the data have columns")
    subset: str | None = Field(None, description="configuration of a hub data set, such as 20231101.sw")
    kind: str = Field("pfeiffer+inv", description="adapter with its options, such as pfeiffer+inv:reduction=2")
    name: str = Field("lang", description="name of the adapter")
    mlm_probability: float = Field(0.15, gt=0, lt=1, description="share of the tokens to mask")
    held_out: float = Field(0.05, ge=0, lt=1, description="share of the texts held out for evaluation; 0 for none")
    max_length: int = Field(128, ge=4, le=MOST_IN_BATCH, description="tokens per block")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="number of optimizer steps, instead of epochs=")
    epochs: float | None = Field(None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="passes over the texts")
    batch_size: int = Field(32, ge=1, le=MOST_IN_BATCH, description="blocks per forward pass and process")
    accumulate: int = Field(1, ge=1, le=MOST_IN_BATCH, description="forward passes per optimizer step")
    lr: float = Field(1e-4, gt=0, description="peak learning rate (AdamW)")
    schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="learning rate after warm-up")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate warms up")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay")
    clip: float = Field(1.0, ge=0, description="maximum gradient norm; 0 for no clipping")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout probability, instead of the model's own")
    seed: int = Field(
        0,
        ge=0,
        le=MOST_SEED,
        description="seed of the adapter's initial weights, held-out texts, data order, masks and dropout",
    )
    save_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between checkpoints; by default ten checkpoints in all"
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where to compute; auto takes a GPU if there is one"
    )
    threads: int | None = Field(None, ge=1, le=MOST_THREADS, description="number of CPU threads")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="precision of the forward and backward pass (autocast)"
    )
    audit: bool | None = Field(None, description="check at the end that the pretrained weights are still bit-identical")
    trust_remote_code: bool = Field(False, description="run Python code from the model's hub repository")

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, text: str) -> str:
        plain = "".join(text.split())
        try:
            adapter_config(plain)
        except AdapterError as error:
            raise UsageError(str(error)) from None
        return plain

    @field_validator("name")
    @classmethod
    def _possible_name(cls, text: str) -> str:
        try:
            check_spelling(text)
        except AdapterError as error:
            raise UsageError(str(error)) from None
        return text

    @model_validator(mode="after")
    def _one_length(self) -> PretrainConfig:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("pass epochs= or steps=, not both")
        return self

    def record(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self.model_dump(mode="json")
