"""Define the settings of a run: typed, the same from Python, a YAML file and the command line."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from gradgate.errors import UsageError
from gradgate.methods.fixed import Probe
from gradgate.settings.arms.adapter import check_stack
from gradgate.settings.arms.arm import Arm
from gradgate.settings.base import checked_settings
from gradgate.settings.data import DataSettings, SubjectSettings
from gradgate.settings.evaluation import EvaluationSettings
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.method import HeadSettings, MethodChoice, MethodSettings
from gradgate.settings.optimization import OptimizationSettings, SeedSettings
from gradgate.settings.precision import PrecisionSettings, ShardSettings
from gradgate.settings.reporting import ReportingSettings
from gradgate.settings.storage import StorageSettings


class EstimatedSettings(
    StorageSettings, EvaluationSettings, PrecisionSettings, OptimizationSettings, MethodSettings, DataSettings
):
    """The shared settings that an estimate of memory has too, whose head is another subject."""


class SharedSettings(ReportingSettings, EstimatedSettings, HeadSettings):
    """The settings that one run has and that all runs of a study share."""


def batch_without_length() -> UsageError:
    """Return the error for a batch size of pretraining on the task's texts that has no length."""
    return UsageError(
        "tapt_batch= has no effect without tapt_steps= or tapt_epochs=. Pass one of these, or leave it out."
    )


class RunConfig(ShardSettings, SharedSettings, SeedSettings, MethodChoice, SubjectSettings):
    """Everything that decides what a run computes.

    Its fields are grouped by subject in the classes that it derives from. Unknown names are errors.
    """

    # A regression on standardized features has large weights that cancel, and 16 bits would round the rest away.
    @property
    def pass_precision(self) -> Literal["fp32", "bf16", "fp16"]:
        """The precision of forward passes: ``precision``, and fp32 for a probe."""
        return "fp32" if isinstance(self.method, Probe) else self.precision

    @property
    def weight_dtype(self) -> Literal["float32", "bfloat16"]:
        """The type of the weights: ``weights``, and float32 for a probe."""
        return "float32" if isinstance(self.method, Probe) else self.weights or "float32"

    @model_validator(mode="after")
    def _whole_adapters(self) -> RunConfig:
        if self.adapter is not None and self.fsdp:
            raise ValueError(
                f"adapter= and fsdp= cannot be combined: {str(self.adapter)!r} is small, so copy the model (DDP). "
                f"Leave fsdp= out"
            )
        if self.tapt is not None and self.fsdp:
            raise ValueError(
                "tapt_steps= or tapt_epochs= and fsdp= cannot be combined: the model is pretrained whole in each "
                "process (DDP). Leave fsdp= out"
            )
        return self

    @model_validator(mode="after")
    def _released_alone(self) -> RunConfig:
        refused = {
            f"clip={self.clip}, which needs all gradients at once (set clip=0)": self.clip > 0,
            f"accumulate={self.accumulate}, which needs several backward passes": self.accumulate > 1,
            "precision=fp16, which scales gradients until the step": self.precision == "fp16",
            "fsdp, which averages gradients over processes": self.fsdp,
        }
        reasons = [reason for reason, applies in refused.items() if applies]
        if self.release_gradients and reasons:
            raise ValueError(f"release_gradients= cannot be combined with {'; or with '.join(reasons)}")
        return self

    @model_validator(mode="after")
    def _tracked_whole(self) -> RunConfig:
        if self.track is not None and self.fsdp:
            raise ValueError(
                f"track={str(self.track)!r} and fsdp= cannot be combined: whole weights are measured, and FSDP2 keeps "
                f"shards. Leave out one of them"
            )
        return self

    @model_validator(mode="after")
    def _probed_alone(self) -> RunConfig:
        others = {
            f"adapter={str(self.adapter)!r}": self.adapter is not None,
            "tapt_steps= or tapt_epochs=": self.tapt is not None,
            "open_new_tokens=": bool(self.open_new_tokens),
            f"track={str(self.track)!r}": self.track is not None,
            "fsdp=": self.fsdp,
        }
        passed = [name for name, is_passed in others.items() if is_passed]
        if isinstance(self.method, Probe) and passed:
            raise ValueError(
                f"{self.method.spec!r} and {passed[0]} cannot be combined: it fits the head on the pretrained model, "
                f"and takes no training steps. Leave out one of them"
            )
        return self

    @model_validator(mode="after")
    def _rows_of_one_model(self) -> RunConfig:
        if self.open_new_tokens and self.tapt is not None:
            raise ValueError(
                "open_new_tokens= and tapt_steps= or tapt_epochs= cannot be combined: new rows would be drawn again "
                "after the pretraining. Add the tokens, train their rows in another run, and continue from its model"
            )
        return self

    @model_validator(mode="after")
    def _cacheable(self) -> RunConfig:
        if self.frozen_dropout and self.activation_cache not in ("auto", "off"):
            raise ValueError(
                f"activation_cache={self.activation_cache!r} and frozen_dropout= cannot be combined: with dropout the "
                f"output of closed layers differs in each forward pass. Leave out one of them"
            )
        return self

    @property
    def tapt(self) -> dict[str, Any] | None:
        """The settings of the task-adaptive pretraining that differ from the run's; None without it."""
        own = self.adapter
        mine = (None, None) if own is None else (own.tapt_steps, own.tapt_epochs)
        steps, epochs = mine if any(mine) else (self.tapt_steps, self.tapt_epochs)
        size = self.tapt_batch if own is None or own.tapt_batch is None else own.tapt_batch
        batch = {} if size is None else {"batch_size": size}
        return {"steps": steps, "epochs": epochs, **batch} if steps or epochs else None

    def check_adapter(self) -> None:
        """Refuse an adapter that no model could take, or no language adapter, as far as that can be seen without one.

        Raises:
            UsageError: if its package is missing, an option is wrong, or it cannot be in a stack.
        """
        if self.adapter is not None:
            self.adapter.kind.check()
        if self.language_adapters is not None:
            check_stack(self.language_adapters, self.adapter, has_tapt=self.tapt is not None)

    def check_tapt(self) -> None:
        """Raise UsageError for a batch size of pretraining on the task's texts that has no length.

        An arm of a study may have one, if others are pretrained.
        """
        if self.tapt is None and (self.tapt_batch or (self.adapter is not None and self.adapter.tapt_batch)):
            raise batch_without_length()

    @property
    def arm(self) -> Arm:
        """The arm that learns: the method, on the adapter if there is one."""
        return Arm(self.method, self.adapter)

    @property
    def peak_lr(self) -> float:
        """The peak learning rate: the adapter's own where it has one."""
        own = self.adapter
        return self.lr if own is None or own.lr is None else own.lr

    def record(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Return a digest that is equal for runs that compute the same, whatever they prove or store on the way."""
        return fingerprint_of({**self.record(), **({"method": self.followed} if self.followed else {})})

    @property
    def followed(self) -> str | None:
        """The method with the digest of the plan file that it follows; None where it follows none."""
        return self.method.fingerprint if self.method.fingerprint != self.method.spec else None


def make_config(**values: Any) -> RunConfig:
    """Return a RunConfig from plain values; None means not passed.

    Raises:
        UsageError: naming every unknown name and every value out of range.
    """
    return checked_settings(RunConfig, values)
