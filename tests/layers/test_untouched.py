"""Finding the layers changes nothing, sees through wrappers, and knows each tensor by one name."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradgate import Tuner
from gradgate.errors import LayerMapError
from gradgate.layers import canonical_name, map_layers, named_parameters
from support.crossed import some_fast
from support.placing import Block, depth_names, places
from support.tiny_models import TINY, VARIED, tiny, tiny_batch


@some_fast("name", list(TINY), VARIED)
def test_looking_changes_nothing(name):
    model = TINY[name]().train()
    model(**tiny_batch(model))  # some models hook themselves in their first forward
    next(model.children()).eval()
    first, second, *_ = model.parameters()
    first.requires_grad = False
    second.grad = torch.ones_like(second)

    def state() -> list[object]:
        return [
            [m.training for m in model.modules()],
            [(p.requires_grad, None if p.grad is None else p.grad.tolist(), p._version) for p in model.parameters()],
            [(id(b), b.clone().tolist()) for b in model.buffers()],
            [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
            torch.get_rng_state().tolist(),
            random.getstate(),
            torch.is_grad_enabled(),
        ]

    before = state()
    map_layers(model)
    assert state() == before


def test_attention_that_a_short_input_switches_is_switched_back() -> None:
    model = tiny(
        "BigBirdConfig", "BigBirdForSequenceClassification", hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, vocab_size=64, block_size=4, num_random_blocks=1, attention_type="block_sparse",
    )().eval()  # fmt: skip
    ids = torch.randint(7, 64, (1, 128), generator=torch.Generator().manual_seed(0))
    before, modules = model(input_ids=ids).logits, list(model.modules())
    map_layers(model)
    assert torch.equal(model(input_ids=ids).logits, before)
    assert all(one is other for one, other in zip(model.modules(), modules, strict=True))


@pytest.mark.parametrize("mode", [True, False])
def test_weights_that_a_model_scales_for_inference_stay_as_they_are(mode: bool) -> None:
    sizes = {"hidden_size": 16, "attention_hidden_size": 16, "vocab_size": 64, "context_length": 32}
    model = tiny("RwkvConfig", "RwkvForCausalLM", num_hidden_layers=4, rescale_every=2, **sizes)().train(mode)
    ids = torch.arange(8)[None]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    map_layers(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Tuner(model.train(), optimizer, "freeze:layers=3", total_steps=2, steps_per_epoch=2):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    closed = [name for name in before if ".blocks.2." in name]
    assert closed
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in closed)


class Counting(nn.Module):
    """Draws random numbers and writes its buffers in each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.register_buffer("in_place", torch.zeros(2))
        self.register_buffer("replaced", torch.zeros(2))

    def forward(self, ids: Tensor) -> Tensor:
        self.in_place += 1
        self.replaced = self.replaced + torch.rand(2)
        return self.blocks(self.table(ids) + torch.randn(8))


def test_buffers_that_a_forward_writes_are_put_back():
    model = Counting()
    replaced, random_state = model.replaced, torch.get_rng_state()
    map_layers(model)
    assert model.in_place.tolist() == [0, 0]
    assert model.replaced is replaced
    assert torch.equal(torch.get_rng_state(), random_state)


def test_a_failing_forward_leaves_the_model_as_it_was():
    model = TINY["bert"]().train()
    with pytest.raises(LayerMapError, match=r"forward of BertFor\w+ fails on the example \(pixel_values\)"):
        map_layers(model, example={"pixel_values": torch.zeros(1, 3, 8, 8)})
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


# Wrappers


@pytest.fixture
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_data_parallel_models_map_like_the_model_inside(name):
    model = TINY[name]()
    assert map_layers(DistributedDataParallel(model)) == map_layers(model)


@pytest.mark.usefixtures("process_group")
def test_fully_sharded_models_map_by_the_runs_of_their_modules():
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    model = TINY["bert"]()
    expected = map_layers(model)
    for layer in model.bert.encoder.layer:
        fsdp.fully_shard(layer, mesh=mesh)
    found = map_layers(fsdp.fully_shard(model, mesh=mesh))
    assert found.groups == expected.groups
    assert any("sharded" in note for note in found.notes)


@pytest.mark.parametrize("how", ["whole", "in place", "each layer"])
def test_compiled_models_map_without_being_compiled(how):
    model = TINY["llama"]()
    expected = map_layers(model)

    def compiler(*_: object) -> None:
        raise AssertionError("compiled")

    if how == "whole":
        model = torch.compile(model, backend=compiler)
    elif how == "in place":
        model.compile(backend=compiler)
    else:
        for i, layer in enumerate(model.model.layers):
            model.model.layers[i] = torch.compile(layer, backend=compiler)
    assert map_layers(model) == expected


def test_lora_goes_with_its_layer_and_saved_modules_with_the_head():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["query", "word_embeddings"], task_type="SEQ_CLS")
    layer_map = map_layers(peft.get_peft_model(TINY["bert"](), config))
    root = "base_model.model."
    assert layer_map.names == ("embeddings", *depth_names(3), "head")
    assert places(
        layer_map,
        f"{root}bert.encoder.layer.1.attention.self.query.lora_A.default.",
        f"{root}bert.embeddings.word_embeddings.lora_embedding_A",
        f"{root}classifier.modules_to_save.default.",
        f"{root}classifier.original_module.",
    ) == [{"layers.1"}, {"embeddings"}, {"head"}, {"head"}]


def test_canonical_names_have_no_wrapper_parts():
    raw = "module._orig_mod.encoder._fsdp_wrapped_module.layer.0._checkpoint_wrapped_module.weight"
    assert canonical_name(raw) == "encoder.layer.0.weight"
    assert canonical_name("encoder.modules_to_save.module_0.weight") == "encoder.modules_to_save.module_0.weight"


def test_named_parameters_keep_one_entry_for_each_tensor_in_model_order():
    model = TINY["gpt2"]()
    found = named_parameters(model)
    assert "lm_head.weight" not in found
    assert [id(p) for p in found.values()] == [id(p) for p in model.parameters()]


def test_two_tensors_with_one_canonical_name_are_an_error():
    model = nn.Module()
    model.layer, model.layer.module = nn.Linear(2, 2), nn.Linear(2, 2)
    with pytest.raises(LayerMapError, match=r"'layer\.weight' and 'layer\.module\.weight' are different tensors"):
        named_parameters(model)
