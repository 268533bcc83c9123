"""Factors on the learning rate: which a method gives to each layer, how methods join, and plan files with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from gradgate import (
    LPFT,
    Clock,
    Combined,
    Full,
    GradDrop,
    GradFreeze,
    Gradual,
    LayerMap,
    LayerwiseRates,
    Method,
    MethodState,
    Tuner,
    method,
)
from gradgate.errors import AttachError, MethodError
from gradgate.methods import RateModifier
from gradgate.methods.phases import Phase
from gradgate.methods.plan_file import read_plan
from gradgate.methods.timeline import foresee
from support.loop import adamw, build, fisher_data, train
from support.schedules import stack

THREE = stack(3)


def factors(one: Method, steps: int, layers: LayerMap = THREE, **clock: int) -> list[dict[str, float]]:
    """For each step the factor of every group that is open."""
    plans = (one.plan(Clock(done, **clock), layers, MethodState()) for done in range(steps))
    return [{name: gate.lr for name, gate in plan.items() if not gate.closed} for plan in plans]


# The factors.


def test_each_layer_learns_at_the_rate_of_the_one_above_it_over_2_6() -> None:
    rates = LayerwiseRates().rates(Clock(), THREE, MethodState())
    assert rates["head"] == 1.0
    assert rates["layers.2"] == 1 / 2.6
    assert rates["layers.0"] == pytest.approx(2.6**-3)
    assert rates["embeddings"] == pytest.approx(2.6**-4)
    assert tuple(rates) == THREE.names


def test_without_a_head_the_top_layer_has_the_full_rate() -> None:
    assert LayerwiseRates(decay=0.5).rates(Clock(), stack(2, head=False), MethodState()) == {
        "embeddings": 0.25,
        "layers.0": 0.5,
        "layers.1": 1.0,
    }


@pytest.mark.parametrize("decay", ["0", "-0.5", "1.5", "nan"])
def test_a_decay_out_of_range_is_refused(decay: str) -> None:
    with pytest.raises(MethodError, match=r"cannot have decay=.* \(expected 0 < decay <= 1\)"):
        method(f"layerwise-lr:decay={decay}")


def test_what_opens_late_warms_up_and_what_was_open_does_not() -> None:
    first, *rest = factors(Gradual(every=3, warm_open=4), 12)
    assert first == {"layers.2": 1.0, "head": 1.0}
    # Opened by the papers' step 3, which is after two done ones.
    assert [now.get("layers.1") for now in rest[:6]] == [None, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert [now.get("layers.0") for now in rest[3:9]] == [None, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert all(now.get("embeddings") == now.get("layers.0") for now in rest)
    assert all(now["head"] == now["layers.2"] == 1.0 for now in rest)


def test_every_layer_of_lpft_warms_up_with_the_embeddings() -> None:
    warm = factors(LPFT(every=2, warm_open=2), 4)
    assert warm[1] == {"head": 1.0}
    assert warm[2] == {**dict.fromkeys(THREE.names, 0.5), "head": 1.0}
    assert warm[3] == dict.fromkeys(THREE.names, 1.0)
    assert factors(LPFT(every=2, warm_open=2, freeze_embeddings="never"), 3)[2]["embeddings"] == 1.0


@pytest.mark.parametrize("cumulative", [True, False])
def test_gradfreeze_warms_up_from_the_first_step_of_an_epoch(cumulative: bool) -> None:
    schedule = GradFreeze(layers_per_epoch=1, warm_open=2, cumulative=cumulative)
    seen = factors(schedule, 12, steps_per_epoch=3, total_steps=12)
    assert seen[0] == {"layers.2": 1.0, "head": 1.0}
    assert [now.get("layers.1") for now in seen[2:6]] == [None, 0.5, 1.0, 1.0]
    assert ("layers.1" in seen[6]) == cumulative
    assert [now.get("layers.0") for now in seen[5:]] == [None, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_a_schedule_without_warm_up_has_no_factors() -> None:
    assert Gradual(every=3, warm_open=1).plan(Clock(5), THREE, MethodState()) == Gradual(every=3).plan(
        Clock(5), THREE, MethodState()
    )
    assert Gradual(every=3, warm_open=4, freeze_embeddings="never", order="bottom-up").spec == (
        "gradual:every=3,freeze_embeddings=never,warm_open=4,order=bottom-up"
    )
    with pytest.raises(MethodError, match=r"warm_open=-1 \(expected 0 or more"):
        Gradual(warm_open=-1)


def test_fun_warms_up_what_it_measured() -> None:
    model = build("bert")
    optimizer = adamw(model)
    seen: list[dict[str, float]] = []
    with Tuner(model, optimizer, "fun:every=2,batches=1,warm_open=2", fisher_data=fisher_data(model)) as tuner:
        train(model, optimizer, 5, after=lambda _: seen.append({n: g.lr for n, g in tuner.plan.items()}))
        events = tuner.memory.notes["order"]
    # Measured after 1 and 3 steps.
    assert [event["step"] for event in events] == [1, 3]
    for event in events:
        name = f"layers.{event['layer']}"
        assert [seen[event["step"] - 1][name], seen[event["step"]][name]] == [0.5, 1.0]


# Joined methods.


def test_methods_join_by_a_plus() -> None:
    joined = method("gradual:every=50+layerwise-lr:decay=0.9")
    assert joined == Combined(methods=(Gradual(every=50), LayerwiseRates(decay=0.9)))
    assert joined.spec == "gradual+layerwise-lr:decay=0.9"
    assert method(joined.spec) == joined
    assert method(" full + layerwise-lr ") == Combined(methods=(Full(), LayerwiseRates()))


def test_the_first_of_joined_methods_opens_and_the_factors_multiply() -> None:
    joined = method("gradual:every=2,warm_open=2+layerwise-lr:decay=0.5+layerwise-lr:decay=0.1")
    joined.check(THREE)
    assert factors(joined, 2)[0] == {"layers.2": pytest.approx(0.05), "head": 1.0}
    assert factors(joined, 2)[1]["layers.1"] == pytest.approx(0.5 * 0.25 * 0.01)
    assert joined.reaches(THREE) == set(THREE.names)
    assert method("head+layerwise-lr").reaches(THREE) == {"head"}


def test_a_sparse_gate_keeps_its_window_at_another_rate() -> None:
    plan = method("graddrop:p=0.2+layerwise-lr:decay=0.5").plan(Clock(4), THREE, MethodState())
    alone = GradDrop(p=0.2).plan(Clock(4), THREE, MethodState())
    assert plan["layers.1"].lr == 0.25
    assert {**vars(plan["layers.1"]), "lr": 1.0} == vars(alone["layers.1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradual+graddrop", r"'gradual\+graddrop' is not a valid combination: .*'graddrop' decides that as well"),
        ("layerwise-lr+gradual:every=4", r"the first method decides .*'gradual:every=4' decides"),
        ("probe:c=1+mixout", r"'probe:c=1\.0' takes no training steps.* train the head with 'head\+mixout'"),
        ("gradual+layerwise", r"There is no method 'layerwise'\. Did you mean 'layerwise-lr'"),
        ("gradual+", r"There is no method 'gradual\+'"),
    ],
)
def test_other_combinations_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        method(text)


def test_one_method_is_no_combination() -> None:
    with pytest.raises(MethodError, match="there is no second method"):
        Combined(methods=(Full(),))


def test_a_plus_in_a_number_or_a_path_joins_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a+b.yaml"
    file.write_text("phases: [{step: 0, open: [head]}]")
    assert method(f"plan:{file}").spec == f"plan:{file}"
    joined = method(f"plan:{file}+layerwise-lr")
    assert isinstance(joined, Combined)
    assert method(joined.spec) == joined
    assert method("layerwise-lr:decay=1e+0") == LayerwiseRates(decay=1.0)


def test_a_joined_method_may_measure() -> None:
    model = build("bert")
    joined = "fun:every=2,batches=1+layerwise-lr:decay=0.5"
    with pytest.raises(AttachError, match="measures the Fisher information"):
        Tuner(model, adamw(model), joined)
    optimizer = adamw(model)
    with Tuner(model, optimizer, joined, fisher_data=fisher_data(model)) as tuner:
        train(model, optimizer, 2)
        assert len(tuner.memory.notes["order"]) == 1
    with pytest.raises(MethodError, match="decides by what it measures"):
        foresee(method(joined), THREE, Clock(total_steps=4))


# Plan files.


def test_factors_are_written_down_and_read_back(tmp_path: Path) -> None:
    one = method("graddrop-epoch-toggle+layerwise-lr:decay=0.5")
    clock = Clock(steps_per_epoch=2, total_steps=6)
    timeline = foresee(one, THREE, clock)
    file = tmp_path / "plan.yaml"
    file.write_text(timeline.to_yaml())
    again = read_plan(str(file))
    assert list(again.phases) == timeline.phases
    for done in range(6):
        now = Clock(done, 2, 6)
        assert again.plan(now, THREE, MethodState()) == one.plan(now, THREE, MethodState())


def test_a_factor_of_one_is_not_written() -> None:
    assert Phase.of(0, Full().plan(Clock(), THREE, MethodState())).to_dict() == {"step": 0, "open": list(THREE.names)}


@pytest.mark.parametrize(
    ("lr", "message"),
    [
        ({"head": 0.0}, "lr of head is 0.0: expected a factor above 0"),
        ({"head": float("nan")}, "lr of head is nan"),
        ({"layers.0": 0.5}, r"lr names 'layers\.0', which is closed"),
        ({"head": "fast"}, "is not a plan"),
        ([1], "is not a plan"),
    ],
)
def test_a_factor_that_cannot_be_is_refused(tmp_path: Path, lr: Any, message: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({"phases": [{"step": 0, "open": ["head"], "lr": lr}]}))
    with pytest.raises(MethodError, match=message):
        read_plan(str(file))


def test_a_method_of_ones_own_may_scale_rates() -> None:
    @dataclass(frozen=True, kw_only=True)
    class SlowStart(RateModifier):
        name: ClassVar[str] = "slow-start"
        summary: ClassVar[str] = "half the rate in the first steps"
        source: ClassVar[str] = "here"

        def rates(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Mapping[str, float]:
            return dict.fromkeys(layers.names, 0.5 if clock.step < 2 else 1.0)

    joined = Combined(methods=(Gradual(every=1), SlowStart()))
    assert [set(now.values()) for now in factors(joined, 3)] == [{0.5}, {0.5}, {1.0}]
