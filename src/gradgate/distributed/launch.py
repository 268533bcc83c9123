"""Coordinate the processes of one run that ``torchrun`` or ``accelerate launch`` started.

All of them compute. Only the first writes, and its decisions and errors apply to all. torch and accelerate are imported
only where processes communicate, so that a command that does not train starts fast.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gradgate.distributed.environment import check_environment, whole_number
from gradgate.errors import GradgateError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def count() -> int:
    """Return the number of processes that were launched together.

    Raises:
        UsageError: if the environment's ``WORLD_SIZE`` is not a number of processes.
    """
    return whole_number("WORLD_SIZE", "1", least=1)


def rank() -> int:
    """Return the number of this process among all, from 0.

    Raises:
        UsageError: if the environment's ``RANK`` is missing or not below ``WORLD_SIZE``.
    """
    return 0 if count() == 1 else whole_number("RANK", "", most=count() - 1)


def local_rank() -> int:
    """Return the number of this process on its machine, which is also its GPU's.

    Raises:
        UsageError: if the environment's ``LOCAL_RANK`` is not a whole number.
    """
    return whole_number("LOCAL_RANK", "0")


def is_first() -> bool:
    """Return True in the process that writes files and prints."""
    return rank() == 0


def join(on_cpu: bool) -> None:
    """Set up communication with the other processes, if there are any."""
    if count() > 1:
        rank(), local_rank()  # refused by name before accelerate reads them
        from accelerate import PartialState

        PartialState(cpu=on_cpu, **({"backend": "gloo"} if on_cpu else {}))
        atexit.register(leave)


def leave() -> None:
    """Stop communicating by gloo, whose threads may abort an interpreter that ends while they run.

    NCCL stops when the process ends: it would wait here for other processes, which may have failed.
    """
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def refuse(command: str, work: str = "trains each run") -> None:
    """Refuse several processes for a command that runs in one, and an environment in which none could train.

    Args:
        command: for the message.
        work: what it does in one process.

    Raises:
        UsageError: if several were launched, or a variable of a launcher has an odd value.
    """
    if count() > 1:
        error = UsageError(
            f"{command} {work} in one process, and {count()} were launched. Start it without torchrun or "
            f"accelerate launch; a training by 'gradgate train' is what they can launch."
        )
        raise error if os.environ.get("RANK", "0") == "0" else _echo(error)  # a lone WORLD_SIZE has no ranks
    check_environment()


def on_first(work: Callable[[], T]) -> T:
    """Call a function in the first process; return its result, or raise its error, in all of them."""
    if count() == 1:
        return work()
    import torch.distributed as dist

    outcome: list[Any] = [None, None]
    failure: Exception | None = None
    if is_first():
        try:
            outcome[0] = work()
        except Exception as error:
            failure = error
            # An arbitrary exception may not pickle, so the others receive it as a GradgateError.
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
    """Return True if the flag is set in any process."""
    if count() == 1:
        return flag
    import torch
    import torch.distributed as dist
    from accelerate import PartialState

    most = torch.tensor(int(flag), device=PartialState().device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return bool(most)


def add_up(values: Tensor) -> Tensor:
    """Return the sum over processes."""
    if count() == 1:
        return values
    import torch.distributed as dist
    from accelerate import PartialState

    total = values.to(PartialState().device)
    dist.all_reduce(total)
    return total


def share(work: Sequence[T]) -> list[T]:
    """Return this process's part of the work. All parts have the same length, so some items may be in several."""
    if count() == 1 or not work:
        return list(work)
    each = -(-len(work) // count())
    return [work[min(place, len(work) - 1)] for place in range(rank(), each * count(), count())]


def gather(found: T) -> list[T]:
    """Return the values of all processes, in each of them."""
    if count() == 1:
        return [found]
    import torch.distributed as dist

    together: list[Any] = [None] * count()
    dist.all_gather_object(together, found)
    return together


def raise_together(error: GradgateError | None) -> None:
    """Raise an error in all processes if one of them has one, so that none waits for a process that has exited."""
    if not any_of(error is not None):
        return
    errors: list[Any] = [error]
    if count() > 1:
        import torch.distributed as dist

        errors = [None] * count()
        dist.all_gather_object(errors, error)
    origin, first = next((number, error) for number, error in enumerate(errors) if error is not None)
    raise first if origin == rank() else _echo(first)


def wait() -> None:
    """Wait until all processes have reached this call."""
    if count() > 1:
        import torch.distributed as dist

        dist.barrier()


def _echo(error: GradgateError) -> GradgateError:
    error.reported_by_main = True
    return error
