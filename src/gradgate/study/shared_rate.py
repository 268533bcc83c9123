"""One learning rate for adapters and for the model itself, which is fair to neither: seen, and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from gradgate.errors import UsageError
from gradgate.settings.adapter import read_adapter

SOURCE = "Schulman et al. 2025, 'LoRA Without Regret', https://thinkingmachines.ai/blog/lora/"


def shared_rate(adapters: Sequence[str | None], lr: float | None, tried: Sequence[Mapping[str, Any]]) -> str | None:
    """What to say of a study that trains adapters such as LoRA and the model itself at one learning rate.

    Args:
        adapters: of the study; None is the model itself.
        lr: what all runs share; None where it is not known.
        tried: settings that each method is tried with, by a search or as arms.

    Returns:
        None where nothing is to be said: only one of the two is there, each adapter has a rate of its own, or the rates
        are tried for each.
    """
    sharing = [adapter for adapter in adapters if adapter is not None and _shares(adapter)]
    if not sharing or None not in adapters or any("lr" in setting for setting in tried):
        return None
    rate = f" of {lr:g}" if lr is not None else ""
    return (
        f"{', '.join(sharing)} and the model itself share the learning rate{rate}. LoRA's best one is about 10 times "
        f"that of full fine-tuning ({SOURCE}), so one for both favours one of them. Give adapters their own, as in "
        f"--adapter lora:r=8,lr={10 * (lr or 5e-5):g}, or search it for each with --search lr=..."
    )


def _shares(adapter: str) -> bool:
    with suppress(UsageError):  # an adapter of another version
        setting = read_adapter(adapter)
        return setting is not None and setting.lr is None and setting.kind.wants_own_rate
    return False
