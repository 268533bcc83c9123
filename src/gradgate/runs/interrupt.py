"""Treat Ctrl-C and SIGTERM as a request to stop after the current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gradgate.errors import GradgateError


class InterruptedRunError(GradgateError):
    """A run was asked to stop, and its state is saved."""

    exit_code = 130


@contextmanager
def stoppable(note: Callable[[str], None]) -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a Ctrl-C after it interrupts at once.

    A further SIGTERM does nothing: whoever asks a training to stop may do so twice, as a scheduler and a parent that
    ends its children.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals reach the main thread alone
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        stop.set()
        note("Stopping after this step and saving; press Ctrl-C again to stop at once.")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
