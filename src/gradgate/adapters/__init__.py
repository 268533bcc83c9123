"""Attach bottleneck and invertible adapters to models of transformers 5, in the file format of AdapterHub.

    adapters.add(model, "task", "pfeiffer:reduction=16")   # frozen base, trainable adapter and head
    adapters.load(model, "folder-or-hub-name")             # returns the name
    adapters.activate(model, "lang", "task")               # a stack, from the bottom
    adapters.switch(model, "other-lang")                   # another adapter at its bottom
    adapters.save(model, "task", "folder")
    adapters.remove(model)                                 # the model as it was

A tuner never opens what is frozen when it attaches, so with adapters its groups hold the adapters of each layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.adapters.config import KINDS, AdapterConfig, adapter_config
from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.adapters.architectures import ARCHITECTURES
    from gradgate.adapters.callback import AdapterCallback
    from gradgate.adapters.drop import RandomDrop, layers_dropped
    from gradgate.adapters.files import load, load_setup, restore, save, save_setup
    from gradgate.adapters.stack import activate, active, add, added, parameters, remove, switch, train

__all__ = [
    "ARCHITECTURES",
    "KINDS",
    "AdapterCallback",
    "AdapterConfig",
    "RandomDrop",
    "activate",
    "active",
    "adapter_config",
    "add",
    "added",
    "layers_dropped",
    "load",
    "load_setup",
    "parameters",
    "remove",
    "restore",
    "save",
    "save_setup",
    "switch",
    "train",
]

# Adapter settings are checked without torch, and a plain training loop does not need Trainer's callbacks.
_STACK = ("activate", "active", "add", "added", "parameters", "remove", "switch", "train")
_FILES = ("load", "load_setup", "restore", "save", "save_setup")
__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_STACK, "gradgate.adapters.stack")
    | dict.fromkeys(_FILES, "gradgate.adapters.files")
    | dict.fromkeys(("RandomDrop", "layers_dropped"), "gradgate.adapters.drop")
    | {"ARCHITECTURES": "gradgate.adapters.architectures", "AdapterCallback": "gradgate.adapters.callback"},
)
