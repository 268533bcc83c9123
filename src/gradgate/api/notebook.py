"""Progress in a notebook: tqdm's bars, which are widgets where ipywidgets is there and lines of text elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from threading import RLock
from typing import Any

from gradgate.printable import visible
from gradgate.runs.progress import RunProgress
from gradgate.runs.state import RunState

_ENDED = (RunState.FINISHED, RunState.PAUSED, RunState.FAILED, RunState.PRUNED)
_SHOWN = (RunState.WAITING, RunState.RUNNING, RunState.PAUSED, RunState.FAILED)


def _bar(label: str, unit: str, *, stays: bool) -> Any:
    """Return a bar of unknown length that stays or disappears when it ends."""
    with warnings.catch_warnings():  # that it is experimental, and that ipywidgets is absent
        warnings.simplefilter("ignore")
        from tqdm.autonotebook import tqdm
    return tqdm(desc=visible(label), unit=f" {unit}", total=None, leave=stays, dynamic_ncols=True)


class NotebookBar:
    """The steps of one run, with the latest loss and dev score. Use as a context manager."""

    def __init__(self, label: str = "training", *, stays: bool = True) -> None:
        self._bar = _bar(label, "steps", stays=stays)
        self._latest: dict[str, str] = {}

    def __enter__(self) -> NotebookBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()

    def begin(self, total: int, done: int) -> None:
        self._bar.reset(total=total)
        self._bar.update(done)

    def advance(self, step: int, loss: float | None) -> None:
        if loss is not None:
            self._latest["loss"] = f"{loss:.3f}"
        self._bar.set_postfix(self._latest, refresh=False)
        self._bar.update(step - self._bar.n)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._latest[f"{split} {metric}"] = f"{score:.4f}"

    def note(self, text: str) -> None:
        self._bar.write(visible(text))


class NotebookStudy:
    """The runs of a study, the steps of each run under way, and a line for each that has ended.

    Use as a context manager. Its methods are called from several threads.
    """

    def __init__(self) -> None:
        self._bar = _bar("study", "runs", stays=True)
        self._runs: dict[str, NotebookBar] = {}
        self._lock = RLock()

    def __enter__(self) -> NotebookStudy:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            for run in self._runs.values():
                run.close()
            self._runs = {}
            self._bar.close()

    def begin_study(self, total: int, finished: int) -> None:
        with self._lock:
            self._bar.reset(total=total)
            self._bar.update(finished)
        if finished:
            self.note(f"{finished} of {total} runs had finished before.")

    def begin_run(self, label: str) -> RunProgress:
        with self._lock:
            if label in self._runs:  # it was given back and claimed again
                self._runs.pop(label).close()
            self._runs[label] = NotebookBar(label, stays=False)
            return self._runs[label]

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        with self._lock:
            self._runs.pop(label).close()
            self._bar.update()
        self.note(f"{'failed' if failed else 'done'}: {label}: {outcome}")

    def count(self, states: Mapping[RunState, int]) -> None:
        ended = sum(states.get(state, 0) for state in _ENDED)
        shown = {state: states[state] for state in _SHOWN if state in states}
        with self._lock:
            self._bar.total = sum(states.values())
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update(ended - self._bar.n)

    def note(self, text: str) -> None:
        self._bar.write(visible(text))
