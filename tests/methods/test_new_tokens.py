"""The rows of new tokens learn beside what a method trains, and nothing else of the embeddings does."""

from __future__ import annotations

import pytest

import gradgate as gg
from gradgate.errors import SelectorError
from gradgate.methods.new_tokens import NewTokens
from support.crossed import each_once
from support.loop import adamw, build, moved, same, train, weights

LLAMA = "model.embed_tokens.weight"
TABLES = {"llama": LLAMA, "gpt2": "transformer.wte.weight", "bert": "bert.embeddings.word_embeddings.weight"}
NEW = ((85, 87), (90, 94))


def with_rows(text: str) -> NewTokens:
    return NewTokens(method=gg.method(text), rows=NEW)


@each_once(
    "text",
    ["full", "freeze:layers=2", "gradual:every=4", "groups:open=layers.1.mlp", "bitfit"],
    "name",
    list(TABLES),
)
def test_new_rows_learn_from_the_first_step_and_old_ones_never(text: str, name: str) -> None:
    table = TABLES[name]
    model, plain = build(name), build(name)
    before, optimizer = weights(model), adamw(model)
    new = [row for start, stop in NEW for row in range(start, stop)]
    with gg.Tuner(model, optimizer, with_rows(text), audit=True):
        train(model, optimizer, 1)
        assert not same(model.get_parameter(table)[new], before[table][new])
        train(model, optimizer, range(1, 4))
    held = [row for row in range(len(before[table])) if row not in new]
    assert same(model.get_parameter(table)[held], before[table][held])

    optimizer = adamw(plain)
    with gg.Tuner(plain, optimizer, text):
        train(plain, optimizer, 4)
    embeddings = set(gg.select(plain, "embeddings").names)
    tables = {LLAMA, "lm_head.weight"} if name == "llama" else {table}
    assert moved(before, model) - tables == moved(before, plain) - embeddings - tables


def test_an_output_layer_of_its_own_has_rows_too() -> None:
    model = build("llama")
    before, optimizer = weights(model), adamw(model)
    with gg.Tuner(model, optimizer, with_rows("groups:open=layers.2"), audit=True):
        train(model, optimizer, 3)
    head = model.get_parameter("lm_head.weight")
    assert same(head[:85], before["lm_head.weight"][:85])
    assert not (head[85:87] == before["lm_head.weight"][85:87]).all(1).any()
    assert moved(before, model) == {LLAMA, "lm_head.weight", *gg.select(model, "layers.2").names}


def test_rows_beyond_the_table_are_refused() -> None:
    model = build("llama")
    with pytest.raises(SelectorError, match=r"the table model\.embed_tokens\.weight has 96 rows"):
        gg.Tuner(model, adamw(model), NewTokens(method=gg.method("full"), rows=((90, 120),)))


def test_a_saved_state_is_of_the_method_with_its_rows() -> None:
    model = build("llama")
    with gg.Tuner(model, adamw(model), with_rows("full")) as tuner:
        state = tuner.state_dict()
    with pytest.raises(gg.GradgateError, match="new-tokens:rows=85:87/90:94"):
        gg.Tuner(model, adamw(model), "full", state=state)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("gradual:every=2+layerwise-lr:decay=0.5", 0.5**4),
        ("full+layerwise-lr:decay=0.5", 0.5**4),
        ("layerwise-lr:decay=0.5", 0.5**4),
        ("gradual:every=2,warm_open=4", 1.0),
        ("gradual:every=2", 1.0),
    ],
)
def test_new_rows_learn_at_one_rate_all_along(text: str, rate: float) -> None:
    layers = gg.map_layers(build("bert"))
    plans = [with_rows(text).plan(gg.Clock(step, 20, 20), layers, gg.MethodState()) for step in range(20)]
    assert {plan["embeddings"].lr for plan in plans} == {rate}
