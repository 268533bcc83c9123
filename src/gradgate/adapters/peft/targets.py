"""Choose the modules of a model that get a PEFT adapter: those that are named, PEFT's own, or all linear ones."""

from __future__ import annotations

from typing import Any

from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer, check_target_module_exists
from torch import nn
from torch.nn import Parameter
from transformers.pytorch_utils import Conv1D

from gradgate.adapters.peft.options import tuner_class
from gradgate.errors import AdapterError
from gradgate.layers import map_layers

_ALL_LINEAR = "all-linear"
CHOSEN_HERE = "all linear modules of the layers"


def choose_targets(host: Any, config: Any, text: str) -> str:
    """Name the modules of a configuration that names none; return who has chosen them."""
    if not hasattr(config, "target_modules"):
        return "PEFT's own choice"
    given = config.target_modules
    if given is not None and given != _ALL_LINEAR:
        return "as given"
    settings = BaseTuner.get_model_config(host)
    kind = settings["model_type"]
    if given is None and _knows(host, config, settings):
        return f"PEFT's own choice for {kind}"
    if config.peft_type.value in ("LN_TUNING", "TRAINABLE_TOKENS"):
        raise AdapterError(
            f"PEFT has no default modules of {kind!r} models for {text!r}, which is not for linear ones. Name the "
            f"modules, "
            f"as in target_modules=LayerNorm."
        )
    config.target_modules = _linear_modules(host)
    if hasattr(config, "feedforward_modules") and config.feedforward_modules is None:
        config.feedforward_modules = []
    return CHOSEN_HERE


def _knows(host: Any, config: Any, settings: dict[str, Any]) -> bool:
    """Fill in PEFT's own modules for a type of model; return True if it has any."""
    kind = tuner_class(config.peft_type)
    tuner = kind.__new__(kind)  # for its knowledge only; nothing is put into the model
    tuner.__dict__["model"] = host
    try:
        tuner._prepare_adapter_config(config, settings)
    except ValueError:
        return False
    return config.target_modules not in (None, _ALL_LINEAR)


def _linear_modules(host: Any) -> list[str]:
    inside = {name for group in map_layers(host).layers for name in group.parameter_names}
    found = [
        name
        for name, module in host.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and f"{name}.weight" in inside
    ]
    if not found:
        raise AdapterError(
            f"The layers of {type(host).__name__} have no linear modules, so the adapter has no default place. "
            f"Name the modules, as in target_modules=query/value."
        )
    return found


def spare(host: Any, config: Any, whole: list[Parameter]) -> None:
    """Keep the adapter away from modules that are trained as a whole."""
    if not getattr(config, "target_modules", None):
        return
    ids = {id(parameter) for parameter in whole}
    hit = [
        name
        for name, module in host.named_modules()
        if any(id(parameter) in ids for parameter in module.parameters(recurse=False))
        and check_target_module_exists(config, name)
    ]
    targets = config.target_modules
    if hit and hasattr(config, "exclude_modules"):
        given = config.exclude_modules
        config.exclude_modules = [*([given] if isinstance(given, str) else given or ()), *hit]
    elif hit and not isinstance(targets, str) and set(hit) <= set(targets):
        config.target_modules = [name for name in targets if name not in hit]


def check_spared(host: Any, whole: list[Parameter], text: str) -> None:
    """Raise AdapterError if the adapter is on a module that is trained as a whole: PEFT's files cannot hold both."""
    ids = {id(parameter) for parameter in whole}
    for name, module in host.named_modules():
        if isinstance(module, BaseTunerLayer) and any(id(parameter) in ids for parameter in module.parameters()):
            raise AdapterError(
                f"{text!r} also changes {name}, which is trained in full with the head. Expected target_modules "
                f"within the layers only, such as a regular expression of their full path; name others."
            )
