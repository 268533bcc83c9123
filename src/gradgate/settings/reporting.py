"""Define where a training is logged besides its folder: the trackers of Trainer, and whether they are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from gradgate.errors import UsageError, nearest
from gradgate.settings.base import CheckedSettings

PACKAGES = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "trackio": ("trackio",),
}
"""Name of a tracker, as ``TrainingArguments.report_to`` has it, to the packages any of which it needs."""


def _tracker_names(given: object) -> object:
    """Return names with commas between them; None for ``"none"``, as Trainer writes it."""
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return given
    names = list(dict.fromkeys(word.strip() for word in words))
    if names in ([], ["none"]):
        return None
    unknown = next((name for name in names if name not in PACKAGES), None)
    if unknown is not None:
        raise ValueError(
            f"there is no tracker {unknown!r}.{nearest(unknown, PACKAGES)} Expected {', '.join(PACKAGES)}, several "
            f"with commas between them, or none"
        )
    return ",".join(names)


TrackersField = Annotated[str | None, BeforeValidator(_tracker_names)]


class ReportingSettings(CheckedSettings):
    """The trackers that a training is logged to."""

    section: ClassVar[str] = "output"

    report_to: TrackersField = Field(
        None,
        description="log losses, scores, trainable share and phase through Trainer's integrations: tensorboard, wandb, "
        "mlflow or trackio, several as tensorboard,mlflow; by default none, whatever the environment says",
    )

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names of the trackers."""
        return tuple(self.report_to.split(",")) if self.report_to else ()

    def require_trackers(self) -> None:
        """Refuse trackers that are not installed; nothing is imported.

        Raises:
            UsageError: naming the tracker and the command that installs it.
        """
        for name in self.trackers:
            if not any(_is_installed(package) for package in PACKAGES[name]):
                raise UsageError(
                    f"report_to={name}: the package {PACKAGES[name][0]} is not installed here. Install it with: pip "
                    f"install {PACKAGES[name][0]}"
                )


def _is_installed(package: str) -> bool:
    """Return True for an installed package, not for a folder of its name, which trackers write next to scripts."""
    try:
        found = find_spec(package)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None
