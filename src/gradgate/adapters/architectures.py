"""Define where adapters go in each architecture: a table, and the forwards that run them there.

A forward here is bound to one module of the model in place of the forward of its class, and does the same, with the
adapters between the sub-layer's output and its residual. If no adapter runs, it calls the forward of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gradgate.errors import AdapterError

Forward = Callable[..., Any]
INVERTIBLE = "invertible_adapters"
ATTENTION, OUTPUT = "attention", "output"


class ActiveAdapters:
    """The active adapters of one model; its sites read them in every forward.

    Attributes:
        active: the stack, from the bottom.
        skipped: numbers of the layers that run without adapters.
        dropped: how many of the lowest layers run without adapters in this step.
        inverse: whether the invertible adapter's inverse runs before the output embeddings.
        random: whether ``dropped`` is drawn again for each step.
    """

    def __init__(self) -> None:
        self.active: tuple[str, ...] = ()
        self.skipped: frozenset[int] = frozenset()
        self.dropped = 0
        self.inverse = True
        self.random = False

    def __repr__(self) -> str:
        return f"active={self.active}, skipped={sorted(self.skipped)}"

    def skips(self, layer: int | None) -> bool:
        """Return True if a layer runs without adapters; None stands for places outside of the layers."""
        return layer is not None and (layer < self.dropped or layer in self.skipped)


class Site(nn.ModuleDict):
    """The adapters at one place of one layer, by name."""

    def __init__(self, setup: ActiveAdapters, layer: int) -> None:
        super().__init__()
        self.setup, self.layer = setup, layer

    def extra_repr(self) -> str:
        """Show the active adapters when the model is printed."""
        return repr(self.setup)

    @property
    def varies(self) -> bool:
        """Whether one input gives different outputs in different steps: see :class:`gradgate.ActivationCache`."""
        return self.setup.random

    def running(self) -> list[Any]:
        """Return the modules of the active stack at this site, from the bottom."""
        if self.setup.skips(self.layer):
            return []
        return [self[name] for name in self.setup.active if name in self]

    def forward(self, hidden: Tensor, residual: Tensor, norm: nn.Module | None) -> Tensor:
        """Apply adapters, residual and norm to the sub-layer's output: ``(B, T, D)``, as its inputs.

        Each member of a stack reads the output of the one below; the last one decides whether the model's residual and
        norm follow.
        """
        out, stack = hidden, self.running()
        for module in stack:
            out = module(out, residual, norm)
        if stack and stack[-1].config.is_parallel:
            out = out + hidden
        if stack and not stack[-1].config.original_ln_after:
            return out
        out = out + residual
        return out if norm is None else norm(out)


class InvertibleSite(nn.ModuleDict):
    """The invertible adapters of one model, by name; that of the lowest active adapter runs."""

    def __init__(self, setup: ActiveAdapters) -> None:
        super().__init__()
        self.setup = setup

    def after_embeddings(self, module: nn.Module, args: object, embedded: Tensor) -> Tensor | None:
        """Map the output of the embeddings, as their forward hook."""
        block = self._current()
        return None if block is None else block(embedded)

    def before_output(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Map the input of the output embeddings, as their forward pre-hook."""
        block = self._current() if self.setup.inverse else None
        return None if block is None else (block.inverse(args[0]), *args[1:])

    def _current(self) -> Any:
        lowest = self.setup.active[:1]
        return self[lowest[0]] if lowest and lowest[0] in self else None


class TunedNorms(nn.ModuleDict):
    """Copies of one layer norm of the model, by the adapter that tunes it; the topmost active one runs."""

    def __init__(self, setup: ActiveAdapters, layer: int | None) -> None:
        super().__init__()
        self.setup, self.layer = setup, layer

    def current(self) -> nn.Module | None:
        """Return the copy that is in force; None for the model's own norm."""
        if self.setup.skips(self.layer):
            return None
        return next((self[name] for name in reversed(self.setup.active) if name in self), None)


def _dense_norm(self: Any, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
    """Run BertSelfOutput, BertOutput and similar modules."""
    if not self.adapters.running():
        return type(self).forward(self, hidden_states, input_tensor)  # type: ignore[no-any-return]
    out: Tensor = self.adapters(self.dropout(self.dense(hidden_states)), input_tensor, self.LayerNorm)
    return out


def _mpnet_attention(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Run MPNetAttention."""
    if not self.adapters.running():
        return type(self).forward(self, hidden_states, *args, **kwargs)
    attended, *weights = self.attn(hidden_states, *args, **kwargs)
    return (self.adapters(self.dropout(attended), hidden_states, self.LayerNorm), *weights)


def _distilbert_block(self: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Run TransformerBlock of DistilBERT."""
    attention, output = self.attention_adapters.adapters, self.output_adapters.adapters
    if not (attention.running() or output.running()):
        return type(self).forward(self, hidden_states, attention_mask, **kwargs)  # type: ignore[no-any-return]
    attended, _ = self.attention(hidden_states, attention_mask=attention_mask, **kwargs)
    attended = attention(attended, hidden_states, self.sa_layer_norm)
    out: Tensor = output(self.ffn(attended), attended, self.output_layer_norm)
    return out


def _llama_layer(self: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Run LlamaDecoderLayer and similar layers, which have no norm after a sub-layer."""
    attention, output = self.attention_adapters.adapters, self.output_adapters.adapters
    if not (attention.running() or output.running()):
        return type(self).forward(self, hidden_states, attention_mask, **kwargs)  # type: ignore[no-any-return]
    normed = self.input_layernorm(hidden_states)
    attended, _ = self.self_attn(hidden_states=normed, attention_mask=attention_mask, **kwargs)
    attended = attention(attended, hidden_states, None)
    out: Tensor = output(self.mlp(self.post_attention_layernorm(attended)), attended, None)
    return out


def tuned_norm(self: Any, hidden_states: Tensor) -> Tensor:
    """Run a layer norm of which adapters tune copies."""
    copy = self.tuned.current()
    out: Tensor = type(self).forward(self, hidden_states) if copy is None else copy(hidden_states)
    return out


@dataclass(frozen=True)
class Architecture:
    """The paths in one family of models; those of a layer start at the layer, the others at the base model.

    Attributes:
        layers: the list of layers.
        embeddings: the module whose output the invertible adapter maps.
        sites: where the modules after the attention and after the feed-forward block are stored, as in AdapterHub's
            files.
        forwards: path to the forward of the modules that run them, and to the sub-modules that each needs.
    """

    layers: str
    embeddings: str
    sites: Mapping[str, str]
    forwards: Mapping[str, tuple[Forward, tuple[str, ...]]]
    post_norm: bool = True


_DENSE_NORM = (_dense_norm, ("dense", "dropout", "LayerNorm"))
_BERT = Architecture(
    layers="encoder.layer",
    embeddings="embeddings",
    sites={ATTENTION: "attention.output.adapters", OUTPUT: "output.adapters"},
    forwards={"attention.output": _DENSE_NORM, "output": _DENSE_NORM},
)
_MPNET = Architecture(
    layers="encoder.layer",
    embeddings="embeddings",
    sites={ATTENTION: "attention.adapters", OUTPUT: "output.adapters"},
    forwards={"attention": (_mpnet_attention, ("attn", "dropout", "LayerNorm")), "output": _DENSE_NORM},
)
_BESIDE = {ATTENTION: "attention_adapters.adapters", OUTPUT: "output_adapters.adapters"}
_DISTILBERT = Architecture(
    layers="transformer.layer",
    embeddings="embeddings",
    sites=_BESIDE,
    forwards={"": (_distilbert_block, ("attention", "sa_layer_norm", "ffn", "output_layer_norm"))},
)
_LLAMA = Architecture(
    layers="layers",
    embeddings="embed_tokens",
    sites=_BESIDE,
    forwards={"": (_llama_layer, ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm"))},
    post_norm=False,
)
ARCHITECTURES: dict[str, Architecture] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "electra": _BERT,
    "deberta": _BERT,
    "deberta-v2": _BERT,
    "distilbert": _DISTILBERT,
    "mpnet": _MPNET,
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
}
"""Architectures by ``config.model_type``."""


def architecture_of(model: Any) -> Architecture:
    """Return the paths of a model from transformers.

    Raises:
        AdapterError: for an architecture that is not in the table, or that differs in this version of transformers, and
            for PEFT's wrapper.
    """
    if type(model).__module__.partition(".")[0] == "peft":
        raise AdapterError(
            f"{type(model).__name__} is PEFT's wrapper of a model with an adapter of its own. Use one of the two "
            "libraries: pass the model as from_pretrained returned it."
        )
    kind = getattr(getattr(model, "config", None), "model_type", None)
    found = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise AdapterError(
            f"Adapters do not know the places of {type(model).__name__} (model type {kind!r}). "
            f"Supported: {', '.join(ARCHITECTURES)}. Use a model of one of these types."
        )
    try:
        layers: Any = model.base_model.get_submodule(found.layers)
        for path, (_, needed) in found.forwards.items():
            for layer in layers:
                for name in needed:
                    layer.get_submodule(path).get_submodule(name)
        model.base_model.get_submodule(found.embeddings)
    except AttributeError as error:
        raise AdapterError(
            f"{type(model).__name__} is not structured like other {kind!r} models: {error}. This version of "
            f"transformers may have changed it; adapters were written for transformers 5. Install "
            f"one of its releases."
        ) from None
    return found
