"""The settings of a run as keyword arguments: typed, and the same as the flags of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeVar

from typing_extensions import TypedDict

from gradgate.settings.run import RunConfig

Path = str | PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])


class SharedSettings(TypedDict, total=False):
    """The settings that one run has and that all runs of a study share; None means not given."""

    layers: str | None
    data: Path | None
    mix: str | None
    text: str | None
    text_pair: str | None
    label: str | None
    kind: str | None
    metric: str | None
    train_file: Path | None
    dev_file: Path | None
    test_file: Path | None
    split: str | None
    languages: str | Sequence[str] | None
    source: str | None
    dev_size: int | None
    max_length: int | None
    packing: bool | None
    max_new_tokens: int | None
    open_new_tokens: bool | None
    language_adapters: str | None
    tapt_steps: int | None
    tapt_epochs: float | None
    tapt_batch: int | None
    epochs: float | None
    steps: int | None
    batch_size: int | None
    accumulate: int | None
    optim: str | None
    lr: float | None
    lr_scale: Mapping[str, float] | Sequence[str] | None
    schedule: Literal["linear", "constant", "cosine"] | None
    warmup: float | None
    weight_decay: float | None
    clip: float | None
    dropout: float | None
    frozen_dropout: bool | None
    eval_every: int | None
    save_every: int | None
    device: Literal["auto", "cpu", "cuda"] | None
    threads: int | None
    precision: Literal["fp32", "bf16", "fp16"] | None
    weights: Literal["float32", "bfloat16"] | None
    master: Literal["float32", "none"] | None
    checkpointing: bool | None
    release_gradients: bool | None
    skip_test: bool | None
    test_each_epoch: bool | None
    audit: bool | None
    track: str | None
    forgetting: str | None
    trust_remote_code: bool | None
    keep_model: bool | None
    keep_checkpoints: bool | None
    activation_cache: str | None
    activation_cache_dtype: Literal["model", "bfloat16"] | None
    activation_cache_size: float | None


class StoredSettings(SharedSettings, total=False):
    """The same, with how many rows are trained on and how the model is kept."""

    train_size: int | None
    store: Literal["auto", "delta", "model"] | None


class RunSettings(StoredSettings, total=False):
    """The settings that one run alone has as well."""

    adapter: str | None
    seed: int | None
    fsdp: bool | None


def takes(settings: Any) -> Callable[[Function], Function]:
    """Give a function with ``**settings`` the signature and the docstring that name each of them.

    Notebooks complete and show the names; a type checker reads them from the ``TypedDict`` itself.

    Args:
        settings: the ``TypedDict`` of them.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        plain = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = [name for name in RunConfig.model_fields if name in settings.__annotations__]
        flags = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=settings.__annotations__[name].__forward_arg__,
            )
            for name in names
        ]
        described: Any = function
        described.__signature__ = own.replace(parameters=[*plain, *flags])
        text = inspect.cleandoc(function.__doc__ or "")
        lines = [f"    {name}: {_described(name)}" for name in names]
        function.__doc__ = "\n".join([text, "", "Keyword Args:", *lines])
        return function

    return decorate


def _described(name: str) -> str:
    """What a setting does, and its default where it has one."""
    field = RunConfig.model_fields[name]
    default = "" if field.default is None else f" [default: {field.default}]"
    return f"{str(field.description).replace('*', '')}{default}."
