"""Define an adapter's fields, as AdapterHub's adapter_config.json names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import AdapterError, expectation, nearest
from gradgate.layers.names import WRAPPER_PARTS
from gradgate.specs import Syntax, shown, structured

LnScope = Literal["none", "encoder", "all"]
WIDEST = 2**14
"""Units of the widest bottleneck that is built: in all layers together it takes gigabytes."""
INITS = ("bert", "mam_adapter", "houlsby", "normal", "zero_up")
# AdapterHub's names in place of initializations that only this library has.
_THEIR_INIT = {"normal": "bert", "zero_up": "mam_adapter"}
# Fields of their record that are not read here, with their defaults.
_UNREAD: dict[str, Any] = {
    "phm_layer": False,
    "phm_dim": 4,
    "factorized_phm_W": True,
    "shared_W_phm": False,
    "shared_phm_rule": True,
    "factorized_phm_rule": False,
    "phm_c_init": "normal",
    "phm_init_range": 0.0001,
    "learn_phm": True,
    "hypercomplex_nonlinearity": "glorot-uniform",
    "phm_rank": 1,
    "phm_bias": True,
    "stochastic_depth": 0.0,
}
# Those of AdapterHub's files; transformers has more.
_ACTIVATIONS = frozenset(("gelu", "gelu_new", "leakyrelu", "linear", "relu", "sigmoid", "silu", "swish", "tanh"))
SEEDS = "a whole number from -2**63 to 2**64 - 1"
_OWN = ("size", "init_std", "ln_scope", "extra")


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """One bottleneck adapter, with the names and defaults of AdapterHub's ``BnConfig``.

    Args:
        mh_adapter: a module after the attention's output projection.
        output_adapter: a module after the feed-forward block.
        reduction_factor: width of the model over that of the bottleneck, which is
            ``max(1, int(width // reduction_factor))``; or a mapping of layer number to factor with ``"default"``.
        size: width of the bottleneck; replaces ``reduction_factor``.
        non_linearity: any activation of transformers, or ``"leakyrelu"``.
        original_ln_before: add the residual and apply the model's own layer norm before the bottleneck.
        original_ln_after: add the residual and apply the model's own layer norm after the adapters.
        residual_before_ln: take the adapter's residual before (True) or after (False) that first norm, or between
            the addition and the norm (``"post_add"``).
        adapter_residual_before_ln: add the adapter's residual before its new norm.
        ln_before: a new layer norm before the bottleneck.
        ln_after: a new layer norm after it.
        is_parallel: read the input of the sub-layer, not its output.
        scaling: factor on the bottleneck's output; ``"learned"`` is one parameter, ``"channel"`` one per feature.
        use_gating: multiply by a learned gate, averaged over the tokens.
        dropout: on the bottleneck's output, in [0, 1).
        inv_adapter: ``"nice"`` for an invertible adapter on the embeddings.
        inv_adapter_reduction_factor: half the embeddings' width over the hidden width of that adapter.
        leave_out: numbers of the layers without a module, from 0 at the bottom.
        init_weights: initialization: ``"bert"`` normal with std 0.02; ``"mam_adapter"`` up-projection 0; ``"houlsby"``
        truncated normal with std 0.01; ``"normal"`` normal with ``init_std``; ``"zero_up"`` the same with an
        up-projection of 0. Biases start at 0.
        init_std: of the last two.
        init_weights_seed: of the draws; None leaves it to :func:`gradgate.adapters.add`.
        ln_scope: which layer norms of the model are tuned with the adapter, as copies of its own: those in the
            layers (``"encoder"``), also that of the embeddings (``"all"``), or ``"none"``.
        extra: further entries of a file, which are written back.

    Raises:
        AdapterError: if a value is out of range or asks for what is not supported (PHM, glow, stochastic depth).
    """

    mh_adapter: bool
    output_adapter: bool
    reduction_factor: float | dict[str, float] = 16
    size: int | None = None
    non_linearity: str
    original_ln_before: bool = False
    original_ln_after: bool = True
    residual_before_ln: bool | Literal["post_add"] = True
    adapter_residual_before_ln: bool = False
    ln_before: bool = False
    ln_after: bool = False
    is_parallel: bool = False
    scaling: float | Literal["learned", "channel"] = 1.0
    use_gating: bool = False
    dropout: float = 0.0
    inv_adapter: str | None = None
    inv_adapter_reduction_factor: float | None = None
    leave_out: tuple[int, ...] = ()
    init_weights: str = "bert"
    init_std: float = 1e-3
    init_weights_seed: int | None = None
    cross_adapter: bool = False
    ln_scope: LnScope = "none"
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = [f"{name}={getattr(self, name)!r} (expected {what})" for name, what in self._faults()]
        if wrong:
            raise AdapterError(f"This adapter cannot be built: {'; '.join(wrong)}.")

    def _faults(self) -> list[tuple[str, str]]:
        factors = self.reduction_factor.values() if isinstance(self.reduction_factor, dict) else [self.reduction_factor]
        post_add = self.residual_before_ln == "post_add"
        checks = (
            ("output_adapter", "at least one module", self.mh_adapter or self.output_adapter),
            ("cross_adapter", "false: none of the supported models has cross-attention", not self.cross_adapter),
            ("reduction_factor", "numbers above 0", all(_positive(factor) for factor in factors)),
            ("size", f"1 or more, at most {WIDEST:,}", self.size is None or 1 <= self.size <= WIDEST),
            ("non_linearity", "the name of an activation of transformers", _is_activation(self.non_linearity)),
            ("dropout", "a number in [0, 1)", 0.0 <= self.dropout < 1.0),
            ("scaling", "a finite float, 'learned' or 'channel'", _is_scaling(self.scaling)),
            ("residual_before_ln", "true or false without original_ln_before", not post_add or self.original_ln_before),
            ("residual_before_ln", "true, false or 'post_add'", post_add or isinstance(self.residual_before_ln, bool)),
            ("inv_adapter", "'nice' or none; glow does not work in AdapterHub", self.inv_adapter in (None, "nice")),
            ("inv_adapter_reduction_factor", "a number above 0", self._inverse_fits()),
            ("leave_out", "layer numbers from 0", all(number >= 0 for number in self.leave_out)),
            ("init_weights", " or ".join(INITS), self.init_weights in INITS),
            ("init_std", "a finite number, 0 or more", 0.0 <= self.init_std < float("inf")),
            ("init_weights_seed", SEEDS, self.init_weights_seed is None or is_seed(self.init_weights_seed)),
            ("ln_scope", "none, encoder or all", self.ln_scope in ("none", "encoder", "all")),
        )
        return [(name, what) for name, what, right in checks if not right]

    def _inverse_fits(self) -> bool:
        return self.inv_adapter is None or _positive(self.inv_adapter_reduction_factor)

    def width(self, layer: int, hidden: int) -> int:
        """Return the width of a layer's bottleneck in a model of width ``hidden``."""
        if self.size is not None:
            return self.size
        factor = self.reduction_factor
        if isinstance(factor, dict):
            if str(layer) not in factor and "default" not in factor:
                raise AdapterError(
                    f"The reduction factors {factor} have no entry for layer {layer}. Add one, or a 'default'."
                )
            factor = factor.get(str(layer), factor.get("default", 1.0))
        return bounded_width(hidden, factor, "reduction_factor")

    def record(self, hidden: int) -> dict[str, Any]:
        """Return the entry ``config`` of adapter_config.json for width ``hidden``: every field of ``BnConfig``."""
        own = {name: value for name, value in asdict(self).items() if name not in _OWN}
        own["leave_out"] = list(self.leave_out)
        own["init_weights"] = _THEIR_INIT.get(self.init_weights, self.init_weights)
        if self.size is not None:
            exact = hidden / self.size
            own["reduction_factor"] = exact if int(hidden // exact) == self.size else hidden / (self.size + 0.5)
        return {**_UNREAD, **self.extra, **own}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> AdapterConfig:
        """Create the adapter that a configuration with AdapterHub's names describes; missing fields get defaults.

        Raises:
            AdapterError: if it does not describe a bottleneck adapter, or a value is wrong.
        """
        values = dict(record)
        if values.pop("architecture", None):
            raise AdapterError(
                f"The configuration is that of a {record['architecture']!r}; only bottleneck adapters are supported. "
                f"Use one whose architecture is null, or use PEFT for LoRA and others."
            )
        nested = values.pop("invertible_adapter", None)  # the form of their first version
        if isinstance(nested, Mapping):
            values |= {
                "inv_adapter": nested.get("block_type"),
                "inv_adapter_reduction_factor": nested.get("reduction_factor"),
            }
        for name in ("phm_layer", "stochastic_depth"):
            if values.get(name):
                raise AdapterError(
                    f"The configuration asks for {name}={values[name]!r}, which is not supported. Expected an adapter "
                    f"without it."
                )
        known = {name: kind for name, kind in get_type_hints(cls).items() if name != "extra"}
        missing = [name for name in ("mh_adapter", "output_adapter", "non_linearity") if name not in values]
        if missing:
            raise AdapterError(
                f"The configuration of a bottleneck adapter needs {', '.join(missing)}. Add what is missing."
            )
        chosen = {name: checked(name, known[name], value) for name, value in values.items() if name in known}
        return cls(**chosen, extra={name: value for name, value in values.items() if name not in known})


def checked(option: str, kind: Any, value: Any) -> Any:
    """Convert a value to the type of its field.

    Raises:
        AdapterError: if it cannot be converted.
    """
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        reasons = dict.fromkeys(expectation(each) for each in error.errors())  # one of each type of a union
        first, *others = reasons
        either = "".join(f", or {each.removeprefix('expected ')}" for each in others)
        raise AdapterError(
            f"The value {value!r} of {option!r} cannot be read: {first[0].lower()}{first[1:]}{either}."
        ) from None


def check_spelling(name: str) -> None:
    """Refuse a name that cannot be that of an adapter on any model.

    Raises:
        AdapterError: if the name is invalid.
    """
    if (
        not isinstance(name, str)
        or not name
        or not name.isprintable()
        or set(name) & set("./\\ ")
        or name in WRAPPER_PARTS
    ):
        raise unfit_name(name)


def unfit_name(name: str) -> AdapterError:
    """Build the error for a name that no adapter can have."""
    return AdapterError(
        f"{name!r} cannot be the name of an adapter: expected letters, digits, '-' and '_', and not a name that "
        f"torch modules use themselves, such as 'keys', 'train' or 'module'. Choose another name."
    )


def bounded_width(whole: int, factor: float, option: str) -> int:
    """Compute the width of a bottleneck: ``whole`` over ``factor``, at least 1.

    Raises:
        AdapterError: if it is larger than any adapter's.
    """
    if whole > factor * WIDEST:
        raise AdapterError(
            f"{option}={factor} makes a bottleneck of {whole / factor:,.0f} from {whole}; expected at most "
            f"{WIDEST:,}. Pass a larger factor."
        )
    return max(1, int(whole // factor))


def is_seed(value: object) -> bool:
    """Return True if torch's generators take a value as their seed."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def _positive(value: float | None) -> bool:
    return value is not None and 0.0 < value < float("inf")


def _is_scaling(value: float | str) -> bool:
    return isfinite(value) if isinstance(value, float) else value in ("learned", "channel")


def _is_activation(name: str) -> bool:
    if name.lower() in _ACTIVATIONS:
        return True
    from transformers.activations import ACT2FN  # imports torch; only for activations that no kind of adapter has

    return name.lower() in ACT2FN


ALIASES = {"reduction": "reduction_factor", "init": "init_weights"}
"""Short option -> the field that it sets."""
_SYNTAX = Syntax("adapter", error=AdapterError)
_SEQ = AdapterConfig(mh_adapter=False, output_adapter=True, non_linearity="relu", original_ln_before=True)
_DOUBLE = AdapterConfig(mh_adapter=True, output_adapter=True, non_linearity="swish")
_INVERTIBLE: dict[str, Any] = {"inv_adapter": "nice", "inv_adapter_reduction_factor": 2}
_PARALLEL = AdapterConfig(
    mh_adapter=False,
    output_adapter=True,
    non_linearity="relu",
    reduction_factor=2,
    is_parallel=True,
    scaling=4.0,
    init_weights="mam_adapter",
)
KINDS: dict[str, AdapterConfig] = {
    "houlsby": replace(_DOUBLE, non_linearity="tanh", size=64, init_weights="normal", ln_scope="all"),
    "double_seq_bn": _DOUBLE,
    "double_seq_bn_inv": replace(_DOUBLE, **_INVERTIBLE),
    "pfeiffer": _SEQ,
    "seq_bn": _SEQ,
    "pfeiffer+inv": replace(_SEQ, **_INVERTIBLE),
    "seq_bn_inv": replace(_SEQ, **_INVERTIBLE),
    "par_bn": _PARALLEL,
    "scaled_par_bn": replace(_PARALLEL, scaling="learned"),
}
"""Name to configuration. ``houlsby`` is the paper's (arXiv:2106.03164, Sec. 2.1: two modules per layer, tanh, layer
norms tuned, near the identity at first); ``double_seq_bn`` is AdapterHub's kind of that name."""


_OF_PEFT = "PEFT's, such as LoRA, are for peft.get_peft_model, and a run takes them as adapter=."


def adapter_config(spec: str | AdapterConfig | Mapping[str, Any]) -> AdapterConfig:
    """Parse an adapter from a text such as ``"pfeiffer:reduction=16,leave_out=0/11"`` or a record of AdapterHub.

    Every field is an option; ``reduction`` is short for ``reduction_factor``, which takes ``0:8/default:2`` too, and
    ``init`` for ``init_weights``.

    Raises:
        AdapterError: for an unknown kind or option, or a value that is out of range.
    """
    if isinstance(spec, AdapterConfig):
        return spec
    if isinstance(spec, Mapping):
        return AdapterConfig.of_record(spec)
    if not isinstance(spec, str):
        raise AdapterError(
            f"{type(spec).__name__} does not describe an adapter. Expected a kind such as 'houlsby:size=64'. {_OF_PEFT}"
        )
    read = _SYNTAX.parse(spec).renamed(ALIASES)
    kind = KINDS.get(read.name)
    if kind is None:
        raise AdapterError(
            f"There is no kind of adapter {shown(read.name)}.{nearest(read.name, KINDS)} Known: {', '.join(KINDS)}. "
            f"{_OF_PEFT}"
        )
    kinds = {name: kind for name, kind in get_type_hints(AdapterConfig).items() if name != "extra"}
    read.check_options([*ALIASES, *kinds])
    options = {name: checked(name, kinds[name], structured(text, kinds[name])) for name, text in read.pairs}
    if "reduction_factor" in options and "size" in options:
        raise AdapterError(
            f"{spec!r} gives both reduction and size; each sets the width of the bottleneck. Leave one of them out."
        )
    if "reduction_factor" in options:
        options["size"] = None
    return replace(kind, **options)
