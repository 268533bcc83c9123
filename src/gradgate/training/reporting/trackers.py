"""Log one run to its trackers: what Trainer logs, each step once, then the scores on test splits and the forgetting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import Any

from transformers import Trainer
from transformers.integrations import get_reporting_integration_callbacks

from gradgate import hub
from gradgate.distributed import launch
from gradgate.errors import RunError
from gradgate.places import short_name
from gradgate.runs.folder import RunFolder
from gradgate.runs.scores import Scores
from gradgate.runs.tracked import SentLogs, TrackersRecord
from gradgate.settings.run import RunConfig
from gradgate.training.reporting.services import PROJECT, SERVICES, Service, TrackedRun

_LATER = {"on_save": "a checkpoint", "on_train_end": "the end of the training"}
"""Events of a tracker that is open -> what it lacks if it fails in one of them."""
_LOGS, _SCORES = "some of what was logged", "the final scores"


class Trackers:
    """The trackers of one training: a context that closes them. In processes but the first, it has none.

    One that fails once it is open, as when its server cannot be reached, does not end the training.

    Args:
        config: of the run, which names the trackers.
        folder: of the run.
        note: receives a sentence on what a tracker lacks, or if it cannot be closed.

    Raises:
        RunError: if ``trackers.json`` is damaged.
    """

    def __init__(self, config: RunConfig, folder: RunFolder, note: Callable[[str], None]) -> None:
        self.names = config.trackers if launch.is_first() else ()
        self._config, self._folder, self._note = config, folder, note
        self._record = TrackersRecord.of(folder) if self.names else TrackersRecord()
        self._open: dict[str, tuple[Service, Callable[..., None]]] = {}
        self._lacks: set[tuple[str, str]] = set()
        self._trainer: Any = None

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for name, (service, _log) in self._open.items():
            try:
                with redirect_stdout(sys.stderr):
                    service.close(failed=kind is not None)
            except Exception as error:  # each tracker has errors of its own; the run's files are whole
                self._note(f"{name} could not be closed: {hub.first_line(error)}")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of Trainer that say where it logs."""
        if not self.names:
            return {}
        return {"report_to": list(self.names), "run_name": self._name, "project": PROJECT}

    @property
    def _name(self) -> str:
        tags = self._tags
        return f"{tags['arm']}, {tags['task']}, seed {tags['seed']} ({self._record.id})"

    @property
    def _tags(self) -> dict[str, str]:
        config, study = self._config, self._folder.study
        tags = {
            "arm": config.arm.name,
            "task": short_name(config.task),
            "seed": str(config.seed),
            "model": short_name(config.model),
        }
        return tags if study is None else {**tags, "study": study.name}

    def attach(self, trainer: Trainer) -> None:
        """Open the run in each tracker for which Trainer has made a callback, and let that log each step once.

        Raises:
            RunError: if a tracker cannot be opened, as without a login.
        """
        self._trainer = trainer
        for name in self.names:
            (kind,) = get_reporting_integration_callbacks([name])
            callback = next(each for each in trainer.callback_handler.callbacks if isinstance(each, kind))
            self._begin(name, SERVICES[name](), callback)

    def _begin(self, name: str, service: Service, callback: Any) -> None:
        sent = self._record.trackers.setdefault(name, SentLogs())
        run = TrackedRun(self._folder, self._record.id, self._name, self._tags, sent.run, is_new=not sent.steps)
        try:
            with redirect_stdout(sys.stderr):
                sent.run = service.open(callback, run)
        except Exception as error:
            raise RunError(
                f"report_to={name}: the run cannot be opened there: {hub.first_line(error)}. {service.remedy}"
            ) from error
        log = self._logging_once(callback.on_log, sent)
        self._open[name] = service, log
        callback.on_log = self._noting(name, _LOGS, log)
        callback.on_predict = _nothing  # it would log dev scores again, without a step
        callback.on_train_begin = _printing_aside(callback.on_train_begin)
        for event, what in _LATER.items():
            setattr(callback, event, self._noting(name, what, getattr(callback, event)))
        self._record.write(self._folder)

    def _logging_once(self, log: Callable[..., Any], sent: SentLogs) -> Callable[..., None]:
        """Return what logs each step once."""

        def once(args: Any, state: Any, control: Any, logs: Mapping[str, Any], **kwargs: Any) -> None:
            fresh = sent.unsent(logs, state.global_step)
            if fresh:
                log(args, state, control, logs=fresh, **kwargs)
                sent.add(fresh, state.global_step)
                self._record.write(self._folder)

        return once

    def _noting(self, name: str, what: str, event: Callable[..., Any]) -> Callable[..., None]:
        """Return an event of a tracker that notes what the tracker lacks if it fails, the first time it does."""
        event = _printing_aside(event)

        def noting(*args: Any, **kwargs: Any) -> None:
            try:
                event(*args, **kwargs)
            except Exception as error:  # each tracker has errors of its own; the run's files are whole
                if (name, what) not in self._lacks:
                    self._lacks.add((name, what))
                    self._note(
                        f"{name} lacks {what}, since it failed: {hub.first_line(error)}. The run's own folder has "
                        f"everything."
                    )

        return noting

    def report(self, scores: Scores) -> None:
        """Log the scores on the test splits and what was forgotten, at the last step."""
        trainer, logs = self._trainer, final_logs(scores)
        for name, (_, log) in self._open.items():
            report = self._noting(name, _SCORES, log)
            report(trainer.args, trainer.state, trainer.control, logs=logs, model=trainer.model)


def _nothing(*_: Any, **__: Any) -> None:
    """Log nothing."""


def _printing_aside(event: Callable[..., Any]) -> Callable[..., Any]:
    """Return an event whose prints go to standard error: standard output is the command's."""

    def aside(*args: Any, **kwargs: Any) -> Any:
        with redirect_stdout(sys.stderr):
            return event(*args, **kwargs)

    return aside


def final_logs(scores: Scores) -> dict[str, float]:
    """Return what is logged of a finished run, by the names that Trainer's integrations expect: ``test_SPLIT/METRIC``.

    Args:
        scores: of the run.
    """
    parts = {"": {**scores.tests, **scores.averages}}
    parts |= {f"{name}/": dict(own.tests) for name, own in (scores.tasks or {}).items()}
    logs = {
        f"test_{part}{_place(split)}{metric}": value
        for part, splits in parts.items()
        for split, metrics in splits.items()
        for metric, value in metrics.items()
        if value is not None
    }
    forgotten = scores.forgetting
    if forgotten is not None:
        sides = {"before": forgotten.before, "after": forgotten.after, "difference": forgotten.difference}
        logs |= {f"gradgate/forgetting/{name}": value for name, value in sides.items()}
    return logs


def _place(split: str) -> str:
    """Return ``en/`` for ``test.en``, and nothing for ``test``."""
    language = split.removeprefix("test").removeprefix(".")
    return f"{language}/" if language else ""
