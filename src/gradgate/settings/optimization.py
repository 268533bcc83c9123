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

    seed: int = Field(0, ge=0, le=MOST_SEED, description="seed of new weights, the data order, dropout and masks")


class OptimizationSettings(CheckedSettings):
    """Length, batches, learning rates and regularization of a training. Without a length it takes 3 epochs."""

    section: ClassVar[str] = "optimization"

    epochs: float | None = Field(None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="passes over the training data")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="optimizer steps, instead of epochs")
    batch_size: int = Field(32, ge=1, le=MOST_IN_BATCH, description="examples in one forward pass of one process")
    accumulate: int = Field(1, ge=1, le=MOST_IN_BATCH, description="forward passes for one optimizer step")
    optim: str | None = Field(
        None,
        description="optimizer, by Trainer's names, such as sgd, adafactor, or in 8 bits adamw_torch_8bit (torchao) "
        "and adamw_bnb_8bit (bitsandbytes); default AdamW",
    )
    lr: float = Field(5e-5, gt=0, description="peak learning rate")
    lr_scale: LrScaleField = Field(
        None,
        description="SELECTOR=FACTOR on the learning rate of what it names, such as head=10 or layers.bottom4=0.1; "
        "repeat for several",
    )
    schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="learning rate after warm-up")
    warmup: float = Field(0.06, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay")
    clip: float = Field(1.0, ge=0, description="limit of the gradient's norm; 0 for none")
    dropout: float | None = Field(None, ge=0, lt=1, description="ordinary dropout, instead of the model's own")

    class_weights: Literal["balanced"] | None = Field(
        None,
        description="weights of classes in the loss: balanced weights each by its rows in train as scikit-learn does, "
        "rows / (classes * rows of the class); the loss on dev and test has no weights",
    )

    @model_validator(mode="after")
    def _one_length(self) -> OptimizationSettings:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give epochs or steps, not both")
        return self

    @property
    def length(self) -> dict[str, Any]:
        """How long to train, as Trainer's arguments."""
        if self.steps is not None:
            return {"max_steps": self.steps}
        return {"num_train_epochs": self.epochs if self.epochs is not None else 3.0}
