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
        None, ge=1, le=MOST_STEPS, description="optimizer steps between checkpoints; by default once per epoch"
    )
    keep_model: bool = Field(True, description="store the best model in the run folder")
    keep_checkpoints: bool | None = Field(
        None,
        description="keep the trained weights of every evaluation on dev in the run folder's weights/, for 'analyze "
        "forgetting'; each copy is as large as what learns",
    )
    store: Literal["auto", "delta", "model"] = Field(
        "auto",
        description="how to store the best model: model whole, delta only what training changed, auto a delta if "
        "that is less than half the size",
    )

    @field_validator("store", mode="before")
    @classmethod
    def _no_address(cls, store: object) -> object:
        if isinstance(store, str) and "://" in store:
            raise UsageError(
                f"store={store!r}: expected auto, delta or model, the way to store the best model. Pass the address "
                f"of a study's queue as queue={store!r}."
            )
        return store
