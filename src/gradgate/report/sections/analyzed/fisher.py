"""Show the Fisher information of layers through training, if runs tracked it (FUN, Fig. 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.analysis.fisher import FisherRun, TrackedGroup, correlation, tracked_runs
from gradgate.errors import RunError
from gradgate.report.drawing import Drawing
from gradgate.report.formats import ScoreFormat
from gradgate.report.sections.analyzed.fisher_figures import draw_curves, draw_layers, draw_schedules
from gradgate.report.sections.analyzed.fisher_tables import (
    caption,
    curve_table,
    layer_table,
    order_table,
    schedule_table,
    schedules_caption,
)
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary, summarize_study
from gradgate.report.table import Table


@dataclass(frozen=True)
class FisherSection(Section):
    """The Fisher information that runs have tracked with ``--track fisher``."""

    runs: list[FisherRun]
    problem: str = ""

    @classmethod
    def find(cls, study: StudySummary) -> FisherSection | None:
        """Return None for a study that has tracked nothing."""
        try:
            runs = tracked_runs(study.results)
        except RunError as error:
            return cls(study, [], str(error))
        return cls(study, runs) if runs else None

    def tables(self) -> list[Table]:
        """Return the curves, the layers, the order of FUN, and the schedules with their scores."""
        return fisher_tables(self.runs, self.study.format, self.study.split_label) if self.runs else []

    def drawings(self) -> list[Drawing]:
        """Draw the curves, the layers, and the schedules if they can be correlated with their scores."""
        return fisher_drawings(self.runs, self.study.record.arm_names, self.study.format)

    def cautions(self) -> list[str]:
        """Say why what was tracked cannot be read."""
        return [self.problem] if self.problem else []

    def notes(self) -> list[str]:
        """Say how the numbers are made."""
        return [_HOW] if self.runs else []


_HOW = (
    "Fisher information: tr(F) is the squared gradient of log p(y|x), with y sampled from the model (Liu et al. "
    "2023, Eq. 1), averaged over examples and summed over a layer's trainable weights, without dropout, on the "
    "same training batches at each measurement. Normalised values are means over the layers that train at that "
    "step; the moving average is centred and spans a tenth of a run's measurements, at most 10."
)


def shown_as(group: TrackedGroup) -> tuple[ScoreFormat | None, str]:
    """Return the metric and split of the scores of a group; none outside of a study."""
    if group.results is None:
        return None, ""
    study = summarize_study(group.results)
    return study.format, study.split_label


def fisher_tables(runs: Sequence[FisherRun], metric: ScoreFormat | None = None, split: str = "") -> list[Table]:
    """Return all tables of tracked runs; that of the schedules only with scores."""
    tables = [curve_table(runs), layer_table(runs), order_table(runs)]
    return [
        *tables,
        *([schedule_table(runs, metric, split)] if metric and any(run.is_schedule for run in runs) else []),
    ]


def fisher_drawings(
    runs: Sequence[FisherRun], order: Sequence[str], metric: ScoreFormat | None = None
) -> list[Drawing]:
    """Draw all figures of tracked runs; the places of the arms in ``order`` decide the colours."""
    if not runs:
        return []
    drawings = [draw_curves(runs, order, caption(runs)), draw_layers(runs)]
    if metric is not None and correlation(runs, lambda run: run.peak) is not None:
        drawings.append(draw_schedules(runs, order, metric, schedules_caption(runs)))
    return drawings
