"""Count the progress of training in completed optimizer steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradgate.errors import MethodError


@dataclass(frozen=True)
class Clock:
    """The number of steps done, and the number in total.

    Attributes:
        step: optimizer steps done; 0 before the first. A paper's 1-based step ``i`` is decided when ``step == i - 1``.
        steps_per_epoch: optimizer steps in one pass over the training data; None if unknown.
        total_steps: optimizer steps of the whole training; None if unknown.
    """

    step: int = 0
    steps_per_epoch: int | None = None
    total_steps: int | None = None

    def __post_init__(self) -> None:
        wrong = [
            f"{name}={value!r}"
            for name, value, least in (
                ("step", self.step, 0),
                ("steps_per_epoch", self.steps_per_epoch, 1),
                ("total_steps", self.total_steps, 1),
            )
            if value is not None and not (hasattr(value, "__index__") and value >= least)
        ]
        if wrong:
            raise MethodError(
                f"A clock cannot start with {', '.join(wrong)}: steps are counted in whole numbers. Expected step=0 or "
                f"more, and 1 or more for the others."
            )

    @property
    def epoch(self) -> int:
        """The epoch of the coming step, from 1 to :attr:`epochs`."""
        epoch = self.step // self._known("steps_per_epoch") + 1
        return epoch if self.total_steps is None else min(epoch, self.epochs)

    @property
    def epochs(self) -> int:
        """Epochs of the full training; a partial epoch counts as one."""
        return -(-self._known("total_steps") // self._known("steps_per_epoch"))

    @property
    def next_epoch(self) -> int | None:
        """The number of steps done when the next epoch begins; None in the last one."""
        epoch, length = self.epoch, self._known("steps_per_epoch")
        return epoch * length if self.total_steps is None or epoch < self.epochs else None

    @property
    def known_total(self) -> int:
        """``total_steps``; raises MethodError if the training's length is unknown."""
        return self._known("total_steps")

    @property
    def known_epoch_length(self) -> int:
        """``steps_per_epoch``; raises MethodError if it is unknown."""
        return self._known("steps_per_epoch")

    def ticked(self) -> Clock:
        """Return the clock after one more step."""
        return replace(self, step=self.step + 1)

    def _known(self, name: str) -> int:
        value: int | None = getattr(self, name)
        if value is None:
            raise MethodError(
                f"This method counts epochs or shares of the training: pass {name}= to the tuner, or train on data "
                f"that have a length (a stream has none)."
            )
        return value
