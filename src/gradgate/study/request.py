"""Check what a comparison was asked for, as far as that needs files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import RunConfig
from gradgate.study.grid import Grid
from gradgate.study.parts import Parts, read_parts
from gradgate.study.study_file import find_study
from gradgate.study.sweep import read_sweep
from gradgate.training.named_tasks import check_tasks


def subjects_of(asked: CompareSettings, out: Path) -> tuple[RunConfig, Parts]:
    """Return what all runs share, and the tasks, models and training sizes that are compared on.

    Args:
        asked: settings of the comparison. A study of several parts has the first task and model if these have none.
        out: the study folder.
    """
    base = asked.run_with(**_existing(asked, out))
    return base, Parts.of(base, asked.task, asked.model, asked.train_size)


def check_request(asked: CompareSettings, out: Path) -> None:
    """Refuse what can be seen to be wrong without a model; planning checks the rest.

    Raises:
        GradgateError: for methods, adapters, seeds, tasks or files that cannot be.
    """
    base, parts = subjects_of(asked, out)
    swept = [] if asked.sweep is None else [read_sweep(asked.sweep).reference]
    configured = parts.with_held(out).configured(out, base)
    is_new = all(find_study(part.path) is None for part in configured)
    for part in configured:
        if is_new:
            Grid.of(part.path, part.base, [*swept, *asked.method], asked.seeds, asked.adapter, part.name)
        check_tasks(part.base)


def _existing(asked: CompareSettings, out: Path) -> dict[str, Any]:
    """Return the first task and model of an existing study of several, in place of those that are not passed."""
    parts = read_parts(out)
    if parts is None:
        return {}
    return {**({} if asked.task else vars(parts.tasks[0])), **({} if asked.model else {"model": parts.models[0]})}
