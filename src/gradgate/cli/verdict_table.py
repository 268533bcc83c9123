"""Show the verdicts of a study as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gradgate.study.verdicts import ArmVerdict


def verdict_table(verdicts: Sequence[ArmVerdict]) -> Table:
    """Return one row per arm and condition; a column that is the same in all rows is left out."""
    table = Table(box=None, pad_edge=False)
    conditions = [name for name in ("model", "task") if len({getattr(each, name) for each in verdicts}) > 1]
    for name in (*conditions, "arm"):
        table.add_column(name.capitalize(), overflow="fold")
    for name in ("Pairs", "Difference", "95% interval", "p (Holm)"):
        table.add_column(name, justify="right")
    table.add_column("Verdict")
    for each in verdicts:
        table.add_row(*(Text(str(getattr(each, name))) for name in (*conditions, "arm")), *_numbers(each), _word(each))
    return table


def _numbers(each: ArmVerdict) -> list[Text]:
    versus, p = each.verdict.comparison, each.verdict.p_corrected
    difference = "–" if versus.difference is None else f"{versus.difference * each.factor:+.2f}"
    low, high = versus.interval or (0.0, 0.0)
    interval = "–" if versus.interval is None else f"{low * each.factor:+.2f} to {high * each.factor:+.2f}"
    return [Text(text) for text in (str(versus.n), difference, interval, "–" if p is None else f"{p:.3f}")]


def _word(each: ArmVerdict) -> Text:
    verdict = each.verdict
    words = str(verdict.word)
    if verdict.pairs_needed is not None:
        words += f": {verdict.pairs_needed:,} seeds would decide"
    if each.collapsed.collapsed or each.reference_collapsed.collapsed:
        lost = f"{each.collapsed.collapsed} of {each.collapsed.runs} collapsed"
        theirs = f", {each.reference_collapsed.collapsed} of {each.reference}" * bool(
            each.reference_collapsed.collapsed
        )
        without = "" if each.without_collapsed is None else f"; without: {each.without_collapsed.word}"
        words += f" ({lost}{theirs}{without})"
    return Text(words)
