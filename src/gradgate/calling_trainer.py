"""Find the Hugging Face Trainer that calls a callback: it passes neither itself nor its checkpoint to callbacks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class CallingTrainer:
    """The Trainer on the stack whose callback runs, with the arguments of its running methods.

    Attributes:
        trainer: any object with a ``callback_handler``, such as a subclass of Trainer.
        resumed: the folder of the checkpoint that it resumes from; None if it starts, or this is unknown.
        output: the folder in which it writes its checkpoints; it differs from ``output_dir`` in a search.
    """

    trainer: Any
    resumed: Path | None
    output: Path


def calling_trainer(callback: object) -> CallingTrainer | None:
    """Return the Trainer that is calling this callback; None if the caller is another loop."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _has(_owner(frame), callback):
        frame = frame.f_back
    if frame is None:
        return None
    trainer = _owner(frame)
    resumed, trial = _argument(frame, "resume_from_checkpoint"), _argument(frame, "trial")
    return CallingTrainer(trainer, Path(resumed) if isinstance(resumed, str | Path) else None, _output(trainer, trial))


def resumed_checkpoint(callback: object, args: Any, step: int) -> Path:
    """Return the folder of the checkpoint from which a training resumes after ``step`` optimizer steps.

    A loop that is not Trainer's, and so does not tell its path, resumes from the argument of this name or else from
    its output folder.
    """
    caller = calling_trainer(callback)
    if caller is not None and caller.resumed is not None:
        return caller.resumed
    if isinstance(args.resume_from_checkpoint, str):
        return Path(args.resume_from_checkpoint)
    return (Path(args.output_dir) if caller is None else caller.output) / f"checkpoint-{step}"


def saved_checkpoint(callback: object, args: Any, step: int) -> Path:
    """Return the folder of the checkpoint that was just saved after ``step`` optimizer steps."""
    caller = calling_trainer(callback)
    return (Path(args.output_dir) if caller is None else caller.output) / f"checkpoint-{step}"


def _owner(frame: FrameType) -> Any:
    """Return the ``self`` of a running method; None for any other frame, whose variables are not touched."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return frame.f_locals["self"] if names[:1] == ("self",) and "self" in frame.f_locals else None


def _has(owner: Any, callback: object) -> bool:
    callbacks = getattr(getattr(owner, "callback_handler", None), "callbacks", None)
    return isinstance(callbacks, list) and any(one is callback for one in callbacks)


def _argument(frame: FrameType, name: str) -> Any:
    """Return an argument of the innermost method that has it: the outer ones got it before it was resolved."""
    trainer, inner = _owner(frame), frame
    while True:
        if _owner(inner) is trainer and name in inner.f_code.co_varnames:
            return inner.f_locals.get(name)
        if inner.f_back is None:
            return None
        inner = inner.f_back


def _output(trainer: Any, trial: Any) -> Path:
    find = getattr(trainer, "_get_output_dir", None)
    return Path(trainer.args.output_dir if find is None else find(trial=trial))
