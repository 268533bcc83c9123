"""Record how far the differences between the arms of a study are known if its test rows are a sample too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence.studies import Study
from gradgate.csv_rows import CsvRows
from gradgate.study.row_noise import row_verdicts

CAPTION = """\
A table of differences has them in points, with their 95 % intervals: over seeds alone, and if seeds and test rows are
drawn again (the multi-bootstrap), never narrower than over seeds alone; the last column is the share of the variance
that is due to rows alone. The intervals are not corrected for the number of arms. Only studies that were recorded with
the predictions of each row have one, and seeds that were added later are not in it."""


@dataclass(frozen=True)
class RowNoiseOfArm:
    """The noise of one arm's difference to the reference, in points.

    Attributes:
        split: that arms are compared on.
        seeds: the pairs.
        rows: of test, of all languages together.
        low, high: the ends of the interval over seeds.
        low_with_rows, high_with_rows: of the interval over seeds and rows.
        error, freedom: its standard error and degrees of freedom.
        share_of_rows: of the variance of both, what is due to rows alone.
    """

    arm: str
    reference: str
    split: str
    seeds: int
    rows: int
    difference: float
    low: float
    high: float
    low_with_rows: float
    high_with_rows: float
    error: float
    freedom: float
    share_of_rows: float


ROWS = CsvRows(RowNoiseOfArm, "python -m evidence run")


def rows_of(study: Study) -> dict[tuple[str, str], RowNoiseOfArm]:
    """Return the noise of each arm of a study by arm and reference; empty without stored predictions."""
    found = ROWS.read(study.row_noise) if study.row_noise.exists() else []
    return {(each.arm, each.reference): each for each in found}


def row_noise(folder: Path) -> Iterator[RowNoiseOfArm]:
    """Yield the noise of each arm of a study whose runs stored their predictions."""
    for found in row_verdicts(folder):
        versus, noise = found.verdict.comparison, found.rows
        if noise is not None and versus.difference is not None and versus.interval is not None:
            low, high, low_with_rows, high_with_rows = (
                round(found.factor * end, 4) for end in (*versus.interval, *noise.interval_t)
            )
            yield RowNoiseOfArm(
                arm=found.arm,
                reference=found.reference,
                split=found.split,
                seeds=noise.seeds,
                rows=noise.rows,
                difference=round(found.factor * versus.difference, 4),
                low=low,
                high=high,
                low_with_rows=low_with_rows,
                high_with_rows=high_with_rows,
                error=round(found.factor * noise.error, 4),
                freedom=round(noise.freedom, 2),
                share_of_rows=round(noise.variance_rows, 4),
            )


def row_noise_table(study: Study) -> str:
    """Return a table with a row per arm; empty if the study was recorded without the predictions of its rows."""
    found = list(rows_of(study).values())
    if not found:
        return ""
    first = found[0]
    named = f"{first.seeds} seeds, {first.rows} rows of {first.split}"
    lines = [f"| {named} | minus `{first.reference}` | over seeds | over seeds and rows | due to rows |"]
    lines += ["|---|---:|---|---|---:|"]
    for each in found:
        seeds, rows = _interval(each.low, each.high), _interval(each.low_with_rows, each.high_with_rows)
        share = f"{100 * each.share_of_rows:.0f} %"
        lines.append(f"| `{each.arm}` | {_signed(each.difference)} | {seeds} | {rows} | {share} |")
    return "\n".join(lines)


def _interval(low: float, high: float) -> str:
    return f"{_signed(low)} to {_signed(high)}"


def _signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")
