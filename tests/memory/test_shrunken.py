"""Leave layers out of a model for a while; afterwards it is as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from gradgate.layers import map_layers, named_parameters
from gradgate.memory.shrunken import layer_stacks, shrunken, without
from support.loop import batch
from support.tiny_models import TINY

SHRINKABLE = {"bert": ["bert.encoder.layer"], "llama": ["model.layers"], "t5": ["encoder.block", "decoder.block"]}


@pytest.mark.parametrize("name", SHRINKABLE)
def test_stacks_are_found_from_the_bottom(name: str) -> None:
    model = TINY[name]()
    stacks = layer_stacks(model, map_layers(model))
    assert [stack.path for stack in stacks] == SHRINKABLE[name]
    for stack in stacks:
        assert list(stack.layers.values()) == [str(number) for number in range(len(stack.container))]
        for group, key in stack.layers.items():
            assert stack.module(group) is stack.container[int(key)]


def test_shared_layers_cannot_be_left_out() -> None:
    """ALBERT runs one layer several times."""
    model = TINY["albert"]()
    assert layer_stacks(model, map_layers(model)) == []


def test_map_without_layers_keeps_names() -> None:
    layers = map_layers(TINY["bert"]())
    fewer = without(layers, {"layers.1"})
    assert [group.name for group in fewer] == [group.name for group in layers if group.name != "layers.1"]
    assert without(layers, ()) == layers


@pytest.mark.parametrize("dropped", [(), ("layers.1",), ("layers.0", "layers.2")])
def test_layers_that_stay_keep_their_names(dropped: tuple[str, ...]) -> None:
    model = TINY["bert"]()
    layers = map_layers(model)
    stays = {name for group in layers if group.name not in dropped for name in group.parameter_names}
    with FakeTensorMode(), shrunken(model, layer_stacks(model, layers), dropped):
        assert set(named_parameters(model)) == stays
        assert all(isinstance(p, FakeTensor) for p in model.parameters())


def test_shrunken_model_runs_forward() -> None:
    model = TINY["llama"]()
    inputs = batch(model, 0)
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        shrunken(model, layer_stacks(model, map_layers(model)), ("layers.1",)),
    ):
        loss = model(**{name: torch.empty_like(value) for name, value in inputs.items()}, use_cache=False).loss
    assert isinstance(loss, FakeTensor)
    assert torch.isfinite(model(**inputs).loss)


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "gpt2"])
@pytest.mark.parametrize("fails", [False, True])
def test_model_is_restored(name: str, fails: bool) -> None:
    model = TINY[name]()
    layers = map_layers(model)
    before = {raw: (id(p), p.requires_grad) for raw, p in model.named_parameters(remove_duplicate=False)}
    buffers = {raw: id(buffer) for raw, buffer in model.named_buffers()}
    settings = model.config.to_dict()
    stacks = layer_stacks(model, layers)
    try:
        with FakeTensorMode(), shrunken(model, stacks, [list(stack.layers)[-1] for stack in stacks]):
            model.config.name_or_path = "changed"
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    assert {raw: (id(p), p.requires_grad) for raw, p in model.named_parameters(remove_duplicate=False)} == before
    assert {raw: id(buffer) for raw, buffer in model.named_buffers()} == buffers
    assert model.config.to_dict() == settings


def test_tied_weights_stay_tied() -> None:
    model = TINY["gpt2"]()
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or head.weight is not table.weight:
        pytest.skip("this model ties nothing")
    with FakeTensorMode(), shrunken(model, layer_stacks(model, map_layers(model)), ()):
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_lists_by_layer_are_shortened() -> None:
    """As of a model whose configuration says the type of each layer."""

    class Config:
        def __init__(self) -> None:
            self.layer_types, self.pair_per_layer, self.other = ["a", "b", "c"], (1, 2, 3), ["x", "y", "z"]

    model = TINY["bert"]()
    config = Config()
    model.bert.encoder.config = config
    with FakeTensorMode(), shrunken(model, layer_stacks(model, map_layers(model)), ("layers.1",)):
        assert config.layer_types == ["a", "c"]
        assert config.pair_per_layer == (1, 3)
        assert config.other == ["x", "y", "z"]
    assert (config.layer_types, config.pair_per_layer) == (["a", "b", "c"], (1, 2, 3))


def test_plain_list_of_blocks_is_a_stack() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
            self.head = nn.Linear(4, 2)

    model = Net()
    (stack,) = layer_stacks(model, map_layers(model, layers="blocks"))
    assert (stack.path, list(stack.layers)) == ("blocks", ["layers.0", "layers.1", "layers.2"])
