"""Weights that are moved: known losses of a quadratic on the line and the plane, and every bit back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

from gradgate.analysis.filters import filter_axes
from gradgate.analysis.landscape import Flatness, flatness
from gradgate.analysis.weight_space import displace, distance, filter_normalized, interpolate, put_back


@pytest.fixture
def parameters() -> dict[str, nn.Parameter]:
    draw = torch.Generator().manual_seed(0)
    shapes = {"matrix": (4, 6), "kernel": (3, 2, 2), "bias": (4,)}
    weights = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    weights["bias"][0] = -0.0
    return {name: nn.Parameter(weight) for name, weight in weights.items()}


def half_square(parameters: dict[str, nn.Parameter]) -> float:
    """The loss w²/2 of all weights."""
    return sum(float(parameter.detach().double().square().sum()) for parameter in parameters.values()) / 2


def test_a_quadratic_loss_has_its_known_values_on_the_line(parameters):
    start = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    with put_back(parameters) as end:
        flat = [torch.cat([weights[name].flatten() for name in parameters]).double() for weights in (start, end)]
        a, b = flat
        for share in (-0.5, 0.0, 0.3, 1.0, 1.5):
            interpolate(parameters, start, end, share)
            known = ((1 - share) ** 2 * a @ a + share**2 * b @ b + 2 * share * (1 - share) * a @ b) / 2
            assert half_square(parameters) == pytest.approx(float(known), rel=1e-5)
        for share, exact in ((0.0, start), (1.0, end)):
            interpolate(parameters, start, end, share)
            assert all(torch.equal(parameters[name], exact[name]) for name in parameters)
        assert distance(start, end) == pytest.approx(float((b - a).norm()), rel=1e-6)


def test_a_quadratic_loss_has_its_known_values_on_the_plane(parameters):
    with put_back(parameters) as centre:
        directions = [filter_normalized(centre, 7, axis) for axis in (0, 1)]
        w, d, e = (torch.cat([part[name].flatten() for name in parameters]).double() for part in (centre, *directions))
        for x, y in ((0, 0), (1, 0), (0, -1), (0.5, 2)):
            displace(parameters, centre, directions, (x, y))
            moved = w + x * d + y * e
            assert half_square(parameters) == pytest.approx(float(moved @ moved) / 2, rel=1e-5)


def test_each_filter_of_a_direction_is_as_long_as_that_of_the_weights(parameters):
    centre = {name: parameter.detach() for name, parameter in parameters.items()}
    one, other = (filter_normalized(centre, 7, axis) for axis in (0, 1))
    for name in ("matrix", "kernel"):
        lengths = one[name].flatten(1).norm(dim=1)
        assert lengths == pytest.approx(centre[name].flatten(1).norm(dim=1), rel=1e-5)
        assert not torch.equal(one[name], other[name])
        assert torch.equal(one[name], filter_normalized({name: centre[name]}, 7, 0)[name])
    assert not one["bias"].any()


def of_experts(kind: str, **options: Any) -> nn.Module:
    sizes = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(**sizes, **heads, **options)
    return getattr(transformers, f"{kind}{'Text' if kind == 'Llama4' else ''}Model")(config)


def gpt2() -> nn.Module:
    return transformers.GPT2Model(transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=6))


def llama4() -> nn.Module:
    options = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "intermediate_size_mlp": 12, "head_dim": 4}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 3}
    return transformers.Llama4TextModel(transformers.Llama4TextConfig(**options, **heads, interleave_moe_layer_step=1))


# The end of a parameter's name, and the axes that count its outputs: of y = x W those of y.
FILTERS: dict[str, tuple[Callable[[], nn.Module], dict[str, tuple[int, ...]]]] = {
    "GPT-2": (gpt2, {"attn.c_attn.weight": (1,), "mlp.c_proj.weight": (1,), "wte.weight": (0,), "wpe.weight": (0,)}),
    "BERT": (
        lambda: transformers.BertModel(transformers.BertConfig(
            vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        )),
        {"query.weight": (0,), "word_embeddings.weight": (0,)},
    ),
    "Mixtral": (
        lambda: of_experts("Mixtral", num_local_experts=3),
        {"experts.gate_up_proj": (0, 1), "experts.down_proj": (0, 1), "gate.weight": (0,)},
    ),
    "GPT-OSS": (
        lambda: of_experts("GptOss", num_local_experts=3, head_dim=4, layer_types=["full_attention"]),
        {"experts.gate_up_proj": (0, 2), "experts.down_proj": (0, 2), "experts.down_proj_bias": (0,)},
    ),
    "Llama 4": (llama4, {"experts.gate_up_proj": (0, 2), "experts.down_proj": (0, 2)}),
    "convolutions": (
        lambda: nn.ModuleDict({"there": nn.Conv1d(4, 6, 3), "back": nn.ConvTranspose1d(4, 6, 3)}),
        {"there.weight": (0,), "back.weight": (1,)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("build", "expected"), FILTERS.values(), ids=FILTERS)
def test_filters_are_counted_by_outputs(build: Callable[[], nn.Module], expected: dict[str, tuple[int, ...]]) -> None:
    model = build()
    found, weights = filter_axes(model), dict(model.named_parameters())
    assert found.keys() == {name for name, weight in weights.items() if weight.dim() > 1}
    for end, axes in expected.items():
        names = [name for name in found if name.endswith(end)]
        assert names
        for name in names:
            assert found[name] == axes, name
            centre = {name: weights[name].detach() + 1.0}
            direction = filter_normalized(centre, 7, 0, found)[name]
            within = [axis for axis in range(direction.dim()) if axis not in axes]
            lengths = [torch.linalg.vector_norm(t, dim=within) for t in (direction, centre[name])]
            torch.testing.assert_close(*lengths)


def test_a_transposed_layer_has_its_twins_loss() -> None:
    draw = torch.Generator().manual_seed(0)
    linear, transposed = nn.Linear(6, 4, bias=False), Conv1D(4, 6)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(4, 6, generator=draw))
        transposed.weight.copy_(linear.weight.T)
    for module, scale in ((linear, linear.weight.norm(dim=1)), (transposed, transposed.weight.norm(dim=0))):
        direction = filter_normalized({"weight": module.weight.detach()}, 1, 0, filter_axes(module))["weight"]
        outputs = torch.eye(6) @ (direction.T if module is linear else direction)
        torch.testing.assert_close(outputs.norm(dim=0), scale)


def test_weights_are_back_bit_for_bit_also_after_an_exception(parameters):
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    def interrupted() -> None:
        with put_back(parameters):
            for parameter in parameters.values():
                parameter.data.fill_(torch.nan)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for name, parameter in parameters.items():
        assert torch.equal(parameter.detach().view(torch.int32), before[name].view(torch.int32))
        assert parameter.requires_grad


PARABOLA = [(x / 10, (x / 10 - 1) ** 2) for x in range(-10, 31)]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (PARABOLA, Flatness(pytest.approx(2 * 0.5**0.5, abs=0.005), at_least=False)),
        ([(x, y) for x, y in PARABOLA if x >= 0.5], Flatness(pytest.approx(0.5 + 0.5**0.5, abs=0.005), at_least=True)),
        ([(0.0, 2.0), (1.0, 1.0), (2.0, 3.0)], Flatness(pytest.approx(0.5 + 0.25), at_least=False)),
        ([(0.0, 0.0), (0.5, 9.0), (1.0, 1.0), (2.0, None)], Flatness(pytest.approx(0.5 / 16), at_least=False)),
    ],
    ids=["a parabola", "cut off on one side", "straight lines", "another valley, and no number"],
)
def test_flatness_is_the_width_where_the_loss_is_at_most_a_half_above(points, expected):
    assert flatness(points) == expected


def test_no_finite_loss_at_the_tuned_weights_has_no_flatness():
    assert flatness([(0.0, 1.0), (1.0, None)]) is None
