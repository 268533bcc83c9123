"""Stand-ins for axolotl and LLaMA-Factory: what their own code does with a plugin or a callback, and nothing else.

They follow ``axolotl.integrations.base`` and ``axolotl.core.builders.base`` of axolotl 0.18.0, and
``llamafactory.train.tuner`` of LLaMA-Factory 0.9.6.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from transformers import Trainer, TrainerCallback


class BasePlugin:
    """The hooks of a plugin that a training calls."""

    def get_input_args(self) -> str | None:
        return None

    def add_callbacks_pre_trainer(self, cfg: Any, model: Any) -> list[Any]:
        return []

    def add_callbacks_post_trainer(self, cfg: Any, trainer: Any) -> list[Any]:
        return []


class Config(dict[str, Any]):
    """A configuration whose keys are attributes; absent ones are None, as in axolotl's DictDefault."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


def train_with_axolotl(file: Path, build: Callable[[list[Any]], Trainer]) -> Trainer:
    """Load the plugins of a configuration, check its keys, build a trainer with their callbacks, and train."""
    given = yaml.safe_load(file.read_text())
    plugins = [_named(name)() for name in given["plugins"]]
    checked = Config(given)
    for plugin in plugins:
        arguments = plugin.get_input_args()
        if arguments is not None:
            checked.update(_named(arguments)(**given).model_dump())
    trainer = build([each for plugin in plugins for each in plugin.add_callbacks_pre_trainer(checked, None) or []])
    for plugin in plugins:
        for each in plugin.add_callbacks_post_trainer(checked, trainer) or []:
            trainer.add_callback(each)
    trainer.train()
    return trainer


def _named(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


class _OwnCallback(TrainerCallback):
    """What LLaMA-Factory appends to a list of callbacks."""


def run_exp_of(build: Callable[[list[Any]], Trainer], read: list[Any]) -> Callable[..., None]:
    """Return ``run_exp``, which appends the configuration that it read to ``read``."""

    def run_exp(args: dict[str, Any] | None = None, callbacks: list[Any] | None = None) -> None:
        read.append(yaml.safe_load(Path(sys.argv[1]).read_text()) if args is None else args)
        callbacks = callbacks or []
        callbacks.append(_OwnCallback())
        build(callbacks).train()

    return run_exp


def put_module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """Let a module be imported, with its packages."""
    parts = name.split(".")
    for place in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:place]), ModuleType(".".join(parts[:place])))
    vars(sys.modules[name]).update(content)
