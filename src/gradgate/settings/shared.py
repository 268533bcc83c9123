"""Join the settings that one run has and that all runs of a study share."""

from __future__ import annotations

from gradgate.settings.data import DataSettings
from gradgate.settings.evaluation import EvaluationSettings
from gradgate.settings.method import HeadSettings, MethodSettings
from gradgate.settings.optimization import OptimizationSettings
from gradgate.settings.precision import PrecisionSettings
from gradgate.settings.reporting import ReportingSettings
from gradgate.settings.storage import StorageSettings


class EstimatedSettings(
    StorageSettings, EvaluationSettings, PrecisionSettings, OptimizationSettings, MethodSettings, DataSettings
):
    """The shared settings that an estimate of memory has too, whose head is another subject."""


class SharedSettings(ReportingSettings, EstimatedSettings, HeadSettings):
    """The settings that one run has and that all runs of a study share."""
