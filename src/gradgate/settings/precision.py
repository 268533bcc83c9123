"""Define the settings of number formats, of the device, and of what is saved in memory and time."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from gradgate.errors import UsageError
from gradgate.places import check_folder
from gradgate.settings.base import MOST_THREADS, CheckedSettings
from gradgate.settings.fields import PlaceField

MEMORY = "precision and memory"


class ShardSettings(CheckedSettings):
    """Whether the processes that train one model share its weights."""

    section: ClassVar[str] = MEMORY

    fsdp: bool = Field(False, description="shard the model over the launched processes with PyTorch's FSDP2")


class PrecisionSettings(CheckedSettings):
    """Number formats, the device, and what is computed twice or kept to save memory or time."""

    section: ClassVar[str] = MEMORY

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where to compute; auto takes a GPU if there is one"
    )
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="number of CPU threads; it changes the last bits of sums"
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="precision of the forward and backward pass (autocast)"
    )
    weights: Literal["float32", "bfloat16"] | None = Field(
        None, description="type to load and train the weights in; by default float32; bfloat16 takes half the memory"
    )
    master: Literal["float32", "none"] | None = Field(
        None,
        description="what the optimizer updates if the weights have 16 bits: float32 copies of the trainable ones (the "
        "default), or the weights themselves (none)",
    )
    checkpointing: bool | None = Field(
        None,
        description="gradient checkpointing: recompute activations in the backward pass to save memory; bit-identical",
    )
    release_gradients: bool | None = Field(
        None,
        description="update each weight during the backward pass to save the memory of gradients; bit-identical; needs "
        "clip=0, no accumulation, no fp16, and one process",
    )
    activation_cache: PlaceField = Field(
        "auto",
        description="compute frozen bottom layers once per example and reuse their output: auto (on a CPU, if it saves "
        "time; deleted when the run or study has finished), off, or a folder that is kept",
    )
    activation_cache_dtype: Literal["model", "bfloat16"] = Field("model", description="type of the cached activations")
    activation_cache_size: float = Field(10.0, gt=0, description="maximum size of the activation cache, in GiB")

    @field_validator("activation_cache")
    @classmethod
    def _mode_or_folder(cls, activation_cache: str) -> str:
        check_folder("activation_cache", activation_cache, ("auto", "off"))
        return activation_cache

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
            raise ValueError("weights=bfloat16 and precision=fp16 cannot be combined; use precision=bf16 or fp32")
        return self
