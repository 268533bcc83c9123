"""Modules of several networks: what can learn is mapped, each network is a tower, and what is not clear is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel

import gradgate as gg
from gradgate.clock import Clock
from gradgate.errors import AttachError, LayerMapError, MethodError, SelectorError
from gradgate.layers import LayerMap, map_layers, named_parameters
from gradgate.methods.traits import MethodState
from support.loop import adamw
from support.networks import (
    NETWORKS,
    Distilled,
    FrozenImage,
    Headed,
    Momentum,
    Plain,
    Retriever,
    SharedTable,
    Siamese,
    Unmarked,
    bert,
)
from support.placing import depth_names, places
from support.tiny_models import TINY, WIDTH
from support.tiny_towers import TOWERS

SMALL: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "projection_dim": 4,
}
CASES = pytest.mark.parametrize(("build", "towers", "left_out", "beside"), NETWORKS.values(), ids=list(NETWORKS))


@CASES
def test_each_learning_network_is_a_tower_with_its_layers_in_order(
    build: Any, towers: Any, left_out: list[str], beside: bool
) -> None:
    model = build()
    found = map_layers(model)
    assert {tower: len(groups) for tower, groups in found.towers.items()} == towers
    assert len(found.axes) == (len(towers) if beside else 1)
    placed = {name for group in found for name in group.parameter_names}
    frozen = {name for name in named_parameters(model) if name.split(".")[0] in left_out}
    assert placed == named_parameters(model).keys() - frozen == found.weights.keys()
    for path in left_out:
        assert any(note.startswith(f"{path} cannot learn, so it is in no group") for note in found.notes)
    assert tuple(group.name for axis in found.axes for group in axis) == depth_names(sum(towers.values()))
    for groups in found.towers.values():
        for number, group in enumerate(groups):
            assert any(name.startswith(f"{group.stack}.{number}.") for name in group.parameter_names)


@pytest.mark.parametrize("name", ["query and passage", "list of networks", "generator"])
def test_networks_have_common_embeddings_and_head(name: str) -> None:
    model = NETWORKS[name][0]()
    found = map_layers(model)
    for path in (f"{tower}." for tower in found.towers):
        assert places(found, f"{path}embeddings.", f"{path}pooler.") == [{"embeddings"}, {"head"}]
    assert {group.tower for group in found if group not in found.layers} == {""}


def test_a_shared_table_belongs_to_neither() -> None:
    assert map_layers(SharedTable())["embeddings"].tower == ""


def test_what_no_network_contains_is_head() -> None:
    assert places(map_layers(Retriever()), "scale") == [{"head"}]
    assert places(map_layers(FrozenImage()), "of_image.", "of_text.") == [{"head"}, {"head"}]
    clip = map_layers(TOWERS["clip"]())
    parts = ("visual_projection.", "text_projection.", "vision_model.post_layernorm.", "logit_scale")
    assert places(clip, *parts) == [{"head"}] * 4


@pytest.mark.parametrize("ran", [1, 4])
def test_large_heads_are_not_layers(ran: int) -> None:
    found = map_layers(Headed(ran))
    assert found.names == ("embeddings", "layers.0", "layers.1", "head")
    assert places(found, "heads.", "encoder.pooler.") == [{"head"}, {"head"}]


def test_an_encoder_run_twice_is_one_stack() -> None:
    found = map_layers(Siamese())
    assert found.names == ("embeddings", "layers.0", "layers.1", "layers.2", "head")
    assert not found.shared_layers
    assert places(found, "left.pooler.") == [{"head"}]
    gg.method("gradual:every=2").check(found)


def test_a_frozen_tower_stays_in_its_architecture() -> None:
    for model in (TINY["t5"](), TOWERS["llava"]()):
        whole = map_layers(model)
        next(m for m in model.modules() if type(m).__name__ in ("T5Stack", "CLIPVisionModel")).requires_grad_(False)
        assert map_layers(model) == whole


def test_a_frozen_body_is_mapped_whole() -> None:
    model = nn.Sequential()
    model.encoder, model.out = bert(3).requires_grad_(False), nn.Linear(WIDTH, 2)
    model.forward = lambda input_ids: model.out(model.encoder(input_ids).pooler_output)
    assert map_layers(model).names == ("embeddings", "layers.0", "layers.1", "layers.2", "head")


def test_a_tuner_changes_no_later_map() -> None:
    model = Retriever()
    before = map_layers(model)
    with gg.Tuner(model, adamw(model), "freeze:layers=all,tower=query_encoder"):
        assert map_layers(model) == before


@pytest.mark.parametrize("sizes", [(3, 2), (24, 2)])
def test_unclear_networks_are_refused_with_candidates(sizes: tuple[int, int]) -> None:
    with pytest.raises(LayerMapError, match=r'map_layers\(model, layers="left\.blocks,right\.blocks"\)'):
        map_layers(Plain(*sizes))
    frozen = Plain(*sizes)
    frozen.left.requires_grad_(False)
    assert {group.stack for group in map_layers(frozen).layers} == {"right.blocks"}
    named = map_layers(Plain(*sizes), layers="left.blocks,right.blocks")
    assert named.layer_count == sum(sizes)


@pytest.mark.parametrize("given", ["bert-base-uncased", None, {"a": 1}, bert])
def test_what_is_no_module_is_refused(given: Any) -> None:
    with pytest.raises(
        LayerMapError, match=r"is not a model whose layers can be mapped\. Expected a torch\.nn\.Module"
    ):
        map_layers(given)


class SetFitModel:
    """Of the shape of SetFit's: no module itself, with a body that is one."""

    def __init__(self) -> None:
        self.model_body, self.model_head, self.labels = bert(), None, ["a", "b"]


@pytest.mark.parametrize(
    "take", [map_layers, lambda model: gg.select(model, "head"), lambda m: gg.Tuner(m, [], "full")]
)
def test_a_wrapper_names_its_body(take: Any) -> None:
    with pytest.raises(
        LayerMapError, match=r"^SetFitModel is not a model.* It has one in model_body: pass its model_b"
    ):
        take(SetFitModel())


# Methods and selectors on networks side by side: layers.0-1 are the query's, layers.2-4 the passage's


@pytest.fixture(scope="module")
def retriever() -> LayerMap:
    return map_layers(Retriever())


def opened(text: str, layers: LayerMap, step: int = 0) -> str:
    chosen = gg.method(text)
    chosen.check(layers)
    plan = chosen.checked_plan(Clock(step, 10, 40), layers, MethodState())
    return "".join("." if gate.closed else "#" for gate in plan.values())


@pytest.mark.parametrize(
    ("text", "steps", "plans"),
    [
        ("head", [0], ["......#"]),
        ("freeze:layers=1", [0], ["..#.###"]),
        ("freeze:layers=2", [0], [".....##"]),
        ("freeze:layers=all", [0], ["......#"]),
        ("freeze:layers=1,tower=query_encoder", [0], ["#.#####"]),
        ("gradual:every=5", [0, 4, 9], ["..#..##", ".##.###", "#######"]),
        ("gradual:every=5,order=bottom-up", [0, 4], ["..#..##", "####.##"]),
        ("gradual:every=5,tower=passage_encoder", [0, 4], ["###..##", "###.###"]),
        ("gradfreeze:layers_per_epoch=1", [0, 10, 20], ["..#..##", ".##.###", "#######"]),
        ("groups:open=layers.top1/head", [0], ["..#..##"]),
        ("groups:open=layers.bottom2/head", [0], [".####.#"]),
        ("groups:open=@passage_encoder", [0], ["...###."]),
    ],
)
def test_methods_follow_each_networks_own_depth(
    retriever: LayerMap, text: str, steps: list[int], plans: list[str]
) -> None:
    assert [opened(text, retriever, step) for step in steps] == plans


@pytest.mark.parametrize("text", ["gradual:every=5", "random:every=5", "gradfreeze"])
def test_the_embeddings_of_text_open_with_the_lowest_layer_of_text(text: str) -> None:
    config = CLIPConfig(text_config=SMALL, vision_config={**SMALL, "num_hidden_layers": 4, "patch_size": 112})
    layers = map_layers(CLIPModel(config))
    bottom = next(group.name for group in layers.towers["text"])
    plans = [gg.method(text).checked_plan(Clock(step, 8, 32), layers, MethodState()) for step in range(32)]
    shown = [plan["embeddings"].closed for plan in plans]
    assert shown == [plan[bottom].closed for plan in plans]
    assert len({*shown}) == 2


def test_rates_fall_along_each_network(retriever: LayerMap) -> None:
    plan = gg.method("layerwise-lr:decay=0.5").plan(Clock(0, 10, 100), retriever, MethodState())
    assert [gate.lr for gate in plan.values()] == [0.0625, 0.25, 0.5, 0.125, 0.25, 0.5, 1.0]


def test_more_than_the_shortest_network_is_refused(retriever: LayerMap) -> None:
    with pytest.raises(MethodError, match=r"shortest of its networks \(query_encoder: 2, passage_encoder: 3\) has 2"):
        gg.method("freeze:layers=3").check(retriever)
    with pytest.raises(SelectorError, match=r"expected 1 to 2 layers, got 3"):
        gg.select(retriever, "layers.top3")
    with pytest.raises(MethodError, match=r"no tower 'query'\. Did you mean 'query_encoder'"):
        gg.method("gradual:tower=query").check(retriever)


# Training


def test_a_student_opens_and_its_teacher_stays() -> None:
    model = Distilled()
    optimizer = adamw(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with gg.Tuner(model, optimizer, "freeze:layers=1", audit=True) as tuner:
        model(torch.tensor([[1, 2, 3]])).backward()
        optimizer.step()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert {tuner.layers.group_of(name).name for name in moved} == {"layers.1", "head"}


@pytest.mark.parametrize("method", ["full", "gradual:every=2"])
def test_an_open_teacher_names_the_remedy(method: str) -> None:
    model = Unmarked()
    with pytest.raises(AttachError, match=r"^teacher\..* Weights that must not learn, such as a teacher's, need "):
        gg.Tuner(model, adamw(model.student), method, total_steps=10)


def test_a_momentum_encoder_follows_under_audit() -> None:
    model = Momentum()
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "gradual:every=1", audit=True) as tuner:
        for _ in range(3):
            model(torch.tensor([[1, 2, 3]])).backward()
            optimizer.step()
            optimizer.zero_grad()
            model.follow()
    assert tuner.clock.step == 3


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, given: Any) -> Any:
        return given + self.down(torch.relu(self.up(given)))


class DeepHead(nn.Module):
    """A head of residual blocks, each with two matrices as a layer has, on top of an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = bert(2)
        self.top = nn.Sequential(Residual(), Residual(), nn.Linear(WIDTH, 2))

    def forward(self, input_ids: Any) -> Any:
        return self.top(self.encoder(input_ids).pooler_output)


def test_blocks_on_top_of_an_encoder_that_mix_no_tokens_are_head() -> None:
    layer_map = map_layers(DeepHead())
    assert layer_map.names == ("embeddings", *depth_names(2), "head")
    assert places(layer_map, "top.", "encoder.pooler.") == [{"head"}, {"head"}]
