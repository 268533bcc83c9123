"""The signal-to-noise ratio of matrices, against the formula of Spectrum's authors, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gradgate.errors import NonFiniteError
from gradgate.measure.signal import signal_of_groups, signal_to_noise


def by_the_authors(weight: Tensor) -> float:
    """Spectrum's ``calculate_snr_for_layer``, as a formula (github.com/cognitivecomputations/spectrum)."""
    values = torch.linalg.svdvals(weight)
    sigma = (torch.quantile(values, 0.75) - torch.quantile(values, 0.25)) / 1.349
    n, m = weight.shape
    beta = n / m if n < m else m / n
    threshold = sigma * np.sqrt((1 + np.sqrt(beta)) ** 2)
    signal, noise = values[values > threshold].sum(), values[values <= threshold].sum()
    return float(signal / (noise if (values <= threshold).any() else 1.0) / values[0])


@pytest.mark.parametrize("shape", [(48, 48), (96, 32), (32, 96), (20, 60)])
@pytest.mark.parametrize("rank", [0, 3])
def test_the_ratio_is_that_of_the_authors_formula(shape: tuple[int, int], rank: int) -> None:
    rows, columns = shape
    weight = 0.02 * torch.randn(shape) + 0.05 * torch.randn(rows, rank) @ torch.randn(rank, columns)
    assert signal_to_noise(weight) == pytest.approx(by_the_authors(weight), rel=1e-5)
    assert signal_to_noise(weight.T) == pytest.approx(signal_to_noise(weight), rel=1e-4)
    assert signal_to_noise(8.0 * weight) == pytest.approx(signal_to_noise(weight) / 8.0, rel=1e-4)


def test_known_spectra() -> None:
    # Quartiles 2.25 and 5.75 around these values: sigma = 3.5 / 1.349, and the edge of a square matrix is twice that.
    values = torch.tensor([20.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 0.0])
    low, high = np.quantile(values.numpy(), [0.25, 0.75])
    edge = 2.0 * (high - low) / 1.349
    assert 5.0 < edge < 6.0
    assert signal_to_noise(torch.diag(values)) == pytest.approx((20 + 7 + 6) / (5 + 4 + 3 + 2) / 20)
    assert signal_to_noise(torch.eye(4)) == pytest.approx(4.0)  # nothing is noise, which counts as 1
    assert signal_to_noise(torch.zeros(3, 5)) == 0.0


def test_a_stack_of_matrices_has_their_mean() -> None:
    experts = torch.randn(3, 16, 24)
    mean = sum(map(signal_to_noise, experts)) / 3
    assert signal_to_noise(experts) == pytest.approx(mean)
    assert signal_to_noise(experts.view(3, 1, 16, 24)) == pytest.approx(mean)
    assert signal_to_noise(experts.bfloat16()) == pytest.approx(signal_to_noise(experts.bfloat16().float()))


def test_groups_have_the_mean_of_their_matrices() -> None:
    weights = {"a.weight": torch.randn(8, 8), "b.weight": torch.randn(8, 4), "a.bias": torch.randn(8)}
    found = signal_of_groups({"both": list(weights), "one": ["b.weight"], "none": ["a.bias"]}, weights.__getitem__)
    one, other = signal_to_noise(weights["a.weight"]), signal_to_noise(weights["b.weight"])
    assert found == {"both": pytest.approx((one + other) / 2), "one": pytest.approx(other)}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_weight_that_is_not_finite_is_named(value: float) -> None:
    with pytest.raises(NonFiniteError, match=r"layers\.3\.weight: .* not finite"):
        signal_of_groups({"a": ["layers.3.weight"]}, lambda _: torch.full((2, 2), value))
