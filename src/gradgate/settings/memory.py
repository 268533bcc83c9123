"""Define the settings of a memory estimate: those of the training that it describes, how that is divided, and where."""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from gradgate.errors import UsageError
from gradgate.methods import Full
from gradgate.methods.fixed import Probe
from gradgate.settings.arms.arm import Arm
from gradgate.settings.base import LEAST_EPOCHS, MOST_EPOCHS, MOST_STEPS, checked_settings, passed
from gradgate.settings.data import SubjectSettings
from gradgate.settings.fields import AdapterField, ArmsField
from gradgate.settings.optimization import SeedSettings
from gradgate.settings.run import EstimatedSettings, RunConfig

Head = Literal["auto", "causal-lm", "seq2seq", "sequence", "token"]
MOST_SHARDS = 65_536
Quantization = Literal["nf4", "int8", "fp8"]
QUANTIZATIONS = get_args(Quantization)
"""Formats of a frozen model's matrices under an adapter."""
MOST_GIB = 10_000
_BEFORE = "that training comes first, of the whole model if there is no adapter, as method 'full' on masked words"
_NOT_COUNTED = {
    "open_new_tokens": "only the training knows which rows are new",
    "tapt_steps": _BEFORE,
    "tapt_epochs": _BEFORE,
}
_HEADS: dict[str, Head] = {"token-classification": "token", "question-answering": "token", "generation": "auto"}


class MemorySettings(EstimatedSettings, SeedSettings, SubjectSettings):
    """Everything that a memory estimate is asked for: a training as :class:`RunConfig` describes it, and its length."""

    section: ClassVar[str] = "precision and memory"

    method: ArmsField = Field(
        (Arm(Full()),),
        description=f"{RunConfig.model_fields['method'].description}; repeat to compare",
        json_schema_extra={"default": "full"},
    )
    adapter: AdapterField = Field(None, description=str(RunConfig.model_fields["adapter"].description))
    weights: Literal["float32", "bfloat16"] | Quantization | None = Field(  # type: ignore[assignment]
        None,
        description="type of the weights; by default float32; nf4, int8 and fp8 quantize the matrices of a frozen "
        "model under an adapter and keep everything else in bfloat16",
    )
    head: Head = Field("auto", description="head of the model; auto takes the one for the task's kind")
    shards: int = Field(
        1,
        ge=1,
        le=MOST_SHARDS,
        description="number of FSDP2 processes that shard the model; the table is for one of them",
    )
    steps: int = Field(1000, ge=1, le=MOST_STEPS, description="number of optimizer steps of the training")
    epochs: float = Field(
        1.0, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="number of epochs, for methods that count in epochs"
    )
    steps_per_epoch: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="length of an epoch in steps, instead of epochs="
    )

    gpu: float | None = Field(
        None,
        gt=0,
        le=MOST_GIB,
        allow_inf_nan=False,
        description="memory of your device in GiB: list the methods that fit it first, the smallest on top",
    )

    @classmethod
    def sections(cls) -> dict[str, str]:
        """Return the subject of each field; what is redefined here stays where it is for a run."""
        of_a_run = RunConfig.sections()
        return super().sections() | {name: of_a_run[name] for name in cls.model_fields if name in of_a_run}

    @classmethod
    def of(cls, config: RunConfig, kind: str) -> MemorySettings:
        """Return what to ask about a run with a task of this kind."""
        shared = {name: value for name, value in dict(config).items() if name in cls.model_fields}
        left_out = {*_NOT_COUNTED, "epochs", "method", "adapter", "language_adapters", "head"}
        asked = {name: value for name, value in shared.items() if name not in left_out}
        return checked_settings(cls, {**asked, "kind": kind})

    @model_validator(mode="after")
    def _one_length(self) -> MemorySettings:
        """Take both lengths: a training without data needs ``epochs`` to know how long one is."""
        return self

    @model_validator(mode="after")
    def _counted(self) -> MemorySettings:
        for name, reason in _NOT_COUNTED.items():
            if value := getattr(self, name, None):
                raise UsageError(f"{name}={value} is not in the estimate: {reason}. Leave it out.")
        if self.release_gradients and self.shards > 1:
            raise UsageError(
                f"release_gradients=True and shards={self.shards} cannot be combined: it steps a parameter before its "
                f"gradient is averaged over the processes. Leave one of them out."
            )
        return self

    @property
    def epoch(self) -> int:
        """Optimizer steps in one pass over the data."""
        return self.steps_per_epoch or max(1, ceil(self.steps / self.epochs))

    def with_own(self, arm: Arm) -> MemorySettings:
        """Return the settings with an arm's own in place of those that all arms share, and a probe's number formats."""
        own = dict(arm.overrides)
        if isinstance(arm.method, Probe):  # as in a run
            own |= {"precision": "fp32"} | ({} if self.weights in QUANTIZATIONS else {"weights": "float32"})
        if not own:
            return self
        # A copy of all fields would count each as passed, a task too, which changes the model's head.
        return checked_settings(type(self), {**passed(self), **own})

    def run(self, **own: Any) -> RunConfig:
        """Return the settings of the training, with a method and an adapter.

        Raises:
            UsageError: if they cannot be combined.
        """
        shared = passed(self, EstimatedSettings) | passed(self, SubjectSettings) | {"seed": self.seed}
        if self.weights in QUANTIZATIONS:  # a run loads its model in 16 or 32 bits
            shared["weights"] = "bfloat16"
        run = checked_settings(RunConfig, {**shared, "epochs": None, "steps": self.steps, **own})
        if run.tapt is not None:  # an arm's own
            what = run.adapter or run.method
            raise UsageError(f"The pretraining of {str(what)!r} is not in the estimate: {_BEFORE}. Leave it out.")
        return run


def head_of(kind: str) -> Head:
    """Return what a model for a kind of task ends with."""
    return _HEADS.get(kind, "sequence")
