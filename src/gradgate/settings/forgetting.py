"""What a run forgets, as a setting and as a record: ``--forgetting FILE`` and what ``scores.json`` then holds of it.

Plain data, without torch. What reads the texts is in :mod:`gradgate.training.forgetting.data`, what measures in
:mod:`gradgate.training.forgetting.measuring`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from gradgate import sample
from gradgate.errors import UsageError, nearest
from gradgate.places import short_name, typed_place
from gradgate.specs import Syntax, shown
from gradgate.tasks.metrics import FORGETTING, KL

TOKENS, ROWS = 100_000, 1_000
"""How much is measured on by default: a large file would take longer than the training."""
_OPTIONS: dict[str, type[int] | type[str]] = {
    "column": str, "subset": str, "split": str, "metric": str, "tokens": int, "rows": int,
}  # fmt: skip
_SYNTAX = Syntax("forgetting setting", error=UsageError, hint=lambda name: f"options: {', '.join(_OPTIONS)}")
# What follows a colon is options only where it looks like them: Windows paths have colons, too.
_WITH_OPTIONS = re.compile(r"(?P<place>.+?):(?P<options>\s*[a-z_]+\s*=.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ForgettingSetting:
    """The text that forgetting is measured on.

    Attributes:
        place: a file, a data set of the hub, ``sample-opinions``, or a task of kind generation.
        column: of the text, where there are columns; by default ``text``, if these are not prompts and responses.
        subset, split: configuration and split of a data set of the hub.
        metric: that is compared: ``loss`` or ``kl``, or another one of prompts and responses. By default ``loss`` for
            running text, and the task's own for prompts and responses.
        tokens: of running text that are measured at most.
        rows: of prompts and responses that are measured at most.
        text: what it was read from.
        parameter: that it was passed as.
    """

    place: str
    column: str | None = None
    subset: str | None = None
    split: str | None = None
    metric: str | None = None
    tokens: int = TOKENS
    rows: int = ROWS
    text: str = field(default="", repr=False, compare=False)
    parameter: str = field(default="forgetting", repr=False, compare=False)

    def __str__(self) -> str:
        return self.text or self.place

    @property
    def portable(self) -> ForgettingSetting:
        """The same without the folders of an absolute path."""
        near = short_name(self.place)
        return replace(self, place=near, text=self.text.replace(self.place, near, 1))

    @property
    def options(self) -> tuple[object, ...]:
        """Everything but the place, for comparison."""
        return (self.column, self.subset, self.split, self.metric, self.tokens, self.rows)

    @property
    def asked(self) -> str:
        """The setting with its parameter, for messages."""
        return f"{self.parameter}={self}"

    def with_option(self, name: str, value: str) -> str:
        """Return the setting as it is typed to change one option and keep the others."""
        kept = {option: getattr(self, option) for option in _OPTIONS if option != name}
        typed = {option: given for option, given in kept.items() if given != _DEFAULTS[option]}
        options = ",".join(f"{option}={given}" for option, given in (typed | {name: value}).items())
        return f"{self.parameter}={self.place}:{options}"

    @property
    def path(self) -> Path:
        """The place as a path; that of the embedded text for ``sample-opinions``."""
        return sample.TEXTS.get(self.place, Path(self.place))

    @property
    def names_task(self) -> bool:
        """Whether the place can only be a task: a folder, a YAML file, or a name."""
        if self.path.exists():
            return self.path.is_dir() or self.path.suffix in (".yaml", ".yml")
        return not set("/\\.") & set(self.place)


_DEFAULTS = {each.name: each.default for each in fields(ForgettingSetting)}


def read_forgetting(text: str, parameter: str = "forgetting") -> ForgettingSetting:
    """Read a text such as ``wiki.txt`` or ``owner/name:subset=en,split=test``.

    Args:
        text: as it was typed.
        parameter: that it was passed as.

    Raises:
        UsageError: for an unknown option or metric, or a number below 1.
    """
    found = _WITH_OPTIONS.fullmatch(text.strip())
    place = found["place"] if found else text.strip()
    spec = _SYNTAX.parse(f"forgetting:{found['options']}" if found else "forgetting")
    given = spec.typed(_OPTIONS)
    for option, value in given.items():
        if isinstance(value, int) and value < 1:
            raise UsageError(
                f"{parameter}={shown(text)}: {option}={value} leaves nothing to measure on; pass 1 or more."
            )
    metric = given.get("metric")
    if metric is not None and metric not in FORGETTING:
        raise UsageError(
            f"{parameter}={shown(text)}: unknown metric {metric!r}.{nearest(str(metric), FORGETTING)} Expected one of "
            f"{', '.join(FORGETTING)}."
        )
    return ForgettingSetting(place=typed_place(place), text=text.strip(), parameter=parameter, **given)


@dataclass(frozen=True, kw_only=True)
class ForgettingRecord:
    """The forgetting of a training, measured on something else than its task.

    Attributes:
        file: what it was measured on, as it was typed.
        fingerprint: of the texts and of how they are measured.
        metric: ``loss`` or ``kl`` in nats per token; another one of prompts and responses.
        higher_is_better: of the metric.
        before: of the pretrained model; 0 for ``kl``, which is the divergence from it.
        after: of the weights that were best on dev, with their adapter.
        difference: ``after - before``.
        perplexity_before, perplexity_after: of a loss, ``exp(loss)``; else None.
        tokens: that are predicted, of running text; None for prompts and responses.
        rows: texts, or prompts with their responses.
    """

    file: str
    fingerprint: str
    metric: str
    higher_is_better: bool
    before: float
    after: float
    difference: float
    perplexity_before: float | None = field(default=None, metadata={"if_given": True})
    perplexity_after: float | None = field(default=None, metadata={"if_given": True})
    tokens: int | None = field(default=None, metadata={"if_given": True})
    rows: int

    @property
    def forgotten(self) -> float:
        """The deterioration of the metric: above 0 something was forgotten."""
        return -self.difference if self.higher_is_better else self.difference


def shown_value(metric: str, value: float) -> str:
    """Format a value for a sentence; a divergence from the pretrained model may be small."""
    return f"{value:.3g}" if metric == KL else f"{value:.4f}"
