"""Expand the methods, adapters and settings of a study into its arms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from gradgate.errors import UsageError
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.own_settings import TAPT_LENGTHS
from gradgate.settings.memory import MemorySettings
from gradgate.settings.run import RunConfig, batch_without_length


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
            found.setdefault(arm.apart_from({**(shared or {}), **not_for(each, whole, {})}), arm)
    return tuple(found.values())


def check_distinct(arms: Sequence[Arm], shared: Mapping[str, Any]) -> None:
    """Raise UsageError for two arms that train the same with the settings that all arms share."""
    found: dict[Arm, Arm] = {}
    for arm in arms:
        other = found.setdefault(arm.apart_from({**shared, **not_for(arm, arms, {})}), arm)
        if other is not arm:
            raise UsageError(
                f"{other.name} and {arm.name} train the same with the settings that all arms share. Leave one out, or "
                f"give one other options."
            )


def estimated_arms(asked: MemorySettings) -> tuple[Arm, ...]:
    """Return the arms of a memory estimate; raise UsageError if one does not go together with the settings."""
    arms = cross(asked.method, [asked.adapter])
    for arm in arms:
        arm.check_settings()
        asked.run(**arm.settings)
    return arms


def model_alone(arms: Iterable[Arm]) -> bool:
    """Return whether all arms train the model itself.

    Shared settings of pretraining on the task's texts are then for the model; in a study with adapters, for these.
    """
    return all(arm.adapter is None for arm in arms)


def check_batch(shared: RunConfig, arms: Iterable[Arm], searched: Collection[str]) -> None:
    """Raise UsageError if the arms share a batch size of pretraining on the task's texts, and none is pretrained."""
    has_length = shared.tapt is not None or any(
        name in searched or any(arm.sets(name) for arm in arms) for name in TAPT_LENGTHS
    )
    if shared.tapt_batch is not None and not has_length:
        raise batch_without_length()


def not_for(arm: Arm, arms: Iterable[Arm], own: Mapping[str, Any]) -> dict[str, None]:
    """Return the shared settings that do not apply to an arm, each as None.

    Args:
        arm: of a study.
        arms: all of the study.
        own: the settings of this arm alone. Where they have a length of pretraining, the shared one does not apply.
    """
    names = [] if arm.adapter is not None else ["language_adapters"]
    if any(name in own for name in TAPT_LENGTHS):
        names += TAPT_LENGTHS
    elif arm.adapter is None and not model_alone(arms):
        names += [*TAPT_LENGTHS, "tapt_batch"]
    return dict.fromkeys(names)
