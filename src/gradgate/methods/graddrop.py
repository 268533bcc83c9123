"""Drop a random part of the gradient at each step: single elements or whole layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.mixins import HasStateOption, HasUnitOption
from gradgate.methods.options import acts_if
from gradgate.methods.plan import OPEN, Gate, Plan
from gradgate.methods.traits import MethodState, Traits

MaskTarget = Literal["grad", "update"]
Anneal = Literal["linear", "literal"]
Dropout = Literal["on", "off"]
PAPER = "GradDrop (Gradient Sparsification for Masked Fine-Tuning of Transformers, O'Neill and Dutta 2023)"
LINK = "https://arxiv.org/abs/2307.10098"


class _HasDropoutOption(Method):
    """A method with noise on the gradients, which may replace ordinary dropout."""

    dropout: Dropout

    @property
    def traits(self) -> Traits:
        return replace(super().traits, dropout_off=self.dropout == "off")


_NOT_CLOSED = "keep with mask_target=grad, under which the optimizer moves a dropped layer, too"


@dataclass(frozen=True, kw_only=True)
class GradDrop(_HasDropoutOption):
    """Set a fresh random share ``p`` of every layer's gradient to zero at each step; divide the rest by ``1 - p``.

    The embeddings and the head are never masked. Under Adam the factor ``1 / (1 - p)`` nearly cancels; it acts
    through gradient clipping and epsilon.

    Args:
        p: share of gradient elements to drop, in [0, 1).
        mask_target: ``grad`` masks the gradient, so that momentum and weight decay may still move a masked
            weight; ``update`` holds masked weights bit-identical through the step.
        mask_scope: ``encoder`` masks every parameter of the layers; ``attention`` only the weight matrices of
            their attention modules.
        noise: ``bernoulli`` drops; ``gaussian`` multiplies each element by a normal number with mean 1 and the same
            variance, ``p / (1 - p)``.
        dropout: ``off`` sets ordinary dropout to 0 while the method trains, as in all masked runs of the paper
            (Sec. IV), where only standard fine-tuning has dropout, with the rate ``p``; ``on`` leaves the model's.
    """

    name: ClassVar[str] = "graddrop"
    summary: ClassVar[str] = "a random share p of the layers' gradient elements is dropped at each step"
    source: ClassVar[str] = f"{PAPER}, Eq. 3 and 4, Sec. III-A: {LINK}"
    deviates: ClassVar[str] = "The paper trains without ordinary dropout (dropout=off)."

    p: float = 0.2
    mask_target: MaskTarget = "grad"
    mask_scope: Literal["encoder", "attention"] = "encoder"
    noise: Literal["bernoulli", "gaussian"] = "bernoulli"
    dropout: Dropout = "on"

    def __post_init__(self) -> None:
        self._require(
            p=(0.0 <= self.p < 1.0, "0 <= p < 1; at 1 nothing would ever learn"),
            mask_target=(
                self.noise == "bernoulli" or self.mask_target == "grad",
                "'grad' with noise=gaussian, which holds no weight",
            ),
        )

    def check(self, layers: LayerMap) -> None:
        gate = Gate(scope=self.mask_scope)
        if not any(gate.masks(name, dim=2) for group in layers.layers for name in group.parameter_names):
            raise MethodError(
                f"{self} masks nothing in {layers.model}: none of its layers has a module whose name ends in "
                f"'attn', 'attention' or 'attentions'. Use mask_scope=encoder."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        if self.noise == "gaussian":
            std = (self.p / (1.0 - self.p)) ** 0.5
            gate = Gate(noise=std, stream=self.name, draw=clock.step, each_step=True, hold=False)
        else:
            gate = element_gate(self.p, clock.step, self.name, self.mask_target)
        return masked_layers(replace(gate, scope=self.mask_scope), layers)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None


@dataclass(frozen=True, kw_only=True)
class LayerGradDrop(_HasDropoutOption, HasStateOption, HasUnitOption):
    """Drop each layer's whole gradient with probability ``p``, drawn again for each step or epoch.

    The embeddings and the head always learn. A dropped layer computes no gradient at all.

    Args:
        p: probability that a layer is dropped, in [0, 1).
        mask_target: ``grad`` gives the optimizer a gradient of zero, so that momentum and weight decay may still
            move the layer; ``update`` leaves the layer bit-identical.
        layer_scale: divide the gradient of a kept layer by ``1 - p``; the paper states no factor.
        layer_unit: draw once per ``batch`` (optimizer step) or once per ``epoch``.
        unit: what is dropped as a whole: a ``layer``, a ``part`` of it or a ``module``.
        dropout: as for :class:`GradDrop`.
    """

    name: ClassVar[str] = "layer-graddrop"
    summary: ClassVar[str] = "each layer is dropped as a whole with probability p at each step"
    source: ClassVar[str] = f"{PAPER}, Sec. III-A and IV-2: {LINK}"
    deviates: ClassVar[str] = (
        "The paper names one draw per epoch in one place, one per mini-batch in another (layer_unit), and trains "
        "without ordinary dropout (dropout=off)."
    )

    p: float = 0.2
    mask_target: MaskTarget = "grad"
    layer_scale: bool = False
    layer_unit: Literal["batch", "epoch"] = "batch"
    dropout: Dropout = "on"

    def __post_init__(self) -> None:
        self._require(
            p=(0.0 <= self.p < 1.0, "0 <= p < 1; at 1 nothing would ever learn"),
            state=(self.state == "keep" or self.mask_target == "update", _NOT_CLOSED),
        )

    def check(self, layers: LayerMap) -> None:
        check_dropped(self, layers)

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        draw = clock.step if self.layer_unit == "batch" else clock.epoch
        return dropped_layers(self.p, draw, self, layers, memory)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return clock.step + 1 if self.layer_unit == "batch" else clock.next_epoch


@dataclass(frozen=True, kw_only=True)
class _Annealed(_HasDropoutOption):
    """A method with a rate that falls over the training."""

    p: float = 0.9
    anneal: Anneal = "linear"
    anneal_unit: Literal["epoch", "step"] = "epoch"
    mask_target: MaskTarget = "grad"
    dropout: Dropout = "on"

    def __post_init__(self) -> None:
        self._require(
            p=(0.0 <= self.p < 1.0, "0 <= p < 1"),
            anneal=(
                self.anneal == "linear" or self.anneal_unit == "epoch",
                "'linear' with anneal_unit=step; the literal formula counts epochs",
            ),
        )

    def rate(self, clock: Clock) -> float:
        """Return the share to drop in the next step.

        Linear: ``p * (1 - (e - 1) / (T - 1))``, exactly 0 in the last epoch (or step, with ``anneal_unit=step``).
        Literal: ``max(0, p - (e - 1) / T)``. With T = 1 there is no decline, and the rate stays ``p``.
        """
        if self.anneal_unit == "step":
            done, last = clock.step, clock.known_total - 1
        else:
            done, last = clock.epoch - 1, clock.epochs - 1
        if self.anneal == "literal":
            return max(0.0, self.p - done / (last + 1))
        return self.p * (1.0 - min(1.0, done / last)) if last else self.p


@dataclass(frozen=True, kw_only=True)
class AnnealGradDrop(_Annealed):
    """Apply GradDrop with a rate that falls from ``p`` in the first epoch to 0 in the last.

    Args:
        p: the rate of the first epoch, in [0, 1).
        anneal: ``linear`` reaches 0 for any number of epochs T; ``literal`` is the paper's text, lower by 1/T each
            epoch and clipped at 0, which ends at 0 only for T = 10.
        anneal_unit: lower the rate each ``epoch``, or at each ``step`` along the same line.
        mask_target, dropout: as for :class:`GradDrop`.
    """

    name: ClassVar[str] = "anneal-graddrop"
    summary: ClassVar[str] = "graddrop with a share that falls from p to 0 over the epochs"
    source: ClassVar[str] = f"{PAPER}, Sec. III-C: {LINK}"
    deviates: ClassVar[str] = (
        "The paper's formula ends at 0 only for 10 epochs (anneal=literal); it trains without ordinary dropout "
        "(dropout=off)."
    )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return masked_layers(element_gate(self.rate(clock), clock.step, self.name, self.mask_target), layers)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return clock.step + 1 if self.anneal_unit == "step" else clock.next_epoch


@dataclass(frozen=True, kw_only=True)
class AnnealLayerGradDrop(_Annealed, HasStateOption, HasUnitOption):
    """Apply Layer-GradDrop with a rate that falls from ``p`` in the first epoch to 0 in the last.

    Args:
        p, anneal, anneal_unit: as for :class:`AnnealGradDrop`.
        mask_target, layer_scale, unit, dropout: as for :class:`LayerGradDrop`.
    """

    name: ClassVar[str] = "anneal-layer-graddrop"
    summary: ClassVar[str] = "layer-graddrop with a probability that falls from p to 0 over the epochs"
    source: ClassVar[str] = f"{PAPER}, Sec. III-C: {LINK}"
    deviates: ClassVar[str] = AnnealGradDrop.deviates

    layer_scale: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(state=(self.state == "keep" or self.mask_target == "update", _NOT_CLOSED))

    def check(self, layers: LayerMap) -> None:
        check_dropped(self, layers)

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return dropped_layers(self.rate(clock), clock.step, self, layers, memory)


def check_dropped(method: LayerGradDrop | AnnealLayerGradDrop, layers: LayerMap) -> None:
    """Refuse a model in which nothing but layers can learn, if a step may hold all of them.

    Raises:
        MethodError: if it is.
    """
    ends = {*layers.names} - {group.name for group in layers.layers}
    if method.mask_target == "update" and method.p > 0.0 and not any(map(layers.can_learn, ends)):
        raise MethodError(
            f"{method.spec!r} may drop every layer in one step, and nothing else of this model can learn, so there "
            f"would be no gradient. Use mask_target=grad, or train the head, too."
        )


def element_gate(p: float, draw: int, stream: str, mask_target: MaskTarget) -> Gate:
    """Return a gate that drops each element with probability ``p`` and divides the rest by ``1 - p``."""
    hold = mask_target == "update"
    return Gate(lo=p, scale=1.0 / (1.0 - p), stream=stream, draw=draw, each_step=True, hold=hold)


def masked_layers(gate: Gate, layers: LayerMap) -> Plan:
    """Return a plan with one gate for every layer, and embeddings and head open."""
    masked = {group.name for group in layers.layers}
    return Plan({name: gate if name in masked else OPEN for name in layers.names})


def dropped_layers(
    p: float, draw: int, method: LayerGradDrop | AnnealLayerGradDrop, layers: LayerMap, memory: MethodState
) -> Plan:
    """Return a plan with each layer open or dropped by its own draw, and embeddings and head open."""
    kept = Gate(scale=1.0 / (1.0 - p)) if method.layer_scale else OPEN
    dropped = Gate(lo=0.0, hi=0.0, hold=method.mask_target == "update")

    def gate_of(name: str) -> Gate:
        key = gates.key(seed=memory.seed, stream=method.name, name=name, draw=draw)
        return dropped if gates.uniform(key) < p else kept

    of_layers = {group.name: gate_of(group.name) for group in layers.layers}
    return Plan({name: of_layers.get(name, OPEN) for name in layers.names})


@dataclass(frozen=True, kw_only=True)
class GradDropEpoch(_HasDropoutOption):
    """Release each weight of the layers in a random epoch; it learns from then on. In the last epoch all do.

    Args:
        epoch_release: ``equal`` releases a share e/T by epoch e of T; ``hazard`` releases each closed weight with
            probability ``1 - p`` per epoch and the rest in the last one; ``resample`` draws a new independent mask
            with rate ``p`` per epoch.
        p: rate of ``hazard`` and ``resample``, in [0, 1); ``equal`` does not use it.
        epoch_scale: divide the gradient of what is active by its expected share; the paper states no factor.
        mask_target: ``update`` (default) leaves what is not released bit-identical; ``grad`` masks its gradient.
        dropout: as for :class:`GradDrop`.
    """

    name: ClassVar[str] = "graddrop-epoch"
    summary: ClassVar[str] = "weights of the layers are released at random over the epochs and stay active"
    source: ClassVar[str] = f"{PAPER}, Sec. III-B, Fig. 1: {LINK}"
    deviates: ClassVar[str] = (
        "The paper does not say how many weights each epoch releases (epoch_release), and trains without ordinary "
        "dropout (dropout=off)."
    )

    epoch_release: Literal["equal", "hazard", "resample"] = "equal"
    p: float = acts_if(0.2, epoch_release=("hazard", "resample"))
    epoch_scale: bool = False
    mask_target: MaskTarget = "update"
    dropout: Dropout = "on"

    def __post_init__(self) -> None:
        self._require(p=(0.0 <= self.p < 1.0, "0 <= p < 1"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        lo, hi, draw = self._window(clock)
        return masked_layers(_epoch_gate(lo, hi, draw, self), layers)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return clock.next_epoch

    def _window(self, clock: Clock) -> tuple[float, float, int]:
        epoch, epochs = clock.epoch, clock.epochs
        if self.epoch_release == "resample":
            return self.p, 1.0, epoch
        if epoch == epochs:
            return 0.0, 1.0, 0
        return 0.0, epoch / epochs if self.epoch_release == "equal" else 1.0 - self.p**epoch, 0


@dataclass(frozen=True, kw_only=True)
class GradDropEpochToggle(_HasDropoutOption):
    """Train each weight of the layers in one random epoch only; never the whole network at once.

    Args:
        epoch_scale, mask_target, dropout: as for :class:`GradDropEpoch`.
    """

    name: ClassVar[str] = "graddrop-epoch-toggle"
    summary: ClassVar[str] = "each weight of the layers learns in one random epoch only"
    source: ClassVar[str] = f"{PAPER}, Sec. III-B, Fig. 1: {LINK}"
    deviates: ClassVar[str] = GradDrop.deviates

    epoch_scale: bool = False
    mask_target: MaskTarget = "update"
    dropout: Dropout = "on"

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        epoch, epochs = clock.epoch, clock.epochs
        return masked_layers(_epoch_gate((epoch - 1) / epochs, epoch / epochs, 0, self), layers)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return clock.next_epoch


def _epoch_gate(lo: float, hi: float, draw: int, method: GradDropEpoch | GradDropEpochToggle) -> Gate:
    return Gate(
        lo=lo,
        hi=hi,
        scale=1.0 / (hi - lo) if method.epoch_scale else 1.0,
        stream=method.name,
        draw=draw,
        hold=method.mask_target == "update",
    )
