"""Numbers as people read them: points, milliseconds, megabytes, millions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from gradgate.errors import listed, some_of
from gradgate.printable import visible
from gradgate.tasks.metrics import METRICS
from gradgate.tasks.metrics.page_unit import page_factor

NONE = "–"
MINUS = "−"
_TITLES = {"mean": "mean over tasks"}

# From here on, digits before the point are too many to read.
_TOO_LONG = 1e7

_PLUS = " + "
_FEWEST = 8  # characters of a part of a name that still tell which it is


@dataclass(frozen=True)
class ScoreFormat:
    """The form in which values of one metric are shown.

    Attributes:
        metric: its name in the files, such as ``macro_f1``.
        factor: what a value is multiplied by: 100 for shares and correlations, 1 for errors.
        decimals: digits after the point.
    """

    metric: str
    factor: int
    decimals: int

    @classmethod
    def fitting(cls, metric: str, spreads: Iterable[float | None] = ()) -> ScoreFormat:
        """Return the format in which the smallest of ``spreads`` (deviations, differences) still shows."""
        factor = page_factor(metric)
        least = min((abs(spread) * factor for spread in spreads if spread), default=1.0)
        decimals = 1 if factor == 100 else 3
        return cls(metric, factor, decimals if least >= 10.0**-decimals else decimals + 1)

    @property
    def name(self) -> str:
        """The metric's name in prose."""
        known = METRICS.get(self.metric)
        return known.title if known else _TITLES.get(self.metric, self.metric.replace("_", " "))

    @property
    def label(self) -> str:
        """The metric's name with its unit, for an axis or a heading."""
        return f"{self.name} × 100" if self.factor == 100 else self.name

    def value(self, score: float | None) -> str:
        """Format ``0.7123`` as ``71.2``."""
        return NONE if score is None else _signed_text(score * self.factor, f".{self.decimals}f")

    def difference(self, score: float | None) -> str:
        """Format with a sign: ``+2.3``."""
        return NONE if score is None else _signed_text(score * self.factor, f"+.{self.decimals}f")

    def with_spread(self, mean: float | None, sd: float | None) -> str:
        """Format as ``71.2 ± 1.1``, or the mean alone."""
        return self.value(mean) if sd is None else f"{self.value(mean)} ± {self.value(sd)}"

    def interval(self, interval: tuple[float, float] | None) -> str:
        """Format an interval of a difference: ``−0.4 to +5.0``."""
        return NONE if interval is None else f"{self.difference(interval[0])} to {self.difference(interval[1])}"


def _signed_text(value: float, spec: str) -> str:
    if not isfinite(value) or abs(value) >= _TOO_LONG:
        spec = "+.3g" if spec.startswith("+") else ".3g"
    text = format(value, spec)
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def decimal(value: float | None) -> str:
    """Format as ``−1.23``: two decimals, for statistics without a unit."""
    return NONE if value is None else _signed_text(value, ".2f")


def p_value(p: float | None) -> str:
    """Format with three decimals, and never as zero."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_equation(p: float) -> str:
    """Format as ``p = 0.012`` or ``p < 0.001``."""
    return f"p {p_value(p)}" if p < 0.001 else f"p = {p_value(p)}"


def seconds(value: float | None) -> str:
    """Format as ``12.3 ms``, ``1.20 s``, ``3 min 20 s`` or ``2 h 05 min``."""
    if value is None:
        return NONE
    if not isfinite(value) or value >= _TOO_LONG * 3600:
        return f"{value / 3600:.3g} h"
    if value < 0.9995e-3:
        return f"{_three(value * 1e6)} µs"
    if value < 0.9995:
        return f"{_three(value * 1e3)} ms"
    if value < 59.95:
        return f"{_three(value)} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours} h {minutes:02} min"


def count(value: float | None) -> str:
    """Format as ``22.7 M``: decimal thousands, millions and billions."""
    return _scaled(value, ("", " k", " M", " B"))


def size(value: float | None) -> str:
    """Format as ``412 MB``: bytes in powers of 1000."""
    return _scaled(value, (" B", " kB", " MB", " GB", " TB"))


def share(value: float | None) -> str:
    """Format as ``34 %``; small shares keep two digits: ``0.25 %``."""
    if value is None:
        return NONE
    percent = 100 * value
    if abs(percent) >= _TOO_LONG:
        return f"{percent:.3g} %"
    return f"{percent:.2g} %" if 0 < percent < 9.5 else f"{percent:.0f} %"


def ratio(value: float | None) -> str:
    """Format as ``0.72×``."""
    return NONE if value is None else f"{_signed_text(value, '.2f')}×"


def learning_rate(value: float) -> str:
    """Format as ``2e-5`` or ``0.1``."""
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{value:g}" if value >= 0.01 else f"{float(mantissa):g}e{int(exponent)}"


def quality(mean: float | None, sd: float | None = None) -> str:
    """Format as ``0.953 ± 0.012``: a score over another, or the mean alone."""
    parts = [_signed_text(value, ".3f") for value in (mean, sd) if value is not None]
    return NONE if mean is None else " ± ".join(parts)


def abridged(names: Sequence[str]) -> str:
    """Join names as :func:`listed` does, the first two of more than three."""
    return listed(names) if len(names) <= 3 else some_of(names, 2)


def said_once(notes: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return each note once, after the names that it is about unless all share it.

    Args:
        notes: a name and a note about it, or None. A name may have several.
    """
    about: dict[str, list[str]] = {}
    everyone: dict[str, None] = {}
    for name, note in notes:
        everyone[name] = None
        if note is not None:
            about.setdefault(note, []).append(name)
    names = {note: list(dict.fromkeys(own)) for note, own in about.items()}
    return [note if own == list(everyone) else f"{abridged(own)}: {note}" for note, own in names.items()]


def shortened(label: str, width: int) -> str:
    """Shorten a label to ``width`` characters in one line.

    The middle goes, as names differ at both ends: that of each part, if there is room for all parts of the name of a
    combined arm.
    """
    label = " ".join(visible(label).split())
    if len(label) <= width:
        return label
    parts = label.split(_PLUS)
    room = width - len(_PLUS) * (len(parts) - 1)
    if len(parts) == 1 or room < _FEWEST * len(parts):
        return _without_middle(label, width)
    widths = {}
    by_length = sorted(enumerate(parts), key=lambda own: len(own[1]))
    for before, (place, part) in enumerate(by_length):
        widths[place] = min(len(part), room // (len(parts) - before))
        room -= widths[place]
    return _PLUS.join(_without_middle(part, widths[place]) for place, part in enumerate(parts))


def _without_middle(text: str, width: int) -> str:
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def _scaled(value: float | None, units: tuple[str, ...]) -> str:
    if value is None:
        return NONE
    if not isfinite(value):
        return f"{value}{units[0]}"
    power = 0
    while power + 1 < len(units) and value >= 999.5 * 1000**power:
        power += 1
    return f"{_three(value / 1000**power) if power else round(value)}{units[power]}"


def _three(value: float) -> str:
    """Format three significant digits, trailing zeros kept; more only above 1000."""
    if 999.5 <= value < _TOO_LONG:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.3g}"
