"""Define the settings of what learns: the method, the adapter, and what happens to the model before."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gradgate.errors import UsageError
from gradgate.methods import Full, Method
from gradgate.settings.arms.adapter import read_adapter
from gradgate.settings.arms.arm import Arm, read_arm
from gradgate.settings.base import LEAST_EPOCHS, MOST_EPOCHS, MOST_IN_BATCH, MOST_STEPS, CheckedSettings
from gradgate.settings.fields import AdapterField, LanguageField, MethodField


class MethodChoice(CheckedSettings):
    """The one method, on the one adapter, that a run trains."""

    section: ClassVar[str] = "method"

    method: MethodField = Field(
        Full(),
        description="what learns when: a method from 'gradgate methods' with its options, an adapter, or both, such as "
        "'lora:r=8 + gradual:every=50'; the option lr=1e-3 sets its own learning rate",
    )
    adapter: AdapterField = Field(
        None,
        description="train an adapter and the head on a frozen model: a bottleneck adapter such as houlsby:size=64, "
        "or one of PEFT's: lora:r=16, dora, rslora, ia3, shira, or any other as peft:TYPE,r=4; the "
        "options lr=1e-3, tapt_steps=500 or tapt_epochs=20, and tapt_batch=256 (as in Gururangan et al. "
        "2020) apply to this adapter alone, and pooler=frozen does not train the pooler, as in FUN's "
        "code; 'none' trains the model itself",
    )

    @model_validator(mode="before")
    @classmethod
    def _an_arm(cls, values: Any) -> Any:
        """Take a method apart that has an adapter, or settings of its own."""
        given = values.get("method") if isinstance(values, dict) else None
        if given is None or isinstance(given, Method):
            return values
        try:
            arm = read_arm(given)
            adapter = read_adapter(values.get("adapter"))
        except (UsageError, OSError):
            return values  # the field itself says what is wrong, beside the faults of others
        if arm.adapter is None:
            Arm(arm.method, adapter, arm.overrides).check_settings()
            return {**values, **arm.overrides, "method": arm.method}
        if values.get("adapter") is not None:
            raise UsageError(
                f"The method {arm.name!r} names an adapter, and so does adapter={str(values['adapter'])!r}. Pass one "
                f"of the two."
            )
        return {**values, **arm.settings}


class HeadSettings(CheckedSettings):
    """Settings of the head that a checkpoint brings."""

    section: ClassVar[str] = "method"

    head: Literal["fresh", "keep"] | None = Field(
        None,
        description="what to do with a checkpoint's classification head: fresh initializes a new one; keep copies the "
        "outputs whose labels the task has, or all by position if they have no names; by default it is kept if "
        "its labels are the task's, and fresh otherwise",
    )


class MethodSettings(CheckedSettings):
    """Settings of what learns that do not depend on the method."""

    section: ClassVar[str] = "method"

    layers: str | None = Field(
        None, description="path of the layer stack, such as encoder.block, if it is not found automatically"
    )
    open_new_tokens: bool | None = Field(
        None,
        description="train the embedding rows of tokens added to the tokenizer, even if the method freezes the "
        "embeddings; the table is resized if it lacks these rows",
    )
    language_adapters: LanguageField = Field(
        None,
        description="MAD-X: stack the trained adapter on a frozen pretrained language adapter, and score each test "
        "split with the one for its language: a folder, archive or hub name, with {language} for the "
        "language's code, such as adapters/{language}; without {language}, the same one serves all "
        "languages; in a comparison, only for arms with an adapter",
    )
    tapt_steps: int | None = Field(
        None,
        ge=1,
        le=MOST_STEPS,
        description="task-adaptive pretraining: first train the adapter, or the whole model if there is none, on "
        "masked words of the training texts for this number of steps; in a comparison with adapters, "
        "only the arms with one; full:tapt_steps=500 sets it for one arm",
    )
    tapt_epochs: float | None = Field(
        None,
        ge=LEAST_EPOCHS,
        le=MOST_EPOCHS,
        description="length of the task-adaptive pretraining in epochs, instead of tapt_steps=",
    )
    tapt_batch: int | None = Field(
        None, ge=1, le=MOST_IN_BATCH, description="batch size of the task-adaptive pretraining; by default batch_size="
    )
    frozen_dropout: bool | None = Field(
        None,
        description="keep dropout on in frozen bottom layers, as FUN's code does; by default they run without dropout",
    )
    trust_remote_code: bool = Field(False, description="run Python code from the model's hub repository")

    @model_validator(mode="after")
    def _one_tapt_length(self) -> MethodSettings:
        if self.tapt_epochs is not None and self.tapt_steps is not None:
            raise ValueError("pass tapt_epochs= or tapt_steps=, not both")
        return self
