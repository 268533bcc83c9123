"""A caution for a study that trains adapters and the model itself at one learning rate."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.findings import Findings
from gradgate.report.sections.base import Section
from gradgate.study.shared_rate import shared_rate


@dataclass(frozen=True)
class SharedRateSection(Section):
    """Why a difference between adapters and the model itself may be one of learning rates."""

    caution: str

    @classmethod
    def find(cls, findings: Findings) -> SharedRateSection | None:
        """None where the rates are fair, or the study has no adapter that wants another than the model."""
        study = findings.results.study
        rate = study.settings.get("lr")
        caution = shared_rate(study.arms, rate if isinstance(rate, int | float) else None, study.tried)
        return cls(findings, caution) if caution else None

    def cautions(self) -> list[str]:
        """One sentence or two."""
        return [self.caution]
