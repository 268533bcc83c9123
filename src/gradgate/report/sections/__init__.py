"""The sections of a report. A new one is a file of this package and its line in ``SECTIONS``."""

from __future__ import annotations

from collections.abc import Sequence

from gradgate.report.sections.analyzed.fisher import FisherSection
from gradgate.report.sections.analyzed.forgetting_course import ForgettingCourseSection
from gradgate.report.sections.analyzed.landscape import LandscapeSection
from gradgate.report.sections.analyzed.representations import RepresentationsSection
from gradgate.report.sections.base import Section
from gradgate.report.sections.budget import BudgetSection
from gradgate.report.sections.cost import CostSection
from gradgate.report.sections.curves import CurvesSection
from gradgate.report.sections.differences import DifferencesSection
from gradgate.report.sections.every_run import RunsSection
from gradgate.report.sections.every_score import MetricsSection, SplitsSection
from gradgate.report.sections.evidence import EvidenceSection, SplitEvidenceSection
from gradgate.report.sections.forgetting import ForgettingSection
from gradgate.report.sections.from_papers.epoch_curves import EpochCurvesSection
from gradgate.report.sections.from_papers.freezing import FreezingSection
from gradgate.report.sections.from_papers.losses import LossesSection
from gradgate.report.sections.from_papers.rates import RatesSection
from gradgate.report.sections.from_papers.stability import StabilitySection
from gradgate.report.sections.from_papers.t_statistics import TStatisticsSection
from gradgate.report.sections.from_papers.training_sizes import TrainingSizesSection
from gradgate.report.sections.gains import GainsSection
from gradgate.report.sections.how_made import HowMadeSection
from gradgate.report.sections.imported import ImportedSection
from gradgate.report.sections.per_class import PerClassSection
from gradgate.report.sections.scores import ScoresSection
from gradgate.report.sections.search import SearchSection
from gradgate.report.sections.shared_rate import SharedRateSection
from gradgate.report.sections.timeline import TimelineSection
from gradgate.report.sections.verdicts import EveryVerdictSection, VerdictSection
from gradgate.report.study_summary import StudySummary
from gradgate.report.verdict import cautions, verdict

# In the order of the page, which shows the first table above the figures.
SECTIONS: tuple[type[Section], ...] = (
    ScoresSection,
    DifferencesSection,
    VerdictSection,
    EveryVerdictSection,
    ImportedSection,
    BudgetSection,
    GainsSection,
    EvidenceSection,
    SplitEvidenceSection,
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
    SplitsSection,
    RunsSection,
    MetricsSection,
    PerClassSection,
    StabilitySection,
    TimelineSection,
    FisherSection,
    RepresentationsSection,
    LandscapeSection,
    ForgettingCourseSection,
    HowMadeSection,
    SearchSection,
)


def find_sections(study: StudySummary) -> list[Section]:
    """Return the sections that the study has data for, in the order of the page."""
    found = [section for kind in SECTIONS if (section := kind.find(study)) is not None]
    return sorted(found, key=lambda section: not section.leads)


def find_answer(study: StudySummary, sections: Sequence[Section]) -> tuple[str, list[str]]:
    """Return the answer of the study in a sentence, and those that add to it."""
    remarks = [remark for section in sections for remark in section.remarks()]
    own = next(filter(None, (section.answer() for section in sections)), None)
    if own is None:
        return verdict(study), remarks
    return own, [*remarks, verdict(study)] if study.scored else remarks


def find_cautions(study: StudySummary, sections: Sequence[Section]) -> list[str]:
    """Return what to bear in mind."""
    return [*cautions(study), *(caution for section in sections for caution in section.cautions())]
