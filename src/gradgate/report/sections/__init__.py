"""The sections of a report. A new one is a file of this package and its line in ``SECTIONS``."""

from __future__ import annotations

from gradgate.report.findings import Findings
from gradgate.report.sections.base import Section
from gradgate.report.sections.cost import CostSection
from gradgate.report.sections.curves import CurvesSection
from gradgate.report.sections.epoch_curves import EpochCurvesSection
from gradgate.report.sections.every_score import EveryScoreSection
from gradgate.report.sections.evidence import EvidenceSection
from gradgate.report.sections.fisher import FisherSection
from gradgate.report.sections.forgetting import ForgettingSection
from gradgate.report.sections.forgetting_course import ForgettingCourseSection
from gradgate.report.sections.freezing import FreezingSection
from gradgate.report.sections.gains import GainsSection
from gradgate.report.sections.how_made import HowMadeSection
from gradgate.report.sections.landscape import LandscapeSection
from gradgate.report.sections.losses import LossesSection
from gradgate.report.sections.race import RaceSection
from gradgate.report.sections.rates import RatesSection
from gradgate.report.sections.representations import RepresentationsSection
from gradgate.report.sections.scores import ScoresSection
from gradgate.report.sections.search import SearchSection
from gradgate.report.sections.shared_rate import SharedRateSection
from gradgate.report.sections.stability import StabilitySection
from gradgate.report.sections.t_statistics import TStatisticsSection
from gradgate.report.sections.timeline import TimelineSection
from gradgate.report.sections.training_sizes import TrainingSizesSection
from gradgate.report.verdict import verdict

# In the order of the page, which shows the first table above the figures.
SECTIONS: tuple[type[Section], ...] = (
    ScoresSection,
    RaceSection,
    GainsSection,
    EvidenceSection,
    TStatisticsSection,
    FreezingSection,
    CostSection,
    ForgettingSection,
    CurvesSection,
    LossesSection,
    EpochCurvesSection,
    TrainingSizesSection,
    RatesSection,
    SharedRateSection,
    EveryScoreSection,
    StabilitySection,
    TimelineSection,
    FisherSection,
    RepresentationsSection,
    LandscapeSection,
    ForgettingCourseSection,
    HowMadeSection,
    SearchSection,
)


def find_sections(findings: Findings) -> list[Section]:
    """The sections that the study has data for."""
    return [section for kind in SECTIONS if (section := kind.find(findings)) is not None]


def find_answer(findings: Findings, sections: list[Section]) -> tuple[str, list[str]]:
    """The answer of the study in a sentence, and those that add to it."""
    remarks = [remark for section in sections for remark in section.remarks()]
    own = next(filter(None, (section.answer() for section in sections)), None)
    if own is None:
        return verdict(findings), remarks
    return own, [*remarks, verdict(findings)] if findings.scored else remarks
