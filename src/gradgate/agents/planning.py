"""Answer what can be asked before a training: which methods there are, and how much memory one takes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gradgate.agents.tool import ToolAnswer
from gradgate.errors import UsageError, nearest
from gradgate.settings.base import CheckedSettings, checked_settings
from gradgate.settings.memory import MemorySettings

SETTINGS = "further settings by the names of the command's flags, such as {example}"
_FOR_PEOPLE = {
    "trust_remote_code": "runs code that comes with a model",
    "report_to": "sends the course of a training to a tracker",
    "queue": "connects to a database, whose address a person sets as GRADGATE_QUEUE",
    "ray": "connects to a Ray cluster",
}
"""Settings that an agent may not pass, with what they do."""


class MethodsArguments(CheckedSettings):
    """The arguments of ``methods``."""

    name: str | None = Field(None, description="one method; default all")


def methods(asked: MethodsArguments) -> ToolAnswer:
    """List the methods, or one with its options."""
    from gradgate.methods import methods as catalog

    every = {info.name: info for info in catalog()}
    if asked.name is not None and asked.name not in every:
        raise UsageError(f"There is no method name={asked.name!r}.{nearest(asked.name, every)} Leave it out for all.")
    found = list(every.values()) if asked.name is None else [every[asked.name]]
    text = "\n".join(f"{info.name}: {info.summary}" for info in found)
    return ToolAnswer(text, {"methods": [info.record() for info in found]})


class MemoryArguments(CheckedSettings):
    """The arguments of ``memory``."""

    model: str = Field("sample", description="folder of a pretrained model or its config.json, or 'sample'")
    method: list[str] = Field(
        ["full"], min_length=1, description="methods or adapters, such as 'full', 'lora:r=8', 'gradual:every=50'"
    )
    batch_size: int | None = Field(None, description="rows per step")
    max_length: int | None = Field(None, description="tokens per row")
    gpu: float | None = Field(None, description="memory of the device in GiB: what fits comes first")
    settings: dict[str, Any] = Field(
        {},
        description=SETTINGS.format(example="{'optim': 'adamw_torch', 'weights': 'bfloat16', 'checkpointing': true}"),
    )


def memory(asked: MemoryArguments) -> ToolAnswer:
    """Estimate the memory of a training before it is run."""
    from gradgate.study.arms import estimated_arms

    own = {name: value for name, value in dict(asked).items() if name != "settings" and value is not None}
    settings = checked_settings(MemorySettings, joined(own, asked.settings))
    arms = estimated_arms(settings)

    from gradgate.memory import GIB
    from gradgate.memory.request import estimate_arms  # torch loads after the settings are checked
    from gradgate.training.pretrained import silence_libraries

    silence_libraries()
    found = [each.estimate for each in estimate_arms(settings, arms)]
    lines = [
        f"{each.method}: {each.peak_bytes / GIB:,.2f} GiB at its peak{_fits(each, settings.gpu)}" for each in found
    ]
    return ToolAnswer("\n".join(lines), {"estimates": [each.to_dict() for each in found]})


def _fits(estimate: Any, gpu: float | None) -> str:
    if gpu is None:
        return ""
    return f", which {'fits' if estimate.fits(gpu) else 'does not fit'} {gpu:g} GiB"


def joined(own: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool with its further settings.

    Raises:
        UsageError: for a setting that is passed twice, and for one that an agent may not pass.
    """
    twice = sorted(own.keys() & further.keys())
    if twice:
        raise UsageError(f"{twice[0]}= is also in settings=. Pass it once.")
    for name, effect in _FOR_PEOPLE.items():
        if name in further:
            raise UsageError(
                f"{name}= {effect}, and cannot be passed by an agent. Leave it out, or let a person run the command."
            )
    return {**own, **further}
