"""The masks on the gradients that an optimizer gets: their shares, their factors and their independence."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn

from gradgate import Tuner, map_layers
from support.loop import momentum
from support.masks import MILLION, PER_EPOCH, errors


def gradients(text: str, steps: int, seed: int = 0) -> list[list[Tensor]]:
    """For each step the gradients of two layers of a million weights, of a loss whose gradient is 1 everywhere."""
    model, ones = nn.Sequential(*(nn.Linear(1000, 1000, bias=False) for _ in range(2))), torch.ones(1, 1000)
    optimizer = momentum(model)
    found = []
    with Tuner(
        model,
        optimizer,
        text,
        seed=seed,
        audit=False,
        layers=map_layers(model, layers="."),
        total_steps=5 * PER_EPOCH,
        steps_per_epoch=PER_EPOCH,
    ):
        for _ in range(steps):
            (model[0](ones) + model[1](ones)).sum().backward()
            found.append([layer.weight.grad.view(-1).clone() for layer in model])
            optimizer.step()
            optimizer.zero_grad()
    return found


@pytest.mark.parametrize(
    ("text", "share", "scale"),
    [
        pytest.param("graddrop:p=0.2", 0.8, 1.25, marks=pytest.mark.slow),
        ("graddrop:p=0.5,mask_target=update", 0.5, 2.0),
        ("graddrop:p=0.9", 0.1, 10.0),
        ("anneal-graddrop", 0.1, 10.0),
        pytest.param("graddrop-epoch", 0.2, 1.0, marks=pytest.mark.slow),
        ("graddrop-epoch-toggle", 0.2, 1.0),
        ("child-tuning:keep=0.3", 0.3, 1 / 0.3),
    ],
)
def test_so_large_a_share_of_the_gradient_passes_with_its_factor(text: str, share: float, scale: float) -> None:
    for gradient in gradients(text, 1)[0]:
        assert errors(gradient != 0, share) < 4
        assert torch.equal(gradient.unique(), torch.tensor([0.0, scale]))


@pytest.mark.parametrize(
    ("text", "share", "every_step"),
    [
        pytest.param("graddrop:p=0.2", 0.8, True, marks=pytest.mark.slow),
        ("graddrop:p=0.5", 0.5, True),
        pytest.param("anneal-graddrop:p=0.9", 0.1, True, marks=pytest.mark.slow),
        ("graddrop-epoch", 0.2, False),
        ("child-tuning:keep=0.3", 0.3, True),
    ],
)
def test_layers_seeds_and_steps_have_independent_masks(text: str, share: float, every_step: bool) -> None:
    """All combinations of passing and not passing in four masks are as frequent as by independent draws."""
    first, second = gradients(text, 2)
    other = gradients(text, 1, seed=1)[0]
    drawn = [first[0] != 0, first[1] != 0, other[0] != 0, second[1] != 0]
    if not every_step:  # one mask for the whole epoch
        assert torch.equal(drawn.pop(), drawn[1])
    cell = sum(mask.long() << place for place, mask in enumerate(drawn))
    counts = torch.bincount(cell, minlength=2 ** len(drawn)).double()
    passing = torch.tensor([bin(number).count("1") for number in range(len(counts))]).double()
    expected = MILLION * share**passing * (1 - share) ** (len(drawn) - passing)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, len(counts) - 1)
    for mask in drawn:  # neighbouring elements
        pairs = torch.stack([mask[:-1], mask[1:]]).double()
        assert abs(torch.corrcoef(pairs)[0, 1]) < 4 / MILLION**0.5
