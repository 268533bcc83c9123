"""The memory of a training by the names that a run takes: a model's, a method's, an adapter's."""

from __future__ import annotations

from os import PathLike
from typing import Any, cast

from torch import nn

from gradgate.adapters.languages import LanguageAdapters
from gradgate.layers import LayerMap
from gradgate.memory.configuration import Head, build, read_configuration
from gradgate.memory.estimate import Estimator, Master, Setup
from gradgate.memory.optimizer_cost import MakeOptimizer
from gradgate.memory.usage import MemoryEstimate
from gradgate.memory.workload import Precision, Weights, Workload
from gradgate.methods.base import Method
from gradgate.settings.adapter import AdapterSetting, check_stack, read_adapter, read_method_alone, titled
from gradgate.training.adapted import put_adapter

_SOURCE = "en"  # the language of a stack where no task names one


def estimate_memory(
    config_or_model: Any,
    method: Method | str = "full",
    *,
    batch_size: int = 32,
    max_length: int = 128,
    precision: str = "fp32",
    weights: Weights | None = None,
    optim: str | MakeOptimizer = "adamw_torch",
    checkpointing: bool = False,
    shards: int = 1,
    master: Master | None = None,
    adapter: str | AdapterSetting | None = None,
    language_adapters: str | LanguageAdapters | None = None,
    head: Head = "auto",
    layers: LayerMap | str | None = None,
    total_steps: int = 1000,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    trust_remote_code: bool = False,
) -> MemoryEstimate:
    """The peak of a training that is never run, counted on tensors without data; no GPU is needed.

    A step is executed on fake tensors and the bytes of the storages that are alive are counted. One layer of each kind
    (open, closed, at the bottom, ...) is executed and stands for all. Rows are full, without padding. The optimizer
    steps one parameter after the other (``foreach`` off). What a device's allocator holds in reserve, the CUDA context
    and workspaces of kernels come on top.

    Args:
        config_or_model: a folder with ``config.json``, such a file, a hub name, ``"sample"``, a configuration of
            transformers, or a model, whose own types of weights hold.
        method: a method or its text.
        batch_size: examples in one forward pass.
        max_length: tokens of each.
        precision: ``fp32``; ``bf16`` or ``fp16`` computes under autocast. ``bfloat16`` stands for
            ``weights="bfloat16"``, and so does ``bf16`` with ``master``, as only weights in 16 bits have masters.
        weights: type of the weights, by default float32.
        optim: one of Trainer's names, or a function that makes an optimizer of parameters.
        checkpointing: compute activations again in the backward pass.
        shards: FSDP2 processes over which weights, gradients, states and masters are divided; what is counted is one.
        master: as for :class:`gradgate.Tuner`.
        adapter: an adapter that is trained on the frozen model, such as ``"lora:r=32"``.
        language_adapters: frozen ones below it (MAD-X), as of a run; that of English stands for ``{language}``.
        head: what a configuration's model ends with: ``causal-lm``, ``seq2seq``, ``sequence`` or ``token``.
        layers: a layer map, or the path of the layer stack, where it cannot be found.
        total_steps: of the training; with ``steps_per_epoch`` for methods that count epochs.
        steps_per_epoch: by default all steps are one epoch.
        seed: of the method's draws.
        trust_remote_code: run code that comes with a hub model.

    Raises:
        UsageError: for a value that is out of range, or a method or adapter that is unknown or does not fit the model.
        RunError: for a configuration that is none, or a model whose steps depend on values.
    """
    setup = setup_of(
        batch_size=batch_size,
        max_length=max_length,
        precision=precision,
        weights=weights,
        optim=optim,
        checkpointing=checkpointing,
        shards=shards,
        master=master,
        total_steps=total_steps,
        steps_per_epoch=steps_per_epoch,
        seed=seed,
    )
    own = read_adapter(adapter)
    estimator = estimator_of(config_or_model, setup, own, language_adapters, head, layers, trust_remote_code)
    read = read_method_alone(method) if isinstance(method, str) else method
    return estimator.of(read, titled(str(method), None if own is None else str(own)))


def setup_of(
    *,
    batch_size: int,
    max_length: int,
    precision: str,
    weights: Any,
    optim: str | MakeOptimizer,
    checkpointing: bool,
    shards: int,
    master: Any,
    total_steps: int,
    steps_per_epoch: int | None,
    seed: int,
) -> Setup:
    """The checked settings of :func:`estimate_memory`; UsageError for one that is out of range."""
    chosen, kind = _types(precision, weights, master)
    work = Workload(batch_size, max_length, chosen, kind, checkpointing)
    return Setup(work, optim, master, shards, total_steps, steps_per_epoch, seed)


def estimator_of(
    config_or_model: Any,
    setup: Setup,
    adapter: AdapterSetting | None = None,
    language_adapters: str | LanguageAdapters | None = None,
    head: str = "auto",
    layers: LayerMap | str | None = None,
    trust_remote_code: bool = False,
) -> Estimator:
    """What estimates any method on a model; see :func:`estimate_memory`."""
    if isinstance(config_or_model, nn.Module):
        model = config_or_model
    else:
        named = isinstance(config_or_model, str | PathLike)
        config = read_configuration(str(config_or_model), trust_remote_code) if named else config_or_model
        model = build(config, setup.workload.dtype, cast(Head, head), trust_remote_code)
    if adapter is not None:
        adapter.kind.check()
        put_adapter(model, adapter, (), seed=0)
    if language_adapters is not None:
        if isinstance(language_adapters, str):
            language_adapters = LanguageAdapters(language_adapters, _SOURCE)
        check_stack(language_adapters.place, adapter, has_tapt=False)
        language_adapters.put(model)
    return Estimator(model, setup, layers)


def _types(precision: str, weights: Weights | None, master: Master | None) -> tuple[Precision, Weights]:
    """The precision of the computation and the type of the weights, of what was given."""
    short: dict[str, Weights] = {"bf16": "bfloat16", "fp16": "float16"}
    whole: tuple[Weights, ...] = ("float32", "bfloat16", "float16")
    if weights is None and precision in whole:
        return "fp32", precision
    if weights is None and master is not None and precision in short:
        return "fp32", short[precision]
    return cast(Precision, precision), weights or "float32"  # checked by Workload
