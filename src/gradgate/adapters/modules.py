"""Define the bottleneck and the invertible adapter as modules, with the parameter names of AdapterHub's files.

Shapes: ``B`` batch, ``T`` tokens, ``D`` width of the model, ``m`` width of the bottleneck.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gradgate.adapters.config import AdapterConfig, bounded_width

_HOULSBY_STD = 0.01
_BERT_STD = 0.02


class Bottleneck(nn.Module):
    """One adapter module at one place: down-projection ``D -> m``, non-linearity, up-projection ``m -> D``.

    Source: https://arxiv.org/abs/1902.00751 and https://arxiv.org/abs/2005.00052, as AdapterHub's library runs them.

    Args:
        config: the adapter.
        width: ``D``.
        size: ``m``.
    """

    def __init__(self, config: AdapterConfig, width: int, size: int) -> None:
        super().__init__()
        self.config = config
        norm = [nn.LayerNorm(width)] if config.ln_before else []
        self.adapter_down = nn.Sequential(*norm, nn.Linear(width, size), activation(config.non_linearity))
        self.adapter_up = nn.Linear(size, width)
        if config.ln_after:
            self.adapter_norm_after = nn.LayerNorm(width)
        if config.use_gating:
            self.gate = nn.Linear(width, 1)
        if not isinstance(config.scaling, float):
            self.scaling = nn.Parameter(torch.ones(1 if config.scaling == "learned" else width))
        self.dropout = nn.Dropout(config.dropout)

    def extra_repr(self) -> str:
        """Describe what it computes, besides its parameters, when the model is printed."""
        return repr(self.config)

    def forward(self, hidden: Tensor, residual: Tensor, norm: nn.Module | None) -> Tensor:
        """Compute what replaces the sub-layer's output, before the residual and the model's norm: ``(B, T, D)``.

        Args:
            hidden: output of the sub-layer, or of the adapter below in a stack, ``(B, T, D)``.
            residual: input of the sub-layer, ``(B, T, D)``.
            norm: the layer norm after the sub-layer; None in models that have none there.
        """
        if self.config.is_parallel:
            return self._normed(self._bottleneck(residual))
        skip = hidden
        if self.config.original_ln_before:
            hidden = hidden + residual
            if self.config.residual_before_ln == "post_add":
                skip = hidden
            hidden = norm(hidden) if norm is not None else hidden
        if self.config.residual_before_ln is False:
            skip = hidden
        adapted = self._bottleneck(hidden)
        return self._normed(adapted + skip) if self.config.adapter_residual_before_ln else self._normed(adapted) + skip

    def _bottleneck(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.adapter_up(self.adapter_down(hidden))
        if self.config.scaling != 1.0:
            out = out * (self.config.scaling if isinstance(self.config.scaling, float) else self.scaling)
        out = self.dropout(out)
        if self.config.use_gating:
            out = out * torch.sigmoid(self.gate(hidden)).mean(dim=1).unsqueeze(-1)
        return out

    def _normed(self, hidden: Tensor) -> Tensor:
        normed: Tensor = self.adapter_norm_after(hidden) if self.config.ln_after else hidden
        return normed

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights as the configuration says; norms and scaling start at 1."""
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.Linear):
                _draw(module.weight, self.config, generator)
                nn.init.zeros_(module.bias)
        if self.config.use_gating and self.config.init_weights == "mam_adapter":
            self.gate.weight.normal_(0.0, _BERT_STD, generator=generator)
        if self.config.init_weights in ("mam_adapter", "zero_up"):
            nn.init.zeros_(self.adapter_up.weight)
        if not isinstance(self.config.scaling, float):
            nn.init.ones_(self.scaling)


class Invertible(nn.Module):
    """MAD-X's invertible adapter on the embeddings: a NICE coupling of the two halves of each vector.

    Source: https://arxiv.org/abs/2005.00052 on https://arxiv.org/abs/1410.8516, with AdapterHub's order of the halves.

    Args:
        config: ``inv_adapter_reduction_factor`` and ``non_linearity`` are read.
        width: of the embeddings, ``E``; the halves have ``E // 2`` and ``E - E // 2`` features.
    """

    def __init__(self, config: AdapterConfig, width: int) -> None:
        super().__init__()
        first, factor = width // 2, config.inv_adapter_reduction_factor or 1.0
        self.halves = [first, width - first]
        self.F = _coupling(self.halves[1], first, factor, config.non_linearity)
        self.G = _coupling(first, self.halves[1], factor, config.non_linearity)

    def forward(self, embedded: Tensor) -> Tensor:
        """Map embeddings ``(B, T, E)`` to embeddings of the same shape."""
        first, second = torch.split(embedded, self.halves, dim=-1)
        first = first + self.F(second)
        return torch.cat((first, second + self.G(first)), dim=-1)

    def inverse(self, embedded: Tensor) -> Tensor:
        """Return the vectors that ``forward`` maps to these, ``(B, T, E)``."""
        first, second = torch.split(embedded, self.halves, dim=-1)
        second = second - self.G(first)
        return torch.cat((first - self.F(second), second), dim=-1)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw normal weights with std 0.02 and set biases to 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(0.0, _BERT_STD, generator=generator)
                nn.init.zeros_(module.bias)


def activation(name: str) -> nn.Module:
    """Return a non-linearity by its name in transformers; ``gelu`` is the exact form, ``gelu_new`` that with tanh."""
    from transformers.activations import get_activation

    found: nn.Module = nn.LeakyReLU() if name.lower() == "leakyrelu" else get_activation(name.lower())
    return found


def _coupling(inputs: int, outputs: int, factor: float, non_linearity: str) -> nn.Sequential:
    hidden = bounded_width(inputs, factor, "inv_adapter_reduction_factor")
    return nn.Sequential(nn.Linear(inputs, hidden), activation(non_linearity), nn.Linear(hidden, outputs))


def _draw(weight: Tensor, config: AdapterConfig, generator: torch.Generator) -> None:
    if config.init_weights == "mam_adapter":
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    elif config.init_weights == "houlsby":
        bound = 2 * _HOULSBY_STD
        nn.init.trunc_normal_(weight, 0.0, _HOULSBY_STD, -bound, bound, generator=generator)
    else:
        weight.normal_(0.0, _BERT_STD if config.init_weights == "bert" else config.init_std, generator=generator)
