"""Show how close each run's representations stay to those of the pretrained model, if they were analyzed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.analysis.representations import (
    NAME,
    ArmSimilarity,
    RepresentationRow,
    caption,
    similarities,
    splits_of,
)
from gradgate.report import formats
from gradgate.report.drawing import MUTED, Drawing, finish, legend_label, style_of, styled
from gradgate.report.formats import NONE
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import AnalyzedSection
from gradgate.report.table import Column, Entry, Table, records_of, spread_fields
from gradgate.runs.records import DEV
from gradgate.statistics import Summary

_TITLE = "Similarity to the pretrained model, by layer"
_MEASURES = {"rsa": "RSA", "cka": "linear CKA"}


@dataclass(frozen=True)
class RepresentationsSection(AnalyzedSection[RepresentationRow]):
    """The similarities that ``gradgate analyze representations`` has measured."""

    analysis = NAME
    row = RepresentationRow

    def tables(self) -> list[Table]:
        """Return one for each split."""
        return [similarity_table(self.rows, split) for split in splits_of(self.rows)]

    def drawings(self) -> list[Drawing]:
        """Return one for each split."""
        return draw_representations(self.rows, self.study.record.arm_names)


def similarity_table(rows: Sequence[RepresentationRow], split: str) -> Table:
    """Return one row per layer, one column per arm."""
    arms = similarities(rows, split)
    layers = range(len(arms[0].rsa))
    fields: tuple[Column[tuple[str, int, str, Summary]], ...] = (
        Column("method", raw=lambda row: row[0]),
        Column("split", raw=lambda row: split),
        Column("layer", raw=lambda row: row[1]),
        Column("measure", raw=lambda row: row[2]),
        *spread_fields(lambda row: row[3]),
    )
    columns: tuple[Column[int], ...] = (
        Column(
            "layer", "Layer", "0 is the output of the embedding layer", numeric=False, show=lambda n: Entry(str(n), n)
        ),
        *map(_arm_column, arms),
    )
    measured = [
        (arm.arm, layer, measure, arm.summary(measure, layer))
        for arm in arms
        for layer in layers
        for measure in _MEASURES
    ]
    title = f"{_TITLE}: tokens of {split}"
    return Table.of(_name(split), title, layers, columns, records=records_of(measured, fields))


def _arm_column(arm: ArmSimilarity) -> Column[int]:
    def show(layer: int) -> Entry:
        rsa, cka = arm.summary("rsa", layer), arm.summary("cka", layer).mean
        return Entry(formats.quality(rsa.mean, rsa.sd), rsa.mean, "" if cka is None else f"({formats.quality(cka)})")

    return Column(arm.arm, arm.arm, "RSA, mean ± standard deviation over seeds (linear CKA)", show=show)


def draw_representations(rows: Sequence[RepresentationRow], order: Sequence[str]) -> list[Drawing]:
    """Draw a figure for each split: RSA above, linear CKA below, layers to the right.

    Args:
        rows: at least one.
        order: of the arms; their places decide the colours.
    """
    return [_draw(rows, split, order) for split in splits_of(rows)]


def _draw(rows: Sequence[RepresentationRow], split: str, order: Sequence[str]) -> Drawing:
    arms = sorted(similarities(rows, split), key=lambda arm: order.index(arm.arm))
    tokens = max(row.tokens for row in rows if row.split == split)
    with styled(4.6 + 0.19 * len(arms)) as figure:
        panels = figure.subplots(2, sharex=True)
        for axes, (measure, label) in zip(panels, _MEASURES.items(), strict=True):
            for arm in arms:
                _draw_arm(axes, arm, measure, order.index(arm.arm), label=axes is panels[0])
            axes.axhline(1, color=MUTED, lw=0.8, zorder=0)
            axes.grid(color=MUTED, alpha=0.2, lw=0.6)
            axes.set_ylabel(label)
        panels[1].set_xlabel(f"layer, tokens of {split}")
        panels[1].xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 3, 5, 10]))
        name_marks(figure)
        return finish(figure, _name(split), _TITLE, _caption(arms, tokens, split), _text(arms), _name(split))


def _draw_arm(axes: Axes, arm: ArmSimilarity, measure: str, place: int, label: bool) -> None:
    style = style_of(place)
    values = [list(at) for at in getattr(arm, measure)]
    places = np.array([layer for layer, at in enumerate(values) if at])
    means = np.array([np.mean(at) for at in values if at])
    spread = np.array([np.std(at, ddof=1) if len(at) > 1 else 0.0 for at in values if at])
    name = legend_label(arm.arm, 40) if label else None
    axes.plot(places, means, color=style.colour, ls=style.dash, marker=style.marker, ms=3.5, lw=1.6, label=name)
    axes.fill_between(places, means - spread, means + spread, color=style.colour, alpha=0.14, lw=0)


def _caption(arms: Sequence[ArmSimilarity], tokens: int, split: str) -> str:
    return (
        f"{caption(arms)} Each layer's output is compared with the pretrained model's on the same {tokens} tokens "
        f"of {split}: above by Pearson's correlation of the tokens' cosine similarities (He et al. 2021, section "
        "2.2), below by linear CKA (Kornblith et al. 2019). 1 is unchanged; layer 0 is the output of the "
        "embedding layer. Lines are means over the seeds, bands ± one standard deviation."
    )


def _text(arms: Sequence[ArmSimilarity]) -> str:
    parts = []
    for arm in arms:
        values = [NONE if mean is None else formats.quality(mean) for mean in _means(arm, "rsa")]
        aligned = [NONE if mean is None else formats.quality(mean) for mean in _means(arm, "cka")]
        parts.append(f"{arm.arm}: RSA by layer from 0 up {', '.join(values)}; linear CKA {', '.join(aligned)}")
    return f"{'. '.join(parts)}."


def _means(arm: ArmSimilarity, measure: str) -> list[float | None]:
    return [arm.mean(measure, layer) for layer in range(len(arm.rsa))]


def _name(split: str) -> str:
    return NAME if split == DEV else f"{NAME}-{split}"
