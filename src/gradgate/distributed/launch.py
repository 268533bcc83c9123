"""The processes of one run, where ``torchrun`` or ``accelerate launch`` started several: who does what.

All of them compute; the first one alone writes, and what it decides or fails with holds for all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

from gradgate.errors import GradgateError, UsageError

T = TypeVar("T")


def count() -> int:
    """How many processes were launched together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the process that writes and tells."""
    return count() == 1 or int(os.environ.get("RANK", "0")) == 0


def join(on_cpu: bool) -> None:
    """Meet the other processes, if there are any."""
    if count() > 1:
        PartialState(cpu=on_cpu, **({"backend": "gloo"} if on_cpu else {}))


def refuse(command: str) -> None:
    """UsageError if several processes were launched for what one does by itself."""
    if count() > 1:
        raise UsageError(
            f"{command} trains each run in one process, and {count()} were launched. Start it without torchrun or "
            f"accelerate launch; 'gradgate train' is what they can launch."
        )


def on_first(work: Callable[[], T]) -> T:
    """What the work returns in the first process; in all of them, and so what it raises."""
    if count() == 1:
        return work()
    outcome: list[Any] = [None, None]
    failure: Exception | None = None
    if is_first():
        try:
            outcome[0] = work()
        except Exception as error:
            failure = error
            outcome[1] = (
                error if isinstance(error, GradgateError) else GradgateError(f"{type(error).__name__}: {error}")
            )
    dist.broadcast_object_list(outcome, src=0)
    if failure is not None:
        raise failure
    if outcome[1] is not None:
        raise _echo(outcome[1])
    value: T = outcome[0]
    return value


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process."""
    if count() == 1:
        return flag
    found = torch.tensor(int(flag), device=PartialState().device)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return bool(found)


def add_up(values: Tensor) -> Tensor:
    """The sum over processes."""
    if count() == 1:
        return values
    total = values.to(PartialState().device)
    dist.all_reduce(total)
    return total


def raise_together(error: GradgateError | None) -> None:
    """Raise an error in all processes if one of them has it, so that none waits for one that is gone."""
    if not any_of(error is not None):
        return
    found: list[Any] = [error]
    if count() > 1:
        found = [None] * count()
        dist.all_gather_object(found, error)
    rank, first = next((rank, error) for rank, error in enumerate(found) if error is not None)
    raise first if rank == int(os.environ.get("RANK", "0")) or count() == 1 else _echo(first)


def wait() -> None:
    """Go on when all processes are here."""
    if count() > 1:
        dist.barrier()


def _echo(error: GradgateError) -> GradgateError:
    error.reported_by_main = True
    return error
