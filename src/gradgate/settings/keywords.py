"""Name the settings of each request for type checkers; ``tools/write_keywords.py`` writes this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from peft import PeftConfig

    from gradgate.settings.arms.adapter import AdapterSetting


class TrainingKeywords(TypedDict, total=False):
    """The settings that every training has; None means not passed."""

    data: str | PathLike[str] | None
    mix: str | None
    text: str | None
    text_pair: str | None
    label: str | None
    kind: str | None
    train_file: str | PathLike[str] | None
    dev_file: str | PathLike[str] | None
    test_file: str | PathLike[str] | None
    split: str | None
    languages: str | Sequence[str] | None
    source: str | None
    dev_size: int | None
    max_length: int | None
    packing: bool | None
    open_new_tokens: bool | None
    tapt_steps: int | None
    tapt_epochs: float | None
    tapt_batch: int | None
    frozen_dropout: bool | None
    trust_remote_code: bool | None
    epochs: float | None
    batch_size: int | None
    accumulate: int | None
    lr: float | None
    lr_scale: Mapping[str, float] | Sequence[str] | None
    schedule: Literal["linear", "constant", "cosine"] | None
    warmup: float | None
    weight_decay: float | None
    clip: float | None
    dropout: float | None
    class_weights: Literal["balanced"] | None
    device: Literal["auto", "cpu", "cuda"] | None
    threads: int | None
    precision: Literal["fp32", "bf16", "fp16"] | None
    master: Literal["float32", "none"] | None
    checkpointing: bool | None
    release_gradients: bool | None
    activation_cache: str | None
    activation_cache_dtype: Literal["model", "bfloat16"] | None
    activation_cache_size: float | None
    metric: str | None
    skip_test: bool | None
    test_each_epoch: bool | None
    max_new_tokens: int | None
    audit: bool | None
    track: str | None
    forgetting: str | None
    keep_checkpoints: bool | None
    store: Literal["auto", "delta", "model"] | None


class RunKeywords(TrainingKeywords, total=False):
    """The settings of a ``RunConfig``; None means not passed."""

    train_size: int | None
    adapter: str | AdapterSetting | PeftConfig | None
    head: Literal["fresh", "keep"] | None
    layers: str | None
    language_adapters: str | None
    seed: int | None
    steps: int | None
    optim: str | None
    weights: Literal["float32", "bfloat16"] | None
    fsdp: bool | None
    eval_every: int | None
    save_every: int | None
    keep_model: bool | None
    report_to: str | Sequence[str] | None


class CompareKeywords(TrainingKeywords, total=False):
    """The settings of a ``CompareSettings``; None means not passed."""

    train_size: int | str | Sequence[int | str] | None
    adapter: str | AdapterSetting | PeftConfig | Sequence[str | AdapterSetting | PeftConfig | None] | None
    sweep: str | None
    head: Literal["fresh", "keep"] | None
    layers: str | None
    language_adapters: str | None
    steps: int | None
    optim: str | None
    weights: Literal["float32", "bfloat16"] | None
    eval_every: int | None
    search: str | Sequence[str] | Mapping[str, Sequence[object]] | None
    trials: int | None
    search_seeds: int | None
    prune: bool | None
    budget: float | None
    budget_steps: int | None
    budget_time: str | None
    queue: str | None
    workers: int | None
    ray: str | None
    gpus_per_run: float | None
    grace: int | None
    seeds: int | str | Sequence[int] | None
    save_every: int | None
    keep_model: bool | None
    report_to: str | Sequence[str] | None


class RecommendKeywords(TrainingKeywords, total=False):
    """The settings of a ``RecommendSettings``; None means not passed."""

    train_size: int | None
    head: Literal["fresh", "keep"] | None
    layers: str | None
    language_adapters: str | None
    steps: int | None
    optim: str | None
    weights: Literal["float32", "bfloat16"] | None
    eval_every: int | None
    minutes: float | None
    seeds: int | str | Sequence[int] | None
    train: bool | None
    save_every: int | None
    keep_model: bool | None
    report_to: str | Sequence[str] | None


class ImportKeywords(TypedDict, total=False):
    """The settings of a ``ImportSettings``; None means not passed."""

    arm: str | Sequence[str] | None
    score: str | Sequence[str] | None
    seed: str | Sequence[str] | None
    task: str | Sequence[str] | None
    model: str | Sequence[str] | None
    split: str | None
    step: str | None
    metric: str | None
    rows: str | None
    cost: str | Sequence[str] | None
    lower_is_better: bool | None
    reference: str | None
    pair: str | None


class EvaluateKeywords(TypedDict, total=False):
    """The settings of a ``EvaluateSettings``; None means not passed."""

    data: str | PathLike[str] | None
    trust_remote_code: bool | None
    text: str | None
    text_pair: str | None
    of_task: str | None
    task: str | None
    label: str | None
    languages: tuple[str, ...] | None


class PredictKeywords(TypedDict, total=False):
    """The settings of a ``PredictSettings``; None means not passed."""

    data: str | PathLike[str] | None
    trust_remote_code: bool | None
    text: str | None
    text_pair: str | None
    of_task: str | None
    keep: str | Sequence[str] | None
    language: str | None
    batch_size: int | None


class PlanKeywords(TrainingKeywords, total=False):
    """The settings of a ``PlanSettings``; None means not passed."""

    task: str | None
    train_size: int | None
    adapter: str | AdapterSetting | PeftConfig | None
    head: Literal["fresh", "keep"] | None
    layers: str | None
    language_adapters: str | None
    seed: int | None
    steps: int | None
    optim: str | None
    weights: Literal["float32", "bfloat16"] | None


class MemoryKeywords(TrainingKeywords, total=False):
    """The settings of a ``MemorySettings``; None means not passed."""

    task: str | None
    train_size: int | None
    head: Literal["auto", "causal-lm", "seq2seq", "sequence", "token"] | None
    seed: int | None
    weights: Literal["float32", "bfloat16"] | Literal["nf4", "int8", "fp8"] | None
    shards: int | None
    steps_per_epoch: int | None
    gpu: float | None
    eval_every: int | None
    save_every: int | None
    keep_model: bool | None
