"""Choose methods and rates that are worth trying on a model and its data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.util import find_spec

from gradgate.errors import UsageError
from gradgate.methods.fixed import CLASSIFICATION
from gradgate.settings.arms.arm import Arm, read_arm

PEFT = "peft"
_RATES = ((10_000_000, 1e-3), (50_000_000, 2e-4), (150_000_000, 5e-5), (1_000_000_000, 2e-5))
_LEAST_RATE = 1e-5
_ADAPTER_FACTOR, _HEAD_FACTOR, _FREEZE_FACTOR = 10, 20, 2
_MANY_LAYERS = 12
_GRADUAL_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model and data to choose methods for.

    Args:
        layers: of the model, 1 or more.
        parameters: of the model, 1 or more.
        steps: optimizer steps of one run, 1 or more.
        kind: of the task, as ``classification`` or ``generation``.
        is_multitask: whether several tasks are trained at once, which takes no adapter.
        quantization: the method that the model is quantized with; None for a model that is not.
        installed: optional packages that can be imported.

    Raises:
        UsageError: for a number that is out of range.
    """

    layers: int
    parameters: int
    steps: int
    kind: str = "classification"
    is_multitask: bool = False
    quantization: str | None = None
    installed: Collection[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        wrong = [
            f"{name}={getattr(self, name)}" for name in ("layers", "parameters", "steps") if getattr(self, name) < 1
        ]
        if wrong:
            raise UsageError(f"Nothing can be recommended for {', '.join(wrong)}: expected 1 or more of each.")


@dataclass(frozen=True)
class LeftOut:
    """An arm that is not tried, and the reason."""

    arm: str
    reason: str

    def __str__(self) -> str:
        return f"{self.arm} is left out: {self.reason}"


@dataclass(frozen=True)
class Portfolio:
    """The arms to try.

    Attributes:
        lr: peak learning rate of every arm that has none of its own.
        arms: the first is full fine-tuning, or LoRA on a quantized model.
        left_out: what is not tried.
    """

    lr: float
    arms: tuple[Arm, ...]
    left_out: tuple[LeftOut, ...] = ()


def installed_packages() -> frozenset[str]:
    """Return the installed optional packages of a portfolio, without importing them."""
    return frozenset(name for name in (PEFT,) if find_spec(name) is not None)


def usual_rate(parameters: int) -> float:
    """Return the usual peak learning rate of full fine-tuning for a number of parameters.

    Source:
        BERT (Devlin et al. 2019), App. A.3, 2e-5 to 5e-5 for 110 M and 340 M: https://arxiv.org/abs/1810.04805
        Differs: smaller models have higher rates; 1e-3 is what the embedded ones are trained with.
    """
    return next((rate for below, rate in _RATES if parameters < below), _LEAST_RATE)


def portfolio(subject: Subject, lr: float | None = None) -> Portfolio:
    """Return arms for a model and its data: full fine-tuning, a probe, the head, freezing, unfreezing, adapters.

    A probe and the head are always there for classification. The fewer weights learn, the higher is the rate:
    adapters have ten times that of full fine-tuning, LoRA's best one being about that much higher; the head has twenty
    times, and freezing twice. On a quantized model, which learns by adapters of PEFT alone, it is LoRA with schedules.

    Args:
        subject: the model and its data.
        lr: peak learning rate of full fine-tuning; by default the usual one for the model's size.

    Source:
        Ten times: LoRA Without Regret (Schulman et al. 2025), https://thinkingmachines.ai/blog/lora/
    """
    lr = usual_rate(subject.parameters) if lr is None else lr
    if subject.quantization is not None:
        return _on_quantized(subject, lr)
    rate = f"lr={_ADAPTER_FACTOR * lr:g}"
    arms = ["full", *_heads(subject, lr), *_freezing(subject.layers, lr), *_schedules(subject)]
    left_out = _unfit_schedules(subject)
    bottlenecks = [f"houlsby:size=64,{rate}", f"pfeiffer:reduction=16,{rate}"]
    adapters = [f"lora:r=8,{rate}", *([] if subject.kind == "generation" else bottlenecks)]
    for adapter in adapters:
        reason = _refusal(adapter, subject)
        if reason is None:
            arms.append(adapter)
        else:
            left_out.append(LeftOut(adapter, reason))
    return Portfolio(lr, tuple(map(read_arm, arms)), tuple(left_out))


def _on_quantized(subject: Subject, lr: float) -> Portfolio:
    """Return LoRA of two ranks, and the smaller one with schedules."""
    rate = f"lr={_ADAPTER_FACTOR * lr:g}"
    lora = f"lora:r=8,{rate}"
    left_out = [
        LeftOut(
            "methods without a PEFT adapter",
            f"the model is quantized ({subject.quantization}), so its matrices cannot learn.",
        ),
        *_unfit_schedules(subject),
    ]
    reason = _refusal(lora, subject)
    if reason is not None:
        return Portfolio(lr, (), (*left_out, LeftOut(lora, reason)))
    scheduled = [f"{lora} + {method}" for method in (*_schedules(subject), "layerwise-lr")]
    arms = (lora, f"lora:r=32,{rate}", *scheduled)
    return Portfolio(lr, tuple(map(read_arm, arms)), tuple(left_out))


def _schedules(subject: Subject) -> list[str]:
    """Return methods that open layers, or parts of them, step by step."""
    found = []
    if subject.layers > 1:
        every = max(1, round(_GRADUAL_SHARE * subject.steps / subject.layers))
        found.append(f"gradual:every={every}")
    found.append("graddrop:p=0.2")
    if subject.layers >= _MANY_LAYERS:
        found.append(f"lisa:layers=2,every={max(1, min(20, subject.steps // subject.layers))}")
    return found


def _unfit_schedules(subject: Subject) -> list[LeftOut]:
    if subject.layers >= _MANY_LAYERS:
        return []
    reason = f"it is meant for models with at least {_MANY_LAYERS} layers, and this one has {subject.layers}."
    return [LeftOut("lisa", reason)]


def _heads(subject: Subject, lr: float) -> list[str]:
    """Return arms that leave the pretrained layers as they are."""
    if subject.kind != CLASSIFICATION:
        return []
    return ["probe", f"head:lr={_HEAD_FACTOR * lr:g}"]


def _freezing(layers: int, lr: float) -> list[str]:
    """Return arms that freeze about a third and two thirds of the layers."""
    counts = {round(layers / 3), round(2 * layers / 3)} - {0, layers}
    return [f"freeze:layers={count},lr={_FREEZE_FACTOR * lr:g}" for count in sorted(counts)]


def _refusal(adapter: str, subject: Subject) -> str | None:
    """Return why an adapter cannot be tried, as far as is known without the model; None if it can."""
    if subject.is_multitask:
        return "adapters cannot be trained on several tasks at once."
    if adapter.startswith("lora") and PEFT not in subject.installed:
        return "it needs PEFT, which is not installed: pip install 'gradgate[peft]'."
    return None
