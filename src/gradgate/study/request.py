"""Check what a comparison was asked for, as far as that needs files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import RunConfig
from gradgate.study.conditions import Conditions, read_conditions
from gradgate.study.grid import Grid
from gradgate.study.study_file import find_study
from gradgate.study.sweep import read_sweep
from gradgate.training.named_tasks import check_tasks


def subjects_of(asked: CompareSettings, out: Path) -> tuple[RunConfig, Conditions]:
    """Return what all runs share, and the tasks, models and training sizes that are compared on.

    Args:
        asked: settings of the comparison. A study of several tasks has the first one if these have none.
        out: the study folder.
    """
    base = asked.run_with(**_existing(asked, out))
    return base, Conditions.of(base, asked.task, asked.model, asked.train_size)


def check_request(asked: CompareSettings, out: Path) -> None:
    """Refuse what can be seen to be wrong without a model; planning checks the rest.

    Raises:
        GradgateError: for methods, adapters, seeds, tasks or files that cannot be.
    """
    base, conditions = subjects_of(asked, out)
    swept = [] if asked.sweep is None else [read_sweep(asked.sweep).reference]
    configured = conditions.merge_existing(out).configured(out, base)
    is_new = all(find_study(part.path) is None for part in configured)
    for part in configured:
        if is_new:
            Grid.of(part.path, part.base, [*swept, *asked.method], asked.seeds, asked.adapter, part.name)
        check_tasks(part.base)


def _existing(asked: CompareSettings, out: Path) -> dict[str, Any]:
    """Return the first task and model of an existing study of several, in place of those that are not passed."""
    existing = read_conditions(out)
    if existing is None:
        return {}
    return {**({} if asked.task else vars(existing.tasks[0])), **({} if asked.model else {"model": existing.models[0]})}
