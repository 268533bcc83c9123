"""Define the settings of number formats, of the device, and of what is saved in memory and time."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from gradgate.errors import UsageError
from gradgate.settings.base import MOST_THREADS, CheckedSettings
from gradgate.settings.fields import PlaceField

MEMORY = "precision and memory"


class ShardSettings(CheckedSettings):
    """Whether the processes that train one model share its weights."""

    section: ClassVar[str] = MEMORY

    fsdp: bool = Field(False, description="shard the model over the launched processes, with PyTorch's FSDP2")


class PrecisionSettings(CheckedSettings):
    """Number formats, the device, and what is computed twice or kept to save memory or time."""

    section: ClassVar[str] = MEMORY

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU if there is one")
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="CPU threads of the computation; sums depend on it in their last bits"
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="precision of the forward and backward pass")
    weights: Literal["float32", "bfloat16"] | None = Field(
        None, description="type that the model is loaded and trained in, float32 by default; bfloat16 takes half of it"
    )
    master: Literal["float32", "none"] | None = Field(
        None,
        description="what the optimizer steps where weights are in 16 bits: float32 copies of those that are open, "
        "which is the default, or the weights themselves",
    )
    checkpointing: bool | None = Field(
        None, description="compute activations again in the backward pass, so that few are in memory; the same bits"
    )
    release_gradients: bool | None = Field(
        None,
        description="step each weight within the backward pass, so that few gradients are in memory; the same bits, "
        "with clip=0 and in one process",
    )
    activation_cache: PlaceField = Field(
        "auto",
        description="compute closed lower layers once for each example: auto (where it pays, until the run or study "
        "has finished), off, or a folder that is kept",
    )
    activation_cache_dtype: Literal["model", "bfloat16"] = Field("model", description="type of the cached rows")
    activation_cache_size: float = Field(10.0, gt=0, description="limit of the activation cache, in GiB")

    @field_validator("precision", mode="before")
    @classmethod
    def _of_the_passes(cls, precision: object) -> object:
        if precision in ("float32", "bfloat16", "float16"):
            raise UsageError(
                f"precision={precision!r} is a type of weights: expected fp32, bf16 or fp16, in which the passes "
                f"compute. The type of the weights goes to weights=, as in weights='bfloat16'."
            )
        return precision

    @model_validator(mode="after")
    def _one_half(self) -> PrecisionSettings:
        if self.weights == "bfloat16" and self.precision == "fp16":
            raise ValueError("weights=bfloat16 and precision=fp16 do not go together; give precision bf16 or fp32")
        return self
