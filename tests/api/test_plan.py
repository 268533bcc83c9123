"""``gg.plan`` against what the methods define, and against what runs train."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import GradgateError, UsageError
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import foresee
from support.loop import adamw, build

HEAD, EMBEDDINGS = "head", "embeddings"


def opened(method: str, steps: int = 12, **settings: Any) -> list[tuple[int, set[str]]]:
    """Return the steps at which phases begin, with the groups that are open from there."""
    return [(phase.step, set(phase.gates)) for phase in gg.plan(method=method, steps=steps, **settings).phases]


def test_full_opens_everything_at_once() -> None:
    found = gg.plan(method="full", steps=12)
    assert [phase.step for phase in found.phases] == [0]
    assert set(found.phases[0].gates) == set(found.groups)
    assert found.mean_share == 1.0


def test_gradual_opens_from_the_top_and_the_embeddings_last() -> None:
    phases = opened("gradual:every=3")
    assert [step for step, _ in phases] == [0, 2, 5, 8]
    assert phases[0][1] == {"layers.3", HEAD}
    for (_, before), (_, after) in pairwise(phases):
        assert before < after
    assert EMBEDDINGS in phases[-1][1]
    assert not any(EMBEDDINGS in groups for _, groups in phases[:-1])


def test_frozen_layers_are_the_lowest_and_the_embeddings() -> None:
    assert opened("freeze:layers=2") == [(0, {"layers.2", "layers.3", HEAD})]
    assert opened("freeze:layers=0") == [(0, {*(f"layers.{n}" for n in range(4)), HEAD})]


def test_mean_share_is_the_share_of_weights_that_are_open() -> None:
    found = gg.plan(method="freeze:layers=2", steps=12)
    learns = sum(found.sizes[name] for name in ("layers.2", "layers.3", HEAD))
    assert found.mean_share == pytest.approx(learns / sum(found.sizes.values()), abs=1e-12)


def test_an_adapter_alone_learns_below_the_head() -> None:
    found = gg.plan(method="lora:r=8", steps=12).mean_shares()
    wider = gg.plan(method="lora:r=16", steps=12).mean_shares()
    assert found[EMBEDDINGS] == 0.0
    assert found[HEAD] == 1.0
    assert 0 < found["layers.0"] < wider["layers.0"] < 0.1


def test_a_run_of_an_adapter_writes_the_plan_that_was_foreseen(settings: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    arm = "lora:r=4 + gradual:every=1"
    gg.train(**settings | {"method": arm, "steps": 3}, out=tmp_path / "run", quiet=True)
    written = read_timeline(tmp_path / "run" / "plan.yaml")
    foreseen = gg.plan(settings["model"], arm, task=settings["task"], steps=3)
    assert written.mean_shares() == foreseen.mean_shares()
    assert written.first_steps() == foreseen.first_steps()
    assert EMBEDDINGS not in written.first_steps()


def test_the_seed_decides_a_drawn_plan() -> None:
    drawn = [gg.plan(method="lisa:layers=1,every=2", steps=12, seed=seed).to_yaml() for seed in (0, 0, 1, 2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_a_plan_file_is_the_method_that_wrote_it(tmp_path: Path) -> None:
    planned = gg.plan(method="gradual:every=3", steps=12)
    file = tmp_path / "plan.yaml"
    file.write_text(planned.to_yaml())
    assert opened(f"plan:{file}") == opened("gradual:every=3")
    assert gg.plan(method=f"plan:{file}", steps=12).mean_share == planned.mean_share


def test_wrong_plans_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="steps=0"):
        gg.plan(method="full", steps=0)
    with pytest.raises(GradgateError, match="Did you mean 'gradual' or"):
        gg.plan(method="gradul", steps=4)
    with pytest.raises(GradgateError, match="layers=9"):
        gg.plan(method="freeze:layers=9", steps=4)
    with pytest.raises(GradgateError, match="nowhere"):
        gg.plan(model=tmp_path / "nowhere", method="full", steps=4)


def test_a_plan_of_single_weights_says_that_it_opens_whole_groups(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(gg.plan(method="bitfit", steps=4).to_yaml())
    with pytest.warns(UserWarning, match="of which bitfit opened single weights"):
        gg.plan(method=f"plan:{file}", steps=4)


def test_epochs_that_do_not_divide_the_steps_are_as_many_as_asked_for() -> None:
    starts = [phase.step for phase in gg.plan(method="gradfreeze:layers_per_epoch=1", steps=100, epochs=3).phases]
    assert starts == [0, 34, 68]
    annealed = gg.plan(method="anneal-graddrop", steps=10, epochs=4).phases
    rates = {gate.lo for phase in annealed for gate in phase.gates.values()}
    assert sorted(rates) == pytest.approx([0.0, 0.3, 0.6, 0.9])


@pytest.mark.parametrize("text", ["graddrop:p=0.5,mask_scope=attention", "mofo:alpha=0.1", "graddrop:p=0.5"])
def test_the_foreseen_share_is_that_of_the_steps(text: str) -> None:
    model = build("bert")
    foreseen = foresee(gg.method(text), gg.map_layers(model), gg.Clock(0, 4, 4)).mean_share
    with gg.Tuner(model, adamw(model), text) as tuner:
        assert foreseen == pytest.approx(tuner.open_fraction)
