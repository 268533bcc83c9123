"""Define the settings of the optimizer: how long, in which batches, and at which rates."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gradgate.settings.base import (
    LEAST_EPOCHS,
    MOST_EPOCHS,
    MOST_IN_BATCH,
    MOST_SEED,
    MOST_STEPS,
    CheckedSettings,
)
from gradgate.settings.fields import LrScaleField


class SeedSettings(CheckedSettings):
    """The seed of one run."""

    section: ClassVar[str] = "optimization"

    seed: int = Field(0, ge=0, le=MOST_SEED, description="seed of new weights, data order, dropout and masks")


class OptimizationSettings(CheckedSettings):
    """Length, batches, learning rates and regularization of a training. Without a length it takes 3 epochs."""

    section: ClassVar[str] = "optimization"

    epochs: float | None = Field(None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="passes over the training data")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="number of optimizer steps, instead of epochs=")
    batch_size: int = Field(32, ge=1, le=MOST_IN_BATCH, description="examples per forward pass and process")
    accumulate: int = Field(1, ge=1, le=MOST_IN_BATCH, description="forward passes per optimizer step")
    optim: str | None = Field(
        None,
        description="optimizer, by Trainer's names, such as sgd, adafactor, or with 8-bit states adamw_torch_8bit "
        "(torchao) or adamw_bnb_8bit (bitsandbytes); by default AdamW",
    )
    lr: float = Field(5e-5, gt=0, description="peak learning rate")
    lr_scale: LrScaleField = Field(
        None,
        description="factors on the learning rate of selected parameters, as SELECTOR=FACTOR, such as head=10 or "
        "layers.bottom4=0.1; repeat for several",
    )
    schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="learning rate after warm-up")
    warmup: float = Field(0.06, ge=0, lt=1, description="share of the steps in which the learning rate warms up")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay")
    clip: float = Field(1.0, ge=0, description="maximum gradient norm; 0 for no clipping")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout probability, instead of the model's own")

    class_weights: Literal["balanced"] | None = Field(
        None,
        description="weights of the classes in the training loss: balanced gives each class rows / (classes * rows "
        "of the class), as scikit-learn does; the loss on dev and test is unweighted",
    )

    @model_validator(mode="after")
    def _one_length(self) -> OptimizationSettings:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("pass epochs= or steps=, not both")
        return self

    @property
    def length(self) -> dict[str, Any]:
        """The length of the training, as Trainer's arguments."""
        if self.steps is not None:
            return {"max_steps": self.steps}
        return {"num_train_epochs": self.epochs if self.epochs is not None else 3.0}
