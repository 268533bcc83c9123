"""What a paper did with its model, in proportion to another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.methods import Freeze
from gradgate.methods import method as read_method
from gradgate.papers.proportion import on_layers, on_rate, on_steps, on_width


@pytest.mark.parametrize(
    ("text", "layers", "ours", "expected"),
    [
        ("freeze:layers=9", 12, 4, "freeze:layers=3"),
        ("freeze:layers=6", 12, 4, "freeze:layers=2"),
        ("freeze:layers=11", 12, 4, "freeze:layers=3"),
        ("freeze:layers=12", 12, 4, "freeze:layers=4"),
        ("freeze:layers=17", 24, 12, "freeze:layers=9"),
        ("freeze:layers=9", 12, 12, "freeze:layers=9"),
        ("gradual:every=50", 12, 4, "gradual:every=50"),
        ("full", 12, 4, "full"),
    ],
)
def test_frozen_layers_are_translated_in_proportion(text: str, layers: int, ours: int, expected: str) -> None:
    assert on_layers(text, layers, ours) == expected


@given(st.integers(1, 24), st.integers(2, 24))
def test_something_stays_tuned_where_the_paper_tunes_something(frozen: int, ours: int) -> None:
    translated = read_method(on_layers(f"freeze:layers={frozen}", 24, ours))
    assert isinstance(translated, Freeze)
    assert (translated.layers == ours) == (frozen == 24)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gradual:every=800", "gradual:every=24"),  # 800 x 12 of 12000 steps, 24 x 4 of 120
        ("fun:every=800,batches=40", "fun:every=24,batches=8"),
        ("random:every=1", "random:every=1"),
        ("graddrop:p=0.2", "graddrop:p=0.2"),
    ],
)
def test_layers_open_after_the_same_share_of_the_training(text: str, expected: str) -> None:
    expected_method = read_method(expected)
    assert read_method(on_steps(text, 12, 12000, 4, 120)) == expected_method


def test_adapters_keep_their_share_of_the_width() -> None:
    assert on_width("houlsby:size=256,lr=1e-4", 768, 96) == "houlsby:size=32"
    assert on_width("houlsby:lr=1e-4,size=64", 768, 48) == "houlsby:size=4"
    assert on_width("pfeiffer:reduction=16", 768, 96) == "pfeiffer:reduction=16"
    assert on_width("houlsby:size=64,tapt_epochs=100,tapt_batch=256", 768, 768) == "houlsby:size=64,tapt_epochs=2"


def test_searched_rates_keep_their_ratio_to_that_of_the_runs() -> None:
    assert on_rate("lr=2e-5,4e-5,1e-4", 2e-5, 1e-3) == "lr=0.001,0.002,0.005"
