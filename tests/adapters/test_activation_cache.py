"""The activation cache on models with adapters: what a closed layer gives out depends on its adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

import gradgate as gg
from gradgate import adapters
from support.cached_loop import ROWS, assert_close, run
from support.crossed import each_once
from support.loop import build


def adapted(kind: str = "houlsby:size=4") -> PreTrainedModel:
    model = build("bert", dropout=True)
    adapters.add(model, "task", kind)
    return model


@each_once("kind", ["houlsby:size=4", "pfeiffer+inv:reduction=2"], "method", ["freeze:layers=2", "gradual:every=4"])
def test_the_cache_gives_the_losses_and_weights_of_none(kind: str, method: str, tmp_path: Path) -> None:
    cached = run(lambda: adapted(kind), method, tmp_path, epochs=4)
    assert cached.rows is not None
    assert cached.rows.read > 0
    assert cached.notes == []
    assert_close(cached, run(lambda: adapted(kind), method, epochs=4))


def test_below_an_adapter_that_learns_nothing_is_kept(tmp_path: Path) -> None:
    done = run(adapted, "full", tmp_path)
    assert done.rows is not None
    assert (done.rows.read, done.rows.computed) == (0, 0)


def test_adapters_that_compute_something_else_with_equal_weights_share_no_rows(tmp_path: Path) -> None:
    for kind in ("double_seq_bn", "double_seq_bn:scaling=2.0", "double_seq_bn:adapter_residual_before_ln=true"):
        done = run(lambda kind=kind: adapted(f"{kind}{',' if ':' in kind else ':'}size=4"), "head", tmp_path)
        assert done.rows is not None
        assert done.rows.computed == ROWS


def test_another_active_adapter_makes_rows_stale(tmp_path: Path) -> None:
    def two() -> PreTrainedModel:
        model = adapted()
        adapters.add(model, "other", "houlsby:size=4,init_std=0.5", train=False, seed=1)
        return model

    def switching(model: Any, tuner: Any) -> None:
        adapters.activate(model, "other" if tuner.clock.step >= 6 else "task")

    cached = run(two, "groups:open=head", tmp_path, each_step=switching)
    assert cached.rows is not None
    assert cached.rows.read > 0
    assert_close(cached, run(two, "groups:open=head", each_step=switching))


@pytest.mark.parametrize("method", ["full", "freeze:layers=2", "gradual:every=50"])
@pytest.mark.parametrize("is_first", [True, False])
def test_adapters_are_dropped_whether_the_tuner_was_there_before_or_not(method: str, is_first: bool) -> None:
    model = adapted().train()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-3)
    drop = adapters.RandomDrop(model, most=2, seed=7) if is_first else None
    tuner = gg.Tuner(model, optimizer, method, total_steps=40, steps_per_epoch=10)
    drop = drop or adapters.RandomDrop(model, most=2, seed=7)
    inputs = torch.arange(4)[None]
    for _ in range(3):
        model(input_ids=inputs)
    assert drop.step == 3
    model.eval()
    model(input_ids=inputs)
    assert drop.step == 3
    tuner.detach()


def test_layers_whose_adapters_are_dropped_at_random_are_computed_as_usual(tmp_path: Path) -> None:
    def dropping() -> PreTrainedModel:
        model = adapted()
        adapters.RandomDrop(model, most=2)
        return model

    cached = run(dropping, "head", tmp_path)
    assert cached.notes == [
        "The activation cache is not used: adapters are dropped at random. Closed layers are computed as usual."
    ]
    assert_close(cached, run(dropping, "head"))
