"""Weights that are moved: known losses of a quadratic on the line and the plane, and every bit back afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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
