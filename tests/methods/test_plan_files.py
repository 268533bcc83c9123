"""Plans of whole trainings: foreseen by changes, written as a file, read back, and followed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gradgate import Clock, Method, MethodInfo, MethodState, Plan, Tuner, map_layers, method
from gradgate.errors import MethodError
from gradgate.methods import OPEN, Gate, plan_file
from gradgate.methods.phases import Phase
from gradgate.methods.plan_file import PlanFile, read_plan, read_timeline
from gradgate.methods.timeline import Timeline, changes, foresee
from support.every_method import EVERY_METHOD, FOUR, a_method
from support.loop import adamw, assert_same_weights, build, train

GROUPS = FOUR.names


def step_by_step(method: Method, clock: Clock, seed: int) -> Timeline:
    """The definition of a timeline: one plan for each step."""
    timeline = Timeline()
    for step in range(clock.known_total):
        timeline.record(step, method.plan(replace(clock, step=step), FOUR, MethodState(seed)))
    return timeline.described(method, FOUR, clock.known_total)


@EVERY_METHOD
@settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=30)
@given(data=st.data(), length=st.integers(1, 20), total=st.integers(1, 60), seed=st.integers(0, 3))
def test_what_is_foreseen_is_the_plan_of_each_step(
    entry: MethodInfo, data: st.DataObject, length: int, total: int, seed: int
) -> None:
    drawn = data.draw(a_method(entry))
    clock = Clock(0, length, total)
    try:
        drawn.check(FOUR)
        plans = list(changes(drawn, FOUR, clock, MethodState(seed)))
    except MethodError:
        assume(False)
    foreseen = Timeline()
    for now, plan in plans:
        foreseen.record(now.step, plan)
    assert foreseen.described(drawn, FOUR, total) == step_by_step(drawn, clock, seed)
    if drawn.traits.decides_by_measuring:
        return
    assert foresee(drawn, FOUR, clock, seed).phases == foreseen.phases
    followed = PlanFile(file="plan.yaml", phases=tuple(foreseen.phases))
    again = foresee(followed, FOUR, clock)
    assert again.phases == foreseen.phases
    for step in range(total):
        now = replace(clock, step=step)
        assert Phase.of(0, followed.plan(now, FOUR, MethodState())) == Phase.of(
            0, drawn.plan(now, FOUR, MethodState(seed))
        )


@pytest.mark.parametrize(
    "text", ["full", "gradual:every=100", "graddrop", "lisa:every=50000", "graddrop-epoch", "gradual+layerwise-lr"]
)
def test_a_long_training_is_foreseen_by_its_changes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    chosen = method(text)
    plan = type(chosen).plan

    def counted(*arguments: Any) -> Plan:
        nonlocal calls
        calls += 1
        return plan(*arguments)

    monkeypatch.setattr(type(chosen), "plan", counted)
    timeline = foresee(chosen, FOUR, Clock(0, 100_000, 1_000_000))
    assert calls <= 21
    assert timeline.shares(50).shape == (len(GROUPS), 50)
    assert set(timeline.mean_shares()) == set(GROUPS)


def test_a_method_that_goes_back_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = method("full")
    monkeypatch.setattr(type(chosen), "next_change", lambda *arguments: 0)
    with pytest.raises(MethodError, match=r"Full\.next_change\(\) gives 0 at step 0\. Expected a later step"):
        foresee(chosen, FOUR, Clock(0, 1, 10))


# Shares.

gates = st.sampled_from([OPEN, Gate(lo=0.25), Gate(lo=0.5, hi=0.75), Gate(hi=0.0, hold=False)])


@given(
    st.dictionaries(st.integers(0, 29), st.dictionaries(st.sampled_from(GROUPS), gates), min_size=1),
    st.lists(st.integers(0, 30), min_size=2).map(sorted),
)
def test_shares_are_means_over_steps(phases: dict[int, dict[str, Gate]], edges: list[int]) -> None:
    starts = [0, *sorted(phases)[1:]]
    timeline = Timeline([Phase(s, phases[k]) for s, k in zip(starts, sorted(phases), strict=True)], "", 30, GROUPS)
    current = [
        max((phase for phase in timeline.phases if phase.step <= step), key=lambda p: p.step) for step in range(30)
    ]
    dense = np.array([[phase.gates.get(name, Gate(hi=0.0)).share for phase in current] for name in GROUPS])
    pairs = list(pairwise(edges))
    wanted = [dense[:, a:b].mean(axis=1) if a < b else dense[:, min(a, 29)] for a, b in pairs]
    np.testing.assert_allclose(timeline.shares_between(edges), np.array(wanted).T, atol=1e-12)
    np.testing.assert_allclose(list(timeline.mean_shares().values()), dense.mean(axis=1), atol=1e-12)
    first = {name: int(np.flatnonzero(row)[0]) for name, row in zip(GROUPS, dense, strict=True) if row.any()}
    assert timeline.first_steps() == first


# Files.


def write(path: Path, phases: Any) -> str:
    path.write_text(yaml.safe_dump({"phases": phases}))
    return str(path)


def test_a_file_reads_back_as_the_timeline_that_was_written(tmp_path: Path) -> None:
    timeline = foresee(method("graddrop-epoch-toggle+layerwise-lr:decay=0.5"), FOUR, Clock(0, 3, 10))
    (tmp_path / "plan.yaml").write_text(timeline.to_yaml())
    assert read_timeline(tmp_path / "plan.yaml") == timeline


def test_a_file_trains_as_the_method_that_it_was_written_for(tmp_path: Path) -> None:
    # A drawn layer restarts its optimizer, weights are mixed, and the model's dropout is off.
    own, file = "lisa:layers=1,every=1+mixout:p=0.5", tmp_path / "plan.yaml"
    file.write_text(foresee(method(own), map_layers(build("bert")), Clock(0, 2, 4)).to_yaml())
    trained = []
    for text in (own, f"plan:{file}"):
        model = build("bert", dropout=True)
        optimizer = adamw(model)
        torch.manual_seed(0)
        with Tuner(model, optimizer, text):
            train(model, optimizer, 4)
        trained.append(model)
    assert_same_weights(*trained)


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ("drop", "traits is 'drop': expected a mapping"),
        ({"state": "drop"}, "unknown entry 'state' of traits; expected state_of_closed, "),
        ({"state_of_closed": "Drop"}, "state_of_closed is 'Drop': expected keep, reset, drop, offload"),
        ({"mixing": {"p": 2, "unit": "neuron"}}, r"mixing is .*: expected values such as \{p: 0\.9"),
    ],
)
def test_other_traits_in_a_file_are_refused(traits: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({"phases": [{"step": 0, "open": ["head"]}], "traits": traits}))
    with pytest.raises(MethodError, match=f"is not a plan: {message}"):
        read_plan(str(tmp_path / "plan.yaml"))


def test_a_plan_is_hashable_and_is_told_apart_by_what_it_holds(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", [{"step": 0, "open": ["head"], "sparse": {"layers.0": {"lo": 0, "hi": 0.5}}}])
    first = read_plan(file)
    assert {first, read_plan(file)} == {first}
    assert read_plan(file).fingerprint == first.fingerprint
    write(tmp_path / "a.yaml", [{"step": 0, "open": ["head", "layers.0"]}])
    edited = read_plan(file)
    assert edited != first
    assert edited.fingerprint != first.fingerprint
    assert edited.spec == first.spec == f"plan:{file}"
    assert method(f"{edited.spec}+mixout").fingerprint == f"{edited.fingerprint}+mixout"


def test_the_fingerprint_of_other_methods_is_their_text() -> None:
    assert method("gradual:every=5").fingerprint == "gradual:every=5"


def test_a_long_plan_is_followed_without_going_through_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = tuple(Phase(step, {"head": OPEN}) for step in range(5_000))
    followed = PlanFile(file="plan.yaml", phases=phases)
    followed.check(FOUR)
    monkeypatch.setattr(plan_file.Phase, "plan", lambda *arguments: Plan(dict.fromkeys(GROUPS, OPEN)))
    assert followed.reaches(FOUR) is followed.reaches(FOUR)
    assert followed.next_change(Clock(17, 1, 9_999), FOUR, MethodState()) == 18
    assert followed.next_change(Clock(4_999, 1, 9_999), FOUR, MethodState()) is None
