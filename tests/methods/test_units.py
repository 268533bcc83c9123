"""Methods over parts and modules of layers instead of whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model

from gradgate import ActivationCache, Clock, LayerMap, MethodState, Tuner, map_layers, method
from gradgate.cli.models import draw_timeline
from gradgate.errors import MethodError
from gradgate.methods.timeline import foresee
from support.loop import adamw, build, fisher_data, moved, train, weights


@pytest.fixture(scope="module")
def parts() -> LayerMap:
    return map_layers(build("llama"), unit="part")  # three layers of attention, mlp and norm


def opened(text: str, layers: LayerMap, step: int, seed: int = 0) -> set[str]:
    plan = method(text).checked_plan(Clock(step, 10, 100), layers, MethodState(seed=seed))
    return {name for name, gate in plan.items() if not gate.closed}


def open_in_layers(text: str, layers: LayerMap, steps: range) -> Iterator[set[str]]:
    for step in steps:
        yield {name for name in opened(text, layers, step) if name.startswith("layers.")}


ORDER = "0.mlp/0.norm/0.attention/1.mlp/1.norm/1.attention"
TOP = {"layers.2.attention", "layers.2.mlp", "layers.2.norm"}


def test_lisa_draws_units(parts: LayerMap) -> None:
    seen = [frozenset(found) for found in open_in_layers("lisa:layers=2,every=1,unit=part", parts, range(60))]
    assert {len(found) for found in seen} == {2}
    assert set().union(*seen) == {group.name for group in parts.layers}
    with pytest.raises(MethodError, match="draws 10 parts at a time, but the model has 9"):
        method("lisa:layers=10,unit=part").check(parts)


def test_layer_graddrop_drops_units_independently(parts: LayerMap) -> None:
    shown = list(open_in_layers("layer-graddrop:p=0.5,mask_target=update,unit=part", parts, range(400)))
    for group in parts.layers:
        assert 140 < sum(group.name in found for found in shown) < 260
    together = sum(("layers.0.mlp" in found) == ("layers.0.norm" in found) for found in shown)
    assert 140 < together < 260


def test_random_opens_unit_after_unit_below_the_top_layer(parts: LayerMap) -> None:
    shown = list(open_in_layers("random:every=5,unit=part", parts, range(40)))
    assert shown[0] == TOP
    assert [len(found) for found in shown] == [3 + min((step + 1) // 5, 6) for step in range(40)]
    assert shown[-1] == {group.name for group in parts.layers}
    assert opened("random:every=5,unit=part", parts, 12) != opened("random:every=5,unit=part", parts, 12, seed=3)


def test_order_names_units(parts: LayerMap) -> None:
    order = "0.mlp/1.mlp/0.attention/1.attention/0.norm/1.norm"
    shown = list(open_in_layers(f"order:layers={order},every=5,unit=part", parts, range(0, 35, 5)))
    names = [f"layers.{name}" for name in order.split("/")]
    assert [found - TOP for found in shown] == [set(names[:count]) for count in range(7)]
    for wrong, message in (
        ("0.mpl/1.mlp", r"there is no part '0\.mpl' below the top layer\. Did you mean '0\.mlp'"),
        ("0.mlp/1.mlp", r"names '0\.attention' 0 times; expected each part below the top layer once"),
    ):
        with pytest.raises(MethodError, match=message):
            method(f"order:layers={wrong},unit=part").check(parts)


def test_fun_opens_the_unit_with_the_largest_trace(parts: LayerMap) -> None:
    model = build("llama")
    with Tuner(
        model,
        adamw(model),
        "fun:every=2,batches=1,unit=part",
        total_steps=30,
        steps_per_epoch=10,
        layers=parts,
        fisher_data=fisher_data(model),
    ) as tuner:
        train(model, tuner.optimizer, 14)
        events = tuner.memory.notes["order"]
    assert len(events) == 6
    for event in events:
        assert event["layer"] == max(event["traces"], key=event["traces"].get)
    assert {name for event in events for name in event["traces"]} == {group.name for group in parts.layers} - TOP


def test_only_the_open_units_move() -> None:
    model = build("llama")
    with Tuner(model, adamw(model), "lisa:layers=1,every=100,unit=module", audit=True) as tuner:
        drawn = {group for group, gate in tuner.plan.items() if not gate.closed}
        names = {name for group in drawn for name in tuner.layers[group].parameter_names}
        before = weights(model)
        train(model, tuner.optimizer, 3)
        assert {group for group in drawn if group.startswith("layers.")} <= set(tuner.layers.names)
    assert len(drawn) == 3
    assert moved(before, model) <= names
    assert moved(before, model) & {name for name in names if name.startswith("model.layers.")}


def test_a_layer_counts_as_closed_when_all_of_its_units_are(tmp_path: Path) -> None:
    order = "1.attention/1.mlp/1.norm/0.attention/0.mlp/0.norm"
    ends = {}
    for name, cache in (("cached", ActivationCache(folder=tmp_path, passes=1)), ("plain", None)):
        model = build("llama", dropout=True)
        with Tuner(
            model,
            adamw(model),
            f"order:layers={order},every=6,unit=part",
            total_steps=20,
            steps_per_epoch=2,
            activation_cache=cache,
        ) as tuner:
            train(model, tuner.optimizer, [number % 2 for number in range(20)])
        ends[name] = weights(model)
    assert all(ends["cached"][name].equal(ends["plain"][name]) for name in ends["plain"])


def test_a_written_plan_is_followed_by_units(parts: LayerMap, tmp_path: Path) -> None:
    drawn = foresee(method("lisa:layers=2,every=3,unit=part"), parts, Clock(0, 10, 12))
    file = tmp_path / "plan.yaml"
    file.write_text(drawn.to_yaml())
    assert foresee(method(f"plan:{file}"), parts, Clock(0, 10, 12)).phases == drawn.phases
    file.write_text("phases: [{step: 0, open: [head, layers.2, layers.1.mlp]}]")
    assert opened(f"plan:{file}", parts, 0) == {"head", "layers.1.mlp", *TOP}


def test_rates_by_layer_are_those_of_its_units(parts: LayerMap) -> None:
    plan = method("lisa:layers=9,unit=part+layerwise-lr:decay=0.5").checked_plan(Clock(0), parts, MethodState())
    assert {plan[f"layers.1.{part}"].lr for part in ("attention", "mlp", "norm")} == {0.25}


def test_a_plan_of_units_is_read_by_layer(parts: LayerMap) -> None:
    drawn = foresee(method(f"order:layers={ORDER},every=5,unit=part"), parts, Clock(0, 10, 40))
    assert list(drawn.layers) == ["embeddings", "layers.0", "layers.1", "layers.2", "head"]
    assert drawn.layer_sizes == {group.name: group.parameter_count for group in parts.at("layer")}
    at_end, whole = drawn.folded(drawn.shares_between([36, 40])), drawn.folded(drawn.shares_between([0, 40]))
    assert at_end[:, 0].tolist() == [1.0] * 5
    own = {name: drawn.sizes[name] for name in ("layers.0.attention", "layers.0.mlp", "layers.0.norm")}
    steps = {"layers.0.mlp": 36, "layers.0.norm": 31, "layers.0.attention": 26}  # of 40 that each is open
    assert whole[1, 0] == pytest.approx(sum(own[n] * steps[n] for n in own) / sum(own.values()) / 40)


def test_a_drawn_plan_has_a_line_a_layer_unless_it_is_expanded(parts: LayerMap) -> None:
    drawn = foresee(method("layer-graddrop:p=0.5,unit=part"), parts, Clock(0, 10, 40))
    folded, expanded = draw_timeline(drawn, width=80).plain, draw_timeline(drawn, width=80, expand=True).plain
    assert len(folded.splitlines()) == 5 + 3
    assert len(expanded.splitlines()) == len(parts) + 3
    assert all(len(line) <= 80 for line in folded.splitlines())


@pytest.mark.filterwarnings("error:.*in which nothing can learn")
@pytest.mark.parametrize("text", ["hft", "spectrum:share=0.5", "lisa:layers=2,every=9,unit=module"])
def test_both_matrices_of_lora_learn_where_one_is_opened(text: str) -> None:
    """LoRA begins with B = 0: A without B has no gradient. Here layer 2 has no LoRA, and is not opened."""
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], layers_to_transform=[0, 1])
    model = get_peft_model(build("llama"), config)
    optimizer, before = adamw(model, weight_decay=0.0), weights(model)
    with Tuner(model, optimizer, text) as tuner:
        opened = [group for group in tuner.layers.layers if not tuner.plan[group.name].closed]
        train(model, optimizer, 3)
    found = {group.name: {name for name in group.parameter_names if "lora_" in name} for group in opened}
    assert all(len(names) == 2 and group.split(".")[-1] in {"q_proj", "v_proj"} for group, names in found.items())
    assert moved(before, model) == set().union(*found.values())
