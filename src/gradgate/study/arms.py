"""Expand the methods, adapters and settings of a study into its arms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from gradgate.settings.adapter import AdapterSetting
from gradgate.settings.arm import Arm
from gradgate.settings.memory import MemorySettings


def cross(
    methods: Iterable[Arm],
    adapters: Sequence[AdapterSetting | None],
    variants: Sequence[Mapping[str, Any]] = (),
    shared: Mapping[str, Any] | None = None,
) -> tuple[Arm, ...]:
    """Return every adapter with every method, followed by the arms that have an adapter of their own.

    Arms that train the same are one arm, under the name that comes first.

    Args:
        methods: what was given with ``-m``: methods, or arms with an adapter.
        adapters: for those without one; None is the model itself.
        variants: settings that each make an arm of every one of these that takes training steps.
        shared: the settings that all arms share.
    """
    given = list(methods)
    crossing = (
        Arm(arm.method, adapter, arm.overrides) for adapter, arm in product(adapters, given) if arm.adapter is None
    )
    whole = dict.fromkeys([*crossing, *(arm for arm in given if arm.adapter is not None)])
    found: dict[Arm, Arm] = {}
    for each in whole:
        for variant in variants if variants and each.is_trained else [{}]:
            arm = each.with_settings(variant)
            found.setdefault(arm.apart_from(shared or {}), arm)
    return tuple(found.values())


def estimated_arms(asked: MemorySettings) -> tuple[Arm, ...]:
    """Return the arms of a memory estimate; raise UsageError if one does not go together with the settings."""
    arms = cross(asked.method, [asked.adapter])
    for arm in arms:
        asked.run(**arm.settings)
    return arms


def model_alone(arms: Iterable[Arm]) -> bool:
    """Return whether all arms train the model itself.

    Settings of pre-training on the task's texts are then the model's own; in a study with adapters, they are theirs.
    """
    return all(arm.adapter is None for arm in arms)
