"""Refuse settings that a user passed although another one leaves them without effect."""

from __future__ import annotations

from collections.abc import Iterable

from gradgate.errors import UsageError
from gradgate.methods.fixed import Probe
from gradgate.settings.arms.arm import OF_A_PROBE
from gradgate.settings.arms.own_settings import OWN_SETTINGS, TAPT_LENGTHS
from gradgate.settings.base import passed
from gradgate.settings.run import RunConfig

UNUSED_BY_A_PROBE = ("epochs", "steps", "optim", *(name for name in OWN_SETTINGS if name not in OF_A_PROBE))


def check_unused(asked: RunConfig) -> None:
    """Raise UsageError for a number format, a cache or a model file that was asked for and cannot come about.

    Defaults do not count, nor do the settings of a folder that an earlier version began.
    """
    if asked.master == "none" and asked.weights != "bfloat16":
        raise UsageError(
            "master='none' has no effect on weights in float32, which the optimizer updates themselves. Pass "
            "weights='bfloat16' too, or leave it out."
        )
    for name in ("activation_cache_size", "activation_cache_dtype"):
        value = getattr(asked, name)
        if value != RunConfig.model_fields[name].default and asked.activation_cache == "off":
            raise UsageError(f"{name}={value!r} has no effect with activation_cache='off'. Leave one of them out.")
    if asked.store != "auto" and not asked.keep_model:
        raise UsageError(
            f"store={asked.store!r} has no effect with keep_model=False, which stores no model. Leave one of them out."
        )


def check_unused_by_probe(asked: RunConfig) -> None:
    """Raise UsageError for a setting of the training steps that was passed for a probe, which takes none."""
    unused = [f"{name}={value}" for name, value in passed(asked).items() if name in UNUSED_BY_A_PROBE]
    if isinstance(asked.method, Probe) and unused:
        raise UsageError(
            f"{unused[0]} has no effect on {asked.method.spec!r}, which takes no training steps: it fits the head on "
            f"the pretrained model. Leave it out."
        )


def check_searched(search: Iterable[str], asked: RunConfig) -> None:
    """Raise UsageError for a setting that is searched for every method and that was passed for all of them too."""
    given = passed(asked)
    for name in (text.partition("=")[0].strip().replace("-", "_") for text in search):
        alike = TAPT_LENGTHS if name in TAPT_LENGTHS else (name,)
        for other in alike:
            if other in given:
                raise UsageError(
                    f"search={name!r} tries its own values for every method, so that {other}={given[other]} has no "
                    f"effect. Leave one of them out."
                )
