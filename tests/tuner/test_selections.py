"""Only the selected weights learn: parameters of any part, and rows of a table."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import gradgate as gg
from gradgate.clock import Clock
from gradgate.errors import MethodError, SelectorError
from gradgate.methods.timeline import foresee
from support.crossed import some_fast
from support.loop import Weights, adamw, build, momentum, moved, same, train, weights

TABLE = "model.embed_tokens.weight"


def trained(text: str, name: str = "llama", steps: int = 5, **options: Any) -> tuple[Weights, nn.Module, gg.Tuner]:
    model = build(name)
    before, optimizer = weights(model), options.pop("optimizer", adamw)(model)
    with gg.Tuner(model, optimizer, text, audit=True, **options) as tuner:
        train(model, optimizer, steps)
    return before, model, tuner


@pytest.mark.parametrize(
    ("method", "selector"),
    [
        ("groups:open=@norm/layers.top1.mlp", "@norm/layers.top1.mlp"),
        ("groups:open=layers/head", "layers/head"),
        ("groups:closed=@attention/embeddings", "layers/head/!@attention"),
        ("freeze:only=layers.*.mlp", "embeddings/layers/head/!@mlp"),
    ],
)
def test_what_is_selected_learns_and_nothing_else_moves(method: str, selector: str) -> None:
    before, model, tuner = trained(method)
    expected = gg.select(model, selector)
    assert moved(before, model) == set(expected.names)
    assert tuner.parameters_opened == expected.count


@pytest.mark.parametrize("text", ["full", "groups:open=@attention", "groups:open=embeddings[90:]/layers.2"])
def test_a_plan_foresees_the_share_of_the_weights_that_learns(text: str) -> None:
    _, _, tuner = trained(text)
    assert foresee(gg.method(text), tuner.layers, Clock(0, 1, 5)).mean_share == pytest.approx(tuner.open_fraction)


@some_fast("make", [adamw, momentum], [adamw])
def test_closed_rows_keep_every_bit_under_weight_decay(make: Any) -> None:
    before, model, tuner = trained("groups:open=embeddings[90:]/layers.2", steps=20, optimizer=make)
    table = model.get_parameter(TABLE)
    assert same(table[:90], before[TABLE][:90])
    assert not (table[90:] == before[TABLE][90:]).all(1).any(), "weight decay moves every open row"
    assert moved(before, model) == {TABLE, *gg.select(model, "layers.2").names}
    assert tuner.parameters_opened == gg.select(model, "embeddings[90:]/layers.2").count
    assert tuner.open_fraction == pytest.approx(tuner.parameters_opened / tuner.layers.parameter_count)


def test_rows_of_a_tied_table_are_closed_at_both_ends() -> None:
    before, model, _ = trained("groups:open=head[80:]/layers.2", "gpt2", steps=10)
    table = model.get_parameter("transformer.wte.weight")
    assert same(table[:80], before["transformer.wte.weight"][:80])
    assert not same(table[80:], before["transformer.wte.weight"][80:])


def test_open_rows_learn_as_if_the_others_were_not_there() -> None:
    _, model, _ = trained("groups:open=embeddings[40:]", steps=5, optimizer=momentum)
    alone = build("llama")
    table = alone.get_parameter(TABLE)
    for name, parameter in alone.named_parameters():
        parameter.requires_grad_(name == TABLE)
    optimizer = torch.optim.SGD([table], lr=0.1, momentum=0.9, weight_decay=0.1)
    start = table.detach()[:40].clone()

    def put_back(_: int) -> None:
        with torch.no_grad():
            table[:40] = start

    train(alone, optimizer, 5, after=put_back)
    assert torch.equal(model.get_parameter(TABLE), table)


def test_a_saved_state_goes_on_with_its_rows() -> None:
    _, unbroken, _ = trained("groups:open=embeddings[50:]/head", steps=8)
    model = build("llama")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "groups:open=embeddings[50:]/head") as tuner:
        train(model, optimizer, 4)
        state = tuner.state_dict()
    with gg.Tuner(model, optimizer, "groups:open=embeddings[50:]/head", state=state):
        train(model, optimizer, range(4, 8))
    assert not moved(weights(unbroken), model)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("groups:open=@vison", SelectorError, "there is no mark '@vison'"),
        ("groups:open=embeddings[500:]", SelectorError, "has 96 rows"),
        ("groups", MethodError, r"needs open=\.\.\. or closed=\.\.\."),
        ("groups:open=head,closed=embeddings", MethodError, "expected nothing if open says what learns"),
        ("freeze", MethodError, r"needs layers=\.\.\. or only=\.\.\."),
        ("freeze:layers=1,only=@mlp", MethodError, "neither layers nor tower with it"),
        ("freeze:only=@experts", SelectorError, "'@experts' matches nothing"),
    ],
)
def test_a_wrong_selection_is_refused(text: str, error: type[Exception], message: str) -> None:
    model = build("llama")
    with pytest.raises(error, match=message):
        gg.Tuner(model, adamw(model), text)
