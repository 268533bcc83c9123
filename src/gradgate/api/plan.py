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
    from torch import nn

    from gradgate.layers import LayerMap
    from gradgate.methods import Method
    from gradgate.methods.timeline import Timeline
    from gradgate.settings.arm import Arm


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
        0.0005
    """
    return plan_in(checked_settings(PlanSettings, {**settings, "model": model_name(model), "method": method}))[1]


def plan_in(settings: PlanSettings) -> tuple[Timeline, Timeline]:
    """Return the timeline of a method, and the same with the shares of weights that an adapter leaves to learn."""
    from gradgate.layers import map_layers  # torch loads after the settings are checked
    from gradgate.memory.request import structure_of
    from gradgate.methods.timeline import foresee

    method, steps = settings.run.method, settings.steps
    structure = structure_of(settings.run, has_task=names_a_task(settings))
    layer_map = map_layers(structure, layers=settings.layers)
    clock = Clock(0, max(1, ceil(steps / settings.epochs)), steps)
    timeline = foresee(method, layer_map, clock, settings.seed)
    if settings.run.adapter is None:
        return timeline, timeline
    learns = _learning_shares(structure, layer_map.at(method.traits.unit), timeline.learns)
    return timeline, replace(timeline, method=settings.run.arm.name, learns=learns)


def _learning_shares(model: nn.Module, layer_map: LayerMap, shares: dict[str, float]) -> dict[str, float]:
    """Return the share of each group's weights that may learn in a model that is frozen except for its adapter."""
    from gradgate.layers import named_parameters

    sizes = {name: weight.numel() for name, weight in named_parameters(model).items() if weight.requires_grad}
    return {
        group.name: shares.get(group.name, 1.0)
        * sum(sizes.get(name, 0) for name in group.parameter_names)
        / max(1, group.parameter_count)
        for group in layer_map
    }
