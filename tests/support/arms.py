"""Arms and adapters from their texts, for tests that need them as objects."""

from __future__ import annotations

from collections.abc import Iterable

from gradgate.settings.arms.adapter import AdapterSetting, read_adapter
from gradgate.settings.arms.arm import Arm, read_arm


def arms(texts: Iterable[str]) -> list[Arm]:
    return [read_arm(text) for text in texts]


def adapters(texts: Iterable[str | None]) -> list[AdapterSetting | None]:
    return [read_adapter(text) for text in texts]


def names(found: Iterable[Arm]) -> list[str]:
    return [arm.name for arm in found]
