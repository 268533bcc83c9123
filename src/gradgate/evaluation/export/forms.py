"""Say which forms a run can be exported in, and refuse the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradgate.errors import UsageError
from gradgate.runs.records import RunRecord
from gradgate.settings.finished import Form
from gradgate.settings.run import RunConfig
from gradgate.tasks.multitask import KIND as MIXED

LIBRARIES: Mapping[Form, str] = {
    "transformers": "transformers",
    "peft": "peft",
    "adapterhub": "adapter-transformers",
    "delta": "gradgate",
}
"""Form to the library that loads it, by the hub's name."""

_WHOLE: Mapping[Form, str] = {
    "transformers": "the whole model, for transformers",
    "peft": "SHiRA and whole modules, for PEFT, if the method changed single weights of linear layers",
    "delta": "what training changed, one file next to the base model, for gradgate",
}
_PEFT: Mapping[Form, str] = {
    "peft": "the adapter with its head, for PEFT",
    "transformers": "the model with the adapter merged into its weights, for transformers",
}
_BOTTLENECK: Mapping[Form, str] = {"adapterhub": "the adapter with its head, for AdapterHub's library 'adapters'"}
_MIXED: Mapping[Form, str] = {"transformers": "a whole model per task, for transformers"}


@dataclass(frozen=True)
class Exportable:
    """The forms in which a run can be exported.

    Attributes:
        what: the run trained.
        forms: form to what it is; the first is the default.
        refusals: form to why the run cannot take it.
    """

    what: str
    forms: Mapping[Form, str]
    refusals: Mapping[Form, str]

    @classmethod
    def of(cls, record: RunRecord, config: RunConfig) -> Exportable:
        """Return what a finished run can become."""
        if record.task is not None and record.task.kind == MIXED:
            reason = "it cannot store an encoder with several heads"
            return cls("several tasks", _MIXED, dict.fromkeys(("peft", "adapterhub", "delta"), reason))
        adapter = config.adapter
        if adapter is None:
            return cls(f"the model itself, with {record.method}", _WHOLE, {"adapterhub": "the run has no adapter"})
        delta: Mapping[Form, str] = {"delta": "the adapter's file is already what a task adds to its base"}
        if adapter.kind.bottleneck is None:
            return _peft(config, {**delta, "adapterhub": "it takes bottleneck adapters, and this one is PEFT's"})
        nonlinear = "a bottleneck adapter adds layers of its own, which no class of transformers or PEFT has"
        stack = "" if config.language_adapters is None else " on language adapters"
        what = f"the bottleneck adapter {record.adapter}{stack}"
        return cls(what, _BOTTLENECK, {**delta, "transformers": nonlinear, "peft": nonlinear})

    def choose(self, wished: Form | None, run: object) -> Form:
        """Return the form to write.

        Args:
            wished: None takes the default.
            run: the folder, for messages.

        Raises:
            UsageError: for a form that the run cannot take, with those that it can.
        """
        if wished is None:
            return next(iter(self.forms))
        if wished not in self.forms:
            fitting = "; ".join(f"{form} ({what})" for form, what in self.forms.items())
            raise UsageError(
                f"to={wished}: the run in {run} trained {self.what}, and {self.refusals[wished]}. It can be exported "
                f"as: {fitting}."
            )
        return wished


def _peft(config: RunConfig, refusals: Mapping[Form, str]) -> Exportable:
    what = f"the adapter {config.adapter}"
    if config.open_new_tokens:  # PEFT's file has no rows for them
        forms: dict[Form, str] = {"transformers": _PEFT["transformers"]}
        return Exportable(what, forms, {**refusals, "peft": "the base model has no rows for the new tokens"})
    return Exportable(what, _PEFT, refusals)
