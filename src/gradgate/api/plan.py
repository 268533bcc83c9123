"""Show what a method opens when, without training."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from os import PathLike
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from gradgate.api.data import model_name
from gradgate.clock import Clock
from gradgate.settings.base import checked_settings
from gradgate.settings.data import names_a_task
from gradgate.settings.keywords import PlanKeywords
from gradgate.settings.plan import PlanSettings
from gradgate.settings.signature import takes

if TYPE_CHECKING:
    from peft import PeftConfig

    from gradgate.methods import Method
    from gradgate.methods.timeline import Timeline
    from gradgate.settings.arms.arm import Arm


@takes(PlanSettings, PlanKeywords)
def plan(
    model: str | PathLike[str] | None = None,
    method: str | Arm | Method | PeftConfig | None = None,
    **settings: Unpack[PlanKeywords],
) -> Timeline:
    """Return what a method opens when, without training, as ``gradgate plan`` draws it.

    Args:
        model: hub name or folder of a pretrained model; by default the embedded ``"sample"``.
        method: as for :func:`gradgate.train`.

    Returns:
        The timeline: ``phases`` with the gates of each group, ``mean_share`` of the weights that learn, and
        ``to_yaml()`` for a plan file.

    Raises:
        UsageError: without ``steps``, or for a value that is out of range.

    Example:
        >>> import gradgate as gg
        >>> round(gg.plan(method="head", steps=10).mean_share, 4)
        0.0116
    """
    return plan_in(checked_settings(PlanSettings, {**settings, "model": model_name(model), "method": method}))


def plan_in(settings: PlanSettings) -> Timeline:
    """Return the timeline of an arm; of an adapter, with the share of each group that it leaves to learn."""
    from gradgate.layers import map_layers, named_parameters  # torch loads after the settings are checked
    from gradgate.memory.request import structure_of
    from gradgate.methods.timeline import foresee

    method, steps = settings.run.method, settings.steps
    structure = structure_of(settings.run, has_task=names_a_task(settings))
    layer_map = map_layers(structure, layers=settings.layers)
    if settings.run.adapter is not None:
        weights = named_parameters(structure)
        layer_map = layer_map.with_frozen(name for name, weight in weights.items() if not weight.requires_grad)
    clock = Clock(0, max(1, ceil(steps / settings.epochs)), steps)
    return replace(foresee(method, layer_map, clock, settings.seed), method=settings.run.arm.name)
