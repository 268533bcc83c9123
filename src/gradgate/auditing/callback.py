"""Audit a training of Hugging Face's Trainer."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.auditing.expectation import check_request
from gradgate.auditing.report import AuditReport
from gradgate.auditing.session import Audit
from gradgate.console import console


class AuditCallback(TrainerCallback):  # type: ignore[misc]
    """Report what a Trainer really trained: ``Trainer(..., callbacks=[gg.AuditCallback(expect="layers.top4/head")])``.

    The report is printed by the main process when the training ends, and kept.

    Args:
        expect: selector of the weights that should learn; see :func:`gradgate.select`.
        steps: a step to inspect, in addition to 1, 2, 4, 8, … and the last.
        quiet: print nothing.

    Raises:
        SelectorError: for a selector that matches no model.
        UsageError: for a step below 1, or a value of another type.

    Attributes:
        report: of the latest training that ended; None before.
    """

    def __init__(self, expect: str | None = None, steps: int | None = None, *, quiet: bool = False) -> None:
        check_request(expect, steps)
        self.expect, self.steps, self.quiet = expect, steps, quiet
        self.report: AuditReport | None = None
        self._audit: Audit | None = None
        self._end: weakref.finalize[..., Any] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Begin to observe; the observation of a training that was interrupted ends."""
        self._stop()
        self._audit = Audit((model,) if isinstance(model, nn.Module) else (), self.expect, self.steps)
        self._audit.start()
        # An exception ends a training without an event; then the hooks go with the callback.
        self._end = weakref.finalize(self, self._audit.stop)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Report what was trained."""
        self.report = self._stop()
        if self.report is not None and state.is_world_process_zero and not self.quiet:
            console.print(self.report.shown())

    def _stop(self) -> AuditReport | None:
        audit, self._audit = self._audit, None
        if self._end is not None:
            self._end.detach()
            self._end = None
        return None if audit is None else audit.stop()
