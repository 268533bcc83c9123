"""The main table, one row per method with its score, its difference to the first one and its costs; and its figure."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.drawing import Drawing
from gradgate.report.sections.base import Section
from gradgate.report.sections.main_table import best_first, main_table
from gradgate.report.sections.scores_figure import draw_scores
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Table

_TERMINAL = ("method", "score", "difference", "p", "seeds", "step", "share")
_WITH_FORGETTING = ("method", "score", "forgetting", "frontier", "total", "difference", "p", "seeds")
_WITH_ADAPTERS = ("method", "score", "difference", "p", "seeds", "parameters", "stored", "step")


@dataclass(frozen=True)
class ScoresSection(Section):
    """The comparison of the methods on the main split."""

    @classmethod
    def find(cls, study: StudySummary) -> ScoresSection | None:
        """Return the section; None without scores in a race, or in an import of several tasks and models."""
        may_lack = study.is_race or (study.record.imported is not None and study.parts)
        return None if may_lack and not study.scored else cls(study)

    def tables(self) -> list[Table]:
        """Return the main table."""
        return [main_table(self.study)]

    def drawings(self) -> list[Drawing]:
        """Draw the scores, once a run has finished."""
        return [draw_scores(self.study)] if self.study.scored else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the main table, ranked by score if forgetting was measured."""
        table = main_table(self.study)
        if self.study.forgetting is not None:
            return [(best_first(self.study, table), _WITH_FORGETTING)]
        has_adapters = any(arm.adapter is not None for arm in self.study.record.arms)
        counted = any(column.key == "stored" for column in table.columns)  # older studies did not count it
        known = {column.key for column in table.columns}
        columns = _WITH_ADAPTERS if has_adapters and counted else _TERMINAL
        return [(table, tuple(key for key in columns if key in known))]
