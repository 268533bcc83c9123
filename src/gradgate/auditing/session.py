"""Audit a training in any loop: ``with gg.audit(model) as a: …``."""

from __future__ import annotations

from types import TracebackType

from torch import nn

from gradgate.auditing.expectation import Expectation, check_request
from gradgate.auditing.findings import Finding
from gradgate.auditing.report import AuditReport, Learned
from gradgate.auditing.watch import Watch
from gradgate.errors import RunError
from gradgate.layers.names import unwrap


class Audit:
    """The audit of the optimizer steps made within a ``with`` block; its results are there after the block.

    Made by :func:`gradgate.audit`. An exception within the block ends the audit, and passes on.
    """

    def __init__(self, models: tuple[nn.Module, ...], expect: str | None, steps: int | None) -> None:
        check_request(expect, steps)
        self._selector, self._steps = expect, steps
        self._models = [unwrap(model) for model in models] or None
        self._watch: Watch | None = None
        self._report: AuditReport | None = None

    def __enter__(self) -> Audit:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to observe; an audit that was ended starts over."""
        expectation = None if self._selector is None else Expectation(self._selector)
        self._report = None
        self._watch = Watch(expectation, self._steps, models=self._models)
        self._watch.start()

    def stop(self) -> AuditReport:
        """Look a last time, and return the report."""
        if self._watch is not None:
            record = self._watch.stop()
            self._report = AuditReport.of([record], self._selector, self._watch.untrained())
            self._watch = None
        return self.report

    @property
    def report(self) -> AuditReport:
        """The report.

        Raises:
            RunError: before the end of the block.
        """
        if self._report is None:
            raise RunError("The audit has no report yet. Read it after the with block, or call stop().")
        return self._report

    @property
    def steps(self) -> int:
        """Optimizer steps, of the optimizer that took most."""
        return self.report.steps

    @property
    def learned(self) -> Learned:
        """Names and number of elements of the tensors that learned."""
        return self.report.learned

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The problems that were found."""
        return self.report.findings

    @property
    def expected(self) -> bool | None:
        """True if exactly what was expected learned; None without an expectation, or if it cannot be checked."""
        return self.report.expected

    def __str__(self) -> str:
        return str(self.report)


def audit(*models: nn.Module, expect: str | None = None, steps: int | None = None) -> Audit:
    """Audit the training in a ``with`` block: what really learned, and what was probably not intended.

    ::

        with gg.audit(model, expect="layers.top4/head") as a:
            train(model)
        print(a)  # the table and the findings
        assert a.expected

    It needs no method of gradgate, and changes no bit of the training. Optimizers are found by torch's global step
    hooks. Gradients and weights are inspected in steps 1, 2, 4, 8, … and at the end; a fingerprint of each tensor is
    kept, not a copy. In a group of processes, each audits its own part.

    Args:
        models: to follow; without one, every model that an optimizer trains in the block.
        expect: selector of the weights that should learn; see :func:`gradgate.select`.
        steps: a further step to inspect.

    Raises:
        LayerMapError: for an object that is not a module.
        SelectorError: for a selector that matches no model.
        UsageError: for a step below 1, or a value of another type.
    """
    return Audit(models, expect, steps)
