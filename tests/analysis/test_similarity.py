"""RSA and linear CKA: known answers, and agreement with the formulas written out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from gradgate.analysis.similarity import linear_cka, rsa


@pytest.fixture
def tokens() -> np.ndarray:
    draw = np.random.default_rng(0)
    return draw.normal(size=(1500, 12)) @ draw.normal(size=(12, 12)) + draw.normal(size=12)


@pytest.mark.parametrize("measure", [rsa, linear_cka])
def test_a_representation_is_similar_to_itself_and_not_to_its_permutation(measure, tokens):
    assert measure(tokens, tokens) == pytest.approx(1, abs=1e-6)
    permuted = tokens[np.random.default_rng(1).permutation(len(tokens))]
    assert measure(tokens, permuted) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("measure", [rsa, linear_cka])
def test_rotation_and_scale_change_nothing(measure, tokens):
    centred = tokens - tokens.mean(0)
    rotation, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))
    assert measure(centred, 3 * centred @ rotation) == pytest.approx(1, abs=1e-9)


def test_both_agree_with_their_definitions(tokens):
    x = tokens[:700]
    y = np.tanh(x[:, :5]) + 0.3 * np.random.default_rng(3).normal(size=(700, 5))
    above = np.triu_indices(700, 1)
    cosines = [(u @ u.T)[above] for u in (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (x, y))]
    assert rsa(x, y) == pytest.approx(np.corrcoef(*cosines)[0, 1], abs=1e-10)
    centre = np.eye(700) - 1 / 700
    kx, ky = (centre @ m @ m.T @ centre for m in (x, y))
    assert linear_cka(x, y) == pytest.approx((kx * ky).sum() / np.sqrt((kx * kx).sum() * (ky * ky).sum()), abs=1e-10)


@pytest.mark.parametrize("measure", [rsa, linear_cka])
def test_constant_representations_have_no_similarity(measure, tokens):
    assert measure(tokens, np.ones_like(tokens)) is None


def test_the_memory_of_rsa_does_not_grow_with_the_square_of_the_tokens():
    x = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
    tracemalloc.start()
    rsa(x, x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4000 * 4000 * 8  # one of the two matrices alone
