"""Define the settings of the analyses of finished runs: what is measured, and how it is computed."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from gradgate.settings.base import MOST_IN_BATCH, MOST_SEED, MOST_THREADS
from gradgate.settings.compare import Texts
from gradgate.settings.finished import PlaceSettings


class ComputeSettings(PlaceSettings):
    """Settings of how an analysis computes; none of them changes what is measured beyond rounding."""

    section: ClassVar[str] = "precision and memory"

    batch_size: int = Field(32, ge=1, le=MOST_IN_BATCH, description="Rows per forward pass.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute; auto takes a GPU if there is one."
    )
    threads: int | None = Field(None, ge=1, le=MOST_THREADS, description="Number of CPU threads; by default torch's.")


class RepresentationSettings(ComputeSettings):
    """Settings of an analysis of representations."""

    section: ClassVar[str] = "data"

    tokens: int = Field(
        5000, ge=3, le=10**7, description="Tokens to sample from each split (5000 in the paper); all if it has fewer."
    )
    split: Texts = Field(
        ("dev",),
        description="Split to take tokens from, such as test.de; repeatable.",
        json_schema_extra={"default": "dev"},
    )
    seed: int = Field(0, ge=0, le=MOST_SEED, description="Seed of the sample.")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits to draw from, each once."""
        return tuple(dict.fromkeys(self.split))


class LandscapeSettings(ComputeSettings):
    """Settings of an analysis of the loss around the weights of a run."""

    section: ClassVar[str] = "data"

    rows: int = Field(64, ge=1, le=10**7, description="Rows of train and of dev to average the loss over.")
    low: float = Field(
        -2.0,
        ge=-100,
        lt=0,
        description="Start of the line; 0 is before training, with the initial head.",
        json_schema_extra={"flag": "--from"},
    )
    high: float = Field(
        2.0, gt=1, le=100, description="End of the line; 1 is after training.", json_schema_extra={"flag": "--to"}
    )
    points: int = Field(21, ge=2, le=10_001, description="Points on the line, plus 0 and 1; the paper has 20.")
    plane: int = Field(
        11, ge=0, le=1001, description="Points along each side of the plane, an odd number; 0 for no plane."
    )
    span: float = Field(
        1.0, gt=0, le=100, description="Half the side of the plane, relative to the norm of the weights."
    )
    plane_seeds: int = Field(1, ge=0, description="Runs per arm to measure the plane for; 0 for lines only.")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="Seed of the sampled rows and the plane's directions.")

    @field_validator("plane")
    @classmethod
    def _odd(cls, plane: int) -> int:
        if plane and plane % 2 == 0:
            raise ValueError("expected an odd number, or 0 for no plane")
        return plane


class ForgettingCourseSettings(ComputeSettings):
    """Settings of an analysis of forgetting after training."""

    section: ClassVar[str] = "data"

    text: str = Field(
        description="Other text: a file with one text per line, a table or hub data set with a column of texts, or "
        "prompts and responses of another task; takes the options of 'train --forgetting', such as FILE:metric=kl."
    )
