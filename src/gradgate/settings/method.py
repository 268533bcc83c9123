"""Define the settings of what learns: the method, the adapter, and what happens to the model before."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gradgate.errors import UsageError
from gradgate.methods import Full, Method
from gradgate.settings.arm import read_arm
from gradgate.settings.base import LEAST_EPOCHS, MOST_EPOCHS, MOST_IN_BATCH, MOST_STEPS, CheckedSettings
from gradgate.settings.fields import AdapterField, LanguageField, MethodField


class MethodChoice(CheckedSettings):
    """The one method, on the one adapter, that a run trains."""

    section: ClassVar[str] = "method"

    method: MethodField = Field(
        Full(),
        description="what learns when: a method from 'gradgate methods' with its options, an adapter, or both, as "
        "'lora:r=8 + gradual:every=50'; lr=1e-3 among the options is its own learning rate",
    )
    adapter: AdapterField = Field(
        None,
        description="train an adapter and the head on a frozen model: a kind with its options, such as "
        "houlsby:size=64, or of PEFT lora:r=16, dora, rslora, ia3, shira, and its others as peft:TYPE,r=4; lr=1e-3, "
        "tapt_steps=500 or tapt_epochs=20, and tapt_batch=256 (as in Gururangan et al. 2020) among them are this "
        "adapter's own, and pooler=frozen keeps the pretrained pooler as it is, as FUN's code does; none for none",
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
        except (UsageError, OSError):
            return values  # the field itself says what is wrong, beside the faults of others
        if arm.adapter is None:
            return {**values, **arm.overrides, "method": arm.method}
        if values.get("adapter") is not None:
            raise UsageError(
                f"The method {arm.name!r} names an adapter, and so does adapter={str(values['adapter'])!r}. Give one "
                f"of the two."
            )
        return {**values, **arm.settings}


class HeadSettings(CheckedSettings):
    """What becomes of the head that a checkpoint brings."""

    section: ClassVar[str] = "method"

    head: Literal["fresh", "keep"] | None = Field(
        None,
        description="the classification head that a checkpoint brings: fresh draws a new one; keep takes the outputs "
        "whose labels the task has, or all by position if they have no names; by default it is kept if its labels are "
        "those of the task, and otherwise fresh",
    )


class MethodSettings(CheckedSettings):
    """Settings of what learns that do not depend on the method."""

    section: ClassVar[str] = "method"

    layers: str | None = Field(None, description="path of the layer stack where it cannot be found by itself")
    open_new_tokens: bool | None = Field(
        None,
        description="train the rows of tokens that were added to the tokenizer, whatever the method does, and nothing "
        "else of the embeddings; a table without rows for them gets these",
    )
    language_adapters: LanguageField = Field(
        None,
        description="MAD-X: keep a pretrained language adapter frozen below the adapter that is trained, and score "
        "each test split with that of its language: folders, archives or names on the hub, with {language} for a "
        "language's code, as adapters/{language}; one without it is for all languages; in a comparison, of the arms "
        "with an adapter",
    )
    tapt_steps: int | None = Field(
        None,
        ge=1,
        le=MOST_STEPS,
        description="first train the adapter, or without one the whole model, to fill in masked words of the training "
        "texts, for this number of steps; in a comparison with adapters, these alone",
    )
    tapt_epochs: float | None = Field(
        None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="the same, in passes over the training texts"
    )
    tapt_batch: int | None = Field(
        None, ge=1, le=MOST_IN_BATCH, description="texts in one forward pass of it, instead of batch_size"
    )
    frozen_dropout: bool | None = Field(
        None,
        description="keep dropout on in the closed layers at the bottom, as FUN's code does; else they run without",
    )
    trust_remote_code: bool = Field(False, description="run code that comes with a hub model")

    @model_validator(mode="after")
    def _one_tapt_length(self) -> MethodSettings:
        if self.tapt_epochs is not None and self.tapt_steps is not None:
            raise ValueError("give tapt_epochs or tapt_steps, not both")
        return self
