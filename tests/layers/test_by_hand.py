"""Models of any kind: found by execution, from an example, or named by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gradgate.errors import LayerMapError
from gradgate.layers import map_layers
from support.placing import Backwards, Block, Closed, places
from support.tiny_models import BARE, TINY, WIDTH

CLOSED_PLACES = [{"embeddings"}, {"layers.0"}, {"layers.2"}, {"layers.2"}, {"embeddings"}, {"layers.4"}, {"head"}]
CLOSED_PARTS = (
    "start", "encoder.block.0.", "encoder.block.2.", "encoder.norm.", "decoder.table.", "decoder.block.1.", "out."
)  # fmt: skip


def test_depth_is_the_order_of_execution_not_of_registration():
    layer_map = map_layers(Backwards())
    assert [g.parameter_names[0].rpartition(".up")[0] or g.parameter_names[0] for g in layer_map.layers] == [
        "between",
        "blocks.1",
        "blocks.0",
    ]
    assert places(layer_map, "blocks.2.", "between", "blocks.1.", "blocks.0.", "table", "norm", "head") == [
        {"layers.0"},
        {"layers.0"},
        {"layers.1"},
        {"layers.2"},
        {"embeddings"},
        {"head"},
        {"head"},
    ]


def test_a_sequential_model_is_mapped():
    model = nn.Sequential(nn.Embedding(11, 8), Block(), Block(), nn.LayerNorm(8), nn.Linear(8, 2))
    layer_map = map_layers(model)
    assert places(layer_map, "0.", "1.", "2.", "3.", "4.") == [
        {"embeddings"},
        {"layers.0"},
        {"layers.1"},
        {"head"},
        {"head"},
    ]


def test_an_example_is_used_where_no_input_can_be_guessed():
    example = {"first": torch.zeros(1, 3, 8), "second": torch.zeros(1, 3, dtype=torch.long)}
    assert places(map_layers(Closed(), example=example), *CLOSED_PARTS) == CLOSED_PLACES


class Wrapped(nn.Module):
    """A model from transformers in another library's module, with a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(WIDTH, 4)
        self.inner = BARE["bert"]()


class InOneDictionary(Wrapped):
    def forward(self, features, task=None):
        return {**features, "embedding": self.projection(self.inner(**features).last_hidden_state[:, 0])}


class AsKeywords(Wrapped):
    def forward(self, **batch):
        return self.projection(self.inner(**batch).last_hidden_state[:, 0])


@pytest.mark.parametrize("kind", [InOneDictionary, AsKeywords])
def test_a_model_from_transformers_inside_a_module_says_what_that_one_takes(kind):
    layer_map = map_layers(kind())
    assert layer_map.names == ("embeddings", "layers.0", "layers.1", "layers.2", "head")
    assert set(layer_map["head"].parameter_names) > {"projection.weight", "projection.bias"}
    assert layer_map.notes == ()


def test_stacks_named_by_hand_need_no_forward():
    layer_map = map_layers(Closed(), layers="encoder.block, decoder.block")
    assert places(layer_map, *CLOSED_PARTS) == CLOSED_PLACES
    assert any("No forward could be run" in note for note in layer_map.notes)


def test_one_of_two_stacks_can_be_named_by_hand():
    layer_map = map_layers(Closed(), layers="decoder.block")
    assert layer_map.names == ("embeddings", "layers.0", "layers.1", "head")
    assert places(layer_map, "encoder.", "decoder.block.0.") == [{"embeddings"}, {"layers.0"}]


def test_a_named_stack_runs_in_the_order_that_the_forward_shows():
    assert map_layers(Backwards(), layers="blocks") == map_layers(Backwards())


def test_a_stack_that_is_not_called_but_used_is_ordered_by_use():
    class Indirect(Backwards):
        def forward(self, input_ids: Tensor) -> Tensor:
            x = self.table(input_ids)
            for block in reversed(self.blocks):
                x = block.forward(x)
            return self.head(self.norm(x * self.between))

    layer_map = map_layers(Indirect(), layers="blocks")
    assert places(layer_map, "blocks.2.", "blocks.0.", "norm", "table") == [
        {"layers.0"},
        {"layers.2"},
        {"head"},
        {"embeddings"},
    ]


def test_the_root_can_be_named_by_hand():
    assert map_layers(nn.Sequential(Block(), Block()), layers=".").names == ("layers.0", "layers.1")


def test_a_layer_that_does_not_run_keeps_its_place():
    class Skipping(Backwards):
        def forward(self, input_ids: Tensor) -> Tensor:
            return self.head(self.blocks[2](self.blocks[0](self.table(input_ids))))

    layer_map = map_layers(Skipping())
    assert places(layer_map, "blocks.0.", "blocks.1.", "blocks.2.") == [{"layers.0"}, {"layers.1"}, {"layers.2"}]
    assert any("Did not run" in note and "layers.1" in note for note in layer_map.notes)


def test_one_module_in_several_places_is_one_layer():
    block = Block()
    layer_map = map_layers(nn.Sequential(nn.Embedding(11, 8), nn.Sequential(block, block, block)))
    assert layer_map.names == ("embeddings", "layers.0")
    assert layer_map["layers.0"].uses == 3


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("bert.encoder.layers", r"does not exist in BertFor.*Did you mean 'bert\.encoder\.layer'"),
        ("bert.encoder", r"is a BertEncoder in BertFor.*Expected the path of a ModuleList, ModuleDict or Sequential"),
        ("bert.encoder.layer,nothing", r"layers='nothing' does not exist.*'bert\.encoder\.layer' \(ModuleList of 3"),
        ("", r"does not exist"),
        (3, r"layers=3 has the type int; expected the path"),
    ],
)
def test_a_wrong_path_is_an_error_with_the_nearest_names(layers, message):
    with pytest.raises(LayerMapError, match=message):
        map_layers(TINY["bert"](), layers=layers)


def test_a_model_without_a_forward_that_can_be_run_says_what_to_do():
    with pytest.raises(LayerMapError) as caught:
        map_layers(Closed())
    message = str(caught.value)
    assert "no forward could be run" in message
    assert "'encoder.block' (ModuleList of 3, 840 parameters)" in message
    assert 'map_layers(model, layers="encoder.block,decoder.block")' in message


def test_a_model_without_a_list_of_layers_says_what_was_found():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(LayerMapError, match=r"No list of layers ran.*'\.' \(Sequential of 2, 30 parameters, 2 runs\)"):
        map_layers(model)


def test_a_model_without_parameters_is_an_error():
    with pytest.raises(LayerMapError, match="has no parameters"):
        map_layers(nn.ReLU())
