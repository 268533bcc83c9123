"""Six methods on the embedded sample have the recorded plans, memory estimates and first losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import gradgate as gg
from support.contract import check_json
from support.crossed import some_fast

METHODS = (
    "full",
    "freeze:layers=2",
    "gradual:every=2",
    "graddrop",
    "lisa:layers=1,every=2",
    "fun:unit=part,every=1,batches=2",
)
STEPS = 6
OTHER_BUILD = 1e-6  # another build of torch, or another processor, may sum in another order


@some_fast("method", METHODS, ["full", "gradual:every=2", "graddrop"])
def test_plan_and_losses_are_recorded(method: str, tmp_path: Path) -> None:
    run = gg.train(
        method=method,
        model="sample",
        task="sample",
        languages="en",
        train_size=64,
        dev_size=16,
        max_length=32,
        batch_size=8,
        steps=STEPS,
        lr=1e-3,
        seed=3,
        device="cpu",
        threads=1,
        skip_test=True,
        keep_model=False,
        activation_cache="off",
        out=tmp_path / "run",
        quiet=True,
    )
    history = run.history
    losses = history[history["split"] == "train"]["loss"].tolist()
    assert len(losses) == STEPS
    plan = yaml.safe_load((run.path / "plan.yaml").read_text(encoding="utf-8"))
    check_json(f"numbers/{_stem(method)}.json", {"plan": plan, "losses": losses[:3]}, rel=OTHER_BUILD)


@some_fast("method", METHODS, ["full", "gradual:every=2", "lisa:layers=1,every=2"])
def test_memory_estimates_are_recorded(method: str) -> None:
    check_json(f"numbers/memory-{_stem(method)}.json", _figures(method), rel=OTHER_BUILD)


def _figures(method: str) -> Any:
    estimate = gg.estimate_memory("sample", method, batch_size=8, max_length=32, total_steps=STEPS, steps_per_epoch=8)
    peaks = [[phase.step, phase.steps, phase.usage.peak] for phase in estimate.phases]
    return {**estimate.to_dict(), "peaks": peaks}


def _stem(method: str) -> str:
    return method.partition(":")[0]
