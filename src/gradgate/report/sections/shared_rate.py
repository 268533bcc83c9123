"""Warn of a study that trains adapters and the model itself at one learning rate."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.study.shared_rate import shared_rate


@dataclass(frozen=True)
class SharedRateSection(Section):
    """The caution that a difference between adapters and the model itself may be one of learning rates."""

    caution: str

    @classmethod
    def find(cls, study: StudySummary) -> SharedRateSection | None:
        """Return None if the rates are fair, or the study has no adapter that needs another than the model."""
        record = study.record
        if record.imported is not None and "lr" not in record.settings:
            return None  # nobody knows the rates
        rate = record.settings.get("lr")
        caution = shared_rate(record.arms, rate if isinstance(rate, int | float) else None, record.tried)
        return cls(study, caution) if caution else None

    def cautions(self) -> list[str]:
        """Return a sentence or two."""
        return [self.caution]
