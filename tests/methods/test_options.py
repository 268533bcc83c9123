"""Options set in Python have the types that a method declares, as those of a text have."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import gradgate as gg
from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.fixed import NamedGroups
from gradgate.methods.graddrop import GradDrop
from gradgate.methods.gradfreeze import GradFreeze
from gradgate.methods.options import choices, idle_options
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState
from gradgate.methods.unfreezing import GivenOrder


@pytest.mark.parametrize("two", [2, 2.0, "2", np.int64(2), np.float32(2), torch.tensor(2)])
def test_a_whole_number_is_one_however_it_is_written(two: Any) -> None:
    method = gg.Freeze(layers=two)
    assert method == gg.Freeze(layers=2)
    assert type(method.layers) is int
    assert method.spec == "freeze:layers=2"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: GradFreeze(cumulative="False"), GradFreeze(cumulative=False)),
        (lambda: GradDrop(p="0.25"), GradDrop(p=0.25)),
        (lambda: NamedGroups(open=["head", "layers.0"]), NamedGroups(open=("head", "layers.0"))),
        (lambda: NamedGroups(open="head/layers.0"), NamedGroups(open=("head", "layers.0"))),
        (lambda: GivenOrder(layers=[1, 0]), GivenOrder(layers=(1, 0))),
        (lambda: replace(gg.Freeze(layers=1), layers="all"), gg.Freeze(layers="all")),
    ],
)
def test_values_are_read_as_those_of_a_text(made: Any, expected: Any) -> None:
    assert made() == expected


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        (gg.Freeze, {"layers": 2.5}, "layers=2.5"),
        (gg.Freeze, {"layers": True}, "layers=True"),
        (gg.Freeze, {"layers": [2]}, r"layers=\[2\]"),
        (gg.Freeze, {"layers": 1, "tower": 3}, r"tower=3 \(expected text\)"),
        (gg.Gradual, {"every": "often"}, r"every='often' \(expected a whole number\)"),
        (gg.Gradual, {"every": None}, r"every=None \(expected a whole number\)"),
        (gg.Gradual, {"every": 2, "warm_open": "a"}, r"warm_open='a' \(expected a whole number\)"),
        (GradDrop, {"p": "half"}, r"p='half' \(expected a number\)"),
        (GradDrop, {"p": True}, "p=True"),
        (GradFreeze, {"cumulative": "maybe"}, r"cumulative='maybe' \(expected true or false\)"),
        (NamedGroups, {"open": 3}, "open=3"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(MethodError, match=f"The method '{kind.name}' cannot have {named}"):
        kind(**options)


def test_all_wrong_types_are_named_at_once() -> None:
    with pytest.raises(MethodError, match=r"every='a' .*; warm_open='b' "):
        gg.Gradual(every="a", warm_open="b")


@pytest.mark.parametrize(
    ("idle", "acting"),
    [
        ("graddrop-epoch:p=0.5", "graddrop-epoch:p=0.5,epoch_release=hazard"),
        ("lisa:batches=1", "lisa:batches=1,draw=outlier"),
        ("lisa:threshold=2,draw=gradient", "lisa:threshold=2,draw=outlier"),
        ("lisa:temperature=9,draw=outlier", "lisa:temperature=9,draw=gradient"),
        ("sparse:rank=1", "sparse:rank=1,by=lift"),
        ("sparse:batches=1,by=lift", "sparse:batches=1,by=gradient"),
        ("child-tuning:fisher_labels=sample", "child-tuning:fisher_labels=sample,mode=D"),
        ("gradual:every=1,rev_start=none", "gradual:every=1,rev_start=none,order=bottom-up"),
    ],
)
def test_an_option_that_another_one_makes_idle_is_told_of(idle: str, acting: str) -> None:
    (told,) = idle_options(gg.method(idle))
    assert "has no effect with" in told
    assert not idle_options(gg.method(acting))


def test_options_act_with_values_that_another_option_can_have() -> None:
    declared = [
        (entry.cls, other, values)
        for entry in gg.methods()
        for option in fields(entry.cls)
        for other, values in option.metadata.get("acts_if", {}).items()
    ]
    assert declared
    for cls, other, values in declared:
        assert {*values} <= {*choices(cls)[other]}


@dataclass(frozen=True, kw_only=True)
class _Own(gg.Method):
    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "opens the lowest layers"
    source: ClassVar[str] = "this test"

    layers: int
    weigh: dict[str, float] | None = None

    def __post_init__(self) -> None:
        self._require(layers=(self.layers > 0, "1 or more"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan.opening(layers, {group.name: True for group in layers.layers[: self.layers]})


def test_a_method_of_ones_own_finds_converted_options_in_its_check() -> None:
    assert _Own(layers="3").layers == 3
    with pytest.raises(MethodError, match=r"layers=0 \(expected 1 or more\)"):
        _Own(layers="0")


def test_options_that_no_text_sets_stay_the_same_object() -> None:
    weigh = {"head": 2.0}
    assert _Own(layers=1, weigh=weigh).weigh is weigh
