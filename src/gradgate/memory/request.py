"""Estimate the memory of a training from the settings of a run: model, method, adapter and more."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from gradgate.adapters.languages import LanguageAdapters
from gradgate.errors import UsageError
from gradgate.layers import LayerMap
from gradgate.memory.configuration import build, read_configuration
from gradgate.memory.estimate import Estimator, Setup
from gradgate.memory.optimizer_cost import MakeOptimizer
from gradgate.memory.usage import MemoryEstimate
from gradgate.memory.workload import Workload
from gradgate.methods.base import Method
from gradgate.settings.arms.adapter import AdapterSetting, check_stack
from gradgate.settings.arms.arm import Arm, read_arm
from gradgate.settings.base import checked_settings, passed
from gradgate.settings.data import names_a_task
from gradgate.settings.keywords import MemoryKeywords
from gradgate.settings.memory import MemorySettings, head_of
from gradgate.settings.run import RunConfig
from gradgate.settings.signature import takes
from gradgate.tasks.multitask import is_multitask
from gradgate.tasks.types import MultipleChoiceOptions
from gradgate.training.adapted import put_adapter
from gradgate.training.named_tasks import find_task_of
from gradgate.training.pretrained import load_bare

_NO_STACK = {"language_adapters": None}
_SOURCE = "en"  # the language of a stack where no task names one
_OPTIMIZER = "adamw_torch"


@takes(MemorySettings, MemoryKeywords)
def estimate_memory(
    config_or_model: Any,
    method: Arm | Method | str = "full",
    *,
    optim: str | MakeOptimizer | None = None,
    adapter: str | AdapterSetting | None = None,
    language_adapters: str | LanguageAdapters | None = None,
    layers: LayerMap | str | None = None,
    total_steps: int | None = None,
    **settings: Unpack[MemoryKeywords],
) -> MemoryEstimate:
    """Estimate the peak of a training without running it. No GPU is needed.

    A step is executed on fake tensors and the bytes of the live storages are counted. One layer of each kind (open,
    closed, at the bottom, ...) is executed and represents all. Rows are full, without padding. The optimizer steps one
    parameter at a time (``foreach`` off). A multiple-choice question has one row per choice of the named task, or two
    rows if only ``kind`` is passed. The scoring of dev, in batches of 64 rows or more, counts if a task or kind other
    than generation is named. The reserve of a device's allocator, the CUDA context and workspaces of kernels come on
    top; ``fits`` leaves 1 GiB for them. What ``spectrum`` opens is chosen by the weights, if there are any on this
    machine and they are few enough to measure (268 million); else, and for a method that measures on data, the
    costliest of several choices is estimated (``choice``). The settings have the same meaning as in
    :func:`gradgate.train`.

    Args:
        config_or_model: a folder with ``config.json``, such a file, a hub name, ``"sample"``, a configuration of
            transformers, or a model, whose weights keep their dtypes.
        method: a method or an adapter, or its text, such as ``"lora:r=32"``.
        optim: one of Trainer's names, or a function that makes an optimizer of parameters.
        adapter: an adapter that is trained on the frozen model, such as ``"lora:r=32"``.
        language_adapters: frozen ones below it (MAD-X), as in a run; ``{language}`` is replaced by English.
        layers: a layer map, or the path of the layer stack if it is not detected.
        total_steps: of the training, 1000 by default; with ``steps_per_epoch`` for methods that count epochs.

    Raises:
        UsageError: for a value that is out of range, or a method or adapter that is unknown or does not fit the model.
        RunError: for an invalid configuration, or a model whose control flow depends on values.
    """
    named = {"steps": total_steps, "optim": optim if isinstance(optim, str) else None}
    asked = checked_settings(MemorySettings, {**settings, **named})
    arm = read_arm(method)
    run = asked.run(method=arm, adapter=adapter)
    estimator = estimator_of(asked.with_own(arm), config_or_model, run.adapter, optim, language_adapters, layers)
    return estimator.of(run.method, Arm(run.method, run.adapter, arm.overrides).name)


def estimate_run(config: RunConfig, kind: str, source: str | None = None) -> MemoryEstimate:
    """Estimate the peak of a run.

    Args:
        config: of the run.
        kind: of its task.
        source: language that the task trains in.

    Raises:
        GradgateError: for a model or an adapter whose memory cannot be estimated.
    """
    asked, languages = MemorySettings.of(config, kind).with_own(config.arm), None
    if config.language_adapters is not None and config.adapter is not None and source is not None:
        languages = LanguageAdapters(config.language_adapters, source)
    choices = _choices(config, kind)
    estimator = estimator_of(asked, asked.model, config.adapter, asked.optim, languages, choices=choices)
    return estimator.of(config.method, config.arm.name)


class ArmEstimate(NamedTuple):
    """The estimate of one arm, and what made it."""

    arm: Arm
    estimate: MemoryEstimate
    estimator: Estimator


def estimate_arms(asked: MemorySettings, arms: Sequence[Arm]) -> list[ArmEstimate]:
    """Estimate several arms on one model; what fits ``asked.gpu`` comes first, the least memory on top.

    Args:
        asked: what all arms share.
        arms: to estimate.

    Raises:
        GradgateError: for a model or an adapter whose memory cannot be estimated.
    """
    own = {arm: asked.with_own(arm) for arm in arms}
    if any(arm.adapter is not None for arm in arms):  # as in a comparison, where the others have no stack
        plain = [arm for arm in arms if arm.adapter is None]
        # A copy would count each setting as passed, a task too.
        own |= {arm: checked_settings(MemorySettings, passed(own[arm]) | _NO_STACK) for arm in plain}
    shared = {arm: (arm.adapter, own[arm].precision, own[arm].weights, *arm.overrides.items()) for arm in arms}
    estimators = {each: estimator_of(own[arm], asked.model, arm.adapter) for arm, each in shared.items()}
    found = []
    for arm, each in shared.items():
        estimator = estimators[each]
        found.append(ArmEstimate(arm, estimator.of(arm.method, arm.name), estimator))
    if (gpu := asked.gpu) is not None:
        found.sort(key=lambda each: (not each.estimate.fits(gpu), each.estimate.peak_bytes))
    return found


def estimator_of(
    asked: MemorySettings,
    config_or_model: Any,
    adapter: AdapterSetting | None = None,
    optim: str | MakeOptimizer | None = None,
    language_adapters: str | LanguageAdapters | None = None,
    layers: LayerMap | str | None = None,
    choices: int | None = None,
) -> Estimator:
    """Return an estimator of any method on a model; see :func:`estimate_memory`.

    ``choices`` are those of a question, by default of the requested task.
    """
    run = asked.run() if names_a_task(asked) else None
    kind = None if run is None else kind_of(run)
    work = _workload(asked, choices or (1 if run is None else _choices(run, kind)))
    optimizer = optim or asked.optim or _OPTIMIZER
    scores = kind not in (None, "generation")  # which scores in batches as small as those of training
    setup = Setup(work, optimizer, asked.master, asked.shards, asked.steps, asked.epoch, asked.seed, scores)
    source = None
    if isinstance(config_or_model, nn.Module):
        has_adapters = adapter is not None or (language_adapters or asked.language_adapters) is not None
        model = _without_data(config_or_model) if has_adapters else config_or_model
        if work.quantization is not None:
            raise UsageError(
                f"weights={work.weights!r} and a model cannot be combined: a model's weights keep their types. Pass "
                f"its configuration or folder instead."
            )
    else:
        named, trusted = isinstance(config_or_model, str | PathLike), asked.trust_remote_code
        source = str(config_or_model) if named else None
        config = read_configuration(str(config_or_model), trusted) if named else config_or_model
        head = head_of(kind) if asked.head == "auto" and kind is not None else asked.head
        model = build(config, work.dtype, head, trusted)
    if adapter is not None:
        adapter.kind.check()
        put_adapter(model, adapter, (), seed=0)
    language_adapters = language_adapters or asked.language_adapters
    if language_adapters is not None:
        if isinstance(language_adapters, str):
            language_adapters = LanguageAdapters(language_adapters, _SOURCE)
        check_stack(language_adapters.place, adapter, has_tapt=False)
        language_adapters.put(model)
    return Estimator(model, setup, layers or asked.layers, source)


def _workload(asked: MemorySettings, choices: int) -> Workload:
    return Workload(
        asked.batch_size,
        asked.max_length,
        asked.precision,
        asked.weights or "float32",
        bool(asked.checkpointing),
        asked.accumulate,
        bool(asked.release_gradients),
        choices,
    )


def _without_data(model: nn.Module) -> nn.Module:
    """Return a copy of a model with tensors on the meta device, which an adapter can be put into."""
    tensors: dict[int, Tensor] = {id(each): each.to("meta") for each in model.buffers()}
    for each in model.parameters():
        tensors[id(each)] = nn.Parameter(each.detach().to("meta"), requires_grad=each.requires_grad)
    return copy.deepcopy(model, {**tensors})


def _choices(config: RunConfig, kind: str | None) -> int:
    """Return the rows of tokens that an example has: one for each choice of a question, else one."""
    if kind != "multiple-choice":
        return 1
    options = find_task_of(config).options
    return len(options.choices) if isinstance(options, MultipleChoiceOptions) else 1


def structure_of(config: RunConfig, *, has_task: bool) -> nn.Module:
    """Return the model that a run would train, on the meta device: with its task's head and its adapter.

    Args:
        config: of the run.
        has_task: whether the task was passed; else the model gets a classifier if it can have one.

    Raises:
        GradgateError: for a model that cannot be built, or an adapter that does not fit it.
    """
    if has_task:
        known = read_configuration(config.model, config.trust_remote_code)
        model = build(known, torch.float32, head_of(kind_of(config)), config.trust_remote_code)
    else:
        model = load_bare(config.model, config.trust_remote_code)
    if config.adapter is not None:
        config.adapter.kind.check()
        put_adapter(model, config.adapter, (), seed=0)
    return model


def writes_text(model: str, trust_remote_code: bool) -> bool:
    """Return True for a decoder that continues text, by its configuration."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    known = read_configuration(model, trust_remote_code)
    kind = type(known)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


def kind_of(config: RunConfig) -> str:
    """Return the kind of the task of a configuration; ``classification`` for several tasks."""
    if config.kind is not None:
        return config.kind
    return "classification" if is_multitask(config.task) else find_task_of(config).kind
