"""Run the cases of one part, in this process or in one of its own, and send what happens as it happens."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Task:
    """What a worker is to do.

    Attributes:
        part: its name.
        module: that has its cases.
        device: ``cuda`` or ``cpu``.
        dry: tiny shapes.
        done: names of cases to leave out.
        last: names of cases that failed before, to run after the others.
        known: values of figures that are known.
    """

    part: str
    module: str
    device: str
    dry: bool
    done: Collection[str]
    last: Collection[str]
    known: dict[str, float]


class Event(NamedTuple):
    """What happened to a case.

    ``cases`` comes first and has the names that will run. ``memory`` and ``error`` end a case that failed, ``end`` one
    that did not.
    """

    kind: Literal["cases", "begin", "figure", "end", "memory", "error"]
    case: str = ""
    what: Any = None


Send = Callable[[Event], None]


def work(task: Task, send: Send, *, leave_on_error: bool) -> None:
    """Run the cases of a part.

    Args:
        task: says which.
        send: is called with each event.
        leave_on_error: return after an error, since CUDA may refuse all further work in this process; the caller
            starts another one. A device that is out of memory can go on.
    """
    import torch

    from benchmarks.gpu.bench import Bench

    bench = Bench(torch.device(task.device), task.dry, dict(task.known))
    cases = [case for case in import_module(task.module).cases(bench) if case.name not in task.done]
    cases.sort(key=lambda case: case.name in task.last)
    send(Event("cases", what=[case.name for case in cases]))
    for case in cases:
        send(Event("begin", case.name))
        began = time.monotonic()
        try:
            for figure in case.run(bench):
                if figure.value is not None:
                    bench = replace(bench, known={**bench.known, figure.name: figure.value})
                send(Event("figure", case.name, figure.row(task.part, dry=task.dry)))
        except torch.OutOfMemoryError as error:
            send(Event("memory", case.name, str(error).split(". ")[0]))
        except Exception as error:  # a part that fails must not take the others with it
            traceback.print_exc(limit=-4)
            send(Event("error", case.name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"))
            if leave_on_error:
                return
        else:
            send(Event("end", case.name, time.monotonic() - began))
        bench.free()


def serve(task: Task, pipe: Connection) -> None:
    """Run the cases in a process of its own, which its parent may end with all that it started."""
    os.setsid()
    work(task, pipe.send, leave_on_error=True)
    pipe.close()
