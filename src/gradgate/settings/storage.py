"""Define the settings of what a run writes."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from gradgate.errors import UsageError
from gradgate.settings.base import MOST_STEPS, CheckedSettings


class StorageSettings(CheckedSettings):
    """Checkpoints, and how the best model is kept."""

    section: ClassVar[str] = "output"

    save_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between checkpoints; default each epoch"
    )
    keep_model: bool = Field(True, description="write the best model into the run folder")
    keep_checkpoints: bool | None = Field(
        None,
        description="keep the weights that have learned at each score on dev, in weights/ of the run folder, for "
        "'analyze forgetting'; as large each time as what learns",
    )
    store: Literal["auto", "delta", "model"] = Field(
        "auto",
        description="how the best model is kept: model whole, delta as what training changed in the pretrained one, "
        "auto as a delta where that is less than half of it",
    )

    @field_validator("store", mode="before")
    @classmethod
    def _no_address(cls, store: object) -> object:
        if isinstance(store, str) and "://" in store:
            raise UsageError(
                f"store={store!r}: expected auto, delta or model, which says how the best model is kept. The address "
                f"of a study's queue goes to queue={store!r}."
            )
        return store
