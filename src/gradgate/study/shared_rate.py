"""Detect a study with one learning rate for adapters and for the model itself, which suits only one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradgate.settings.arms.arm import Arm

SOURCE = "Schulman et al. 2025, 'LoRA Without Regret', https://thinkingmachines.ai/blog/lora/"


def shared_rate(arms: Sequence[Arm], lr: float | None, tried: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a caution for a study that trains adapters such as LoRA and the model itself at one learning rate.

    Args:
        arms: of the study.
        lr: what all runs share; None if it is not known.
        tried: settings that each method is tried with, by a search or as arms.

    Returns:
        None if the study has only one of the two, each adapter has a rate of its own, or rates are tried for each.
    """
    shared = [arm for arm in arms if arm.lr is None]
    adapters = dict.fromkeys(
        str(arm.adapter) for arm in shared if arm.adapter is not None and arm.adapter.kind.wants_own_rate
    )
    if not adapters or all(arm.adapter is not None for arm in shared) or any("lr" in setting for setting in tried):
        return None
    rate = f" of {lr:g}" if lr is not None else ""
    return (
        f"{', '.join(adapters)} and the model itself share the learning rate{rate}. LoRA's best rate is about 10 "
        f"times that of full fine-tuning ({SOURCE}), so a shared one favours one of them. Give adapters their own "
        f"rate, as in lora:r=8,lr={10 * (lr or 5e-5):g}, or search the rate of each with search='lr=...'."
    )
