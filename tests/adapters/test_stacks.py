"""Stacks of adapters: their order, skipped and dropped layers, and invertible adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gradgate import adapters
from gradgate.adapters.modules import Invertible
from support.adapter_models import EVERY_MODEL, disturb, output, tiny
from support.tiny_models import BARE, LAYERS, TINY


@EVERY_MODEL
def test_a_stack_runs_from_the_bottom_and_its_language_can_be_switched(name: str) -> None:
    model = tiny(name)
    for language in ("en", "de"):
        adapters.add(model, language, "pfeiffer+inv:reduction=2")
    adapters.add(model, "task", "pfeiffer:reduction=4")
    disturb(model)
    adapters.activate(model, "en", "task", skip_layers=[1])
    english = output(model)
    adapters.activate(model, "task", "en", skip_layers=[1])
    assert not torch.allclose(output(model), english, atol=1e-4)
    adapters.activate(model, "en", "task", skip_layers=[1])
    adapters.switch(model, "de")
    assert adapters.active(model) == ("de", "task")
    german = output(model)
    assert not torch.allclose(german, english, atol=1e-4)
    adapters.activate(model, "de", "task", skip_layers=[1])
    assert torch.equal(output(model), german)
    adapters.switch(model, "en")
    assert torch.equal(output(model), english)


def test_skipped_layers_run_as_if_no_adapter_were_active() -> None:
    model = tiny("bert")
    adapters.add(model, "upper", "double_seq_bn:reduction=2,leave_out=0/1")
    adapters.add(model, "all", "double_seq_bn:reduction=2")
    disturb(model)
    for number, layer in enumerate(model.bert.encoder.layer):
        for site in (layer.output.adapters, layer.attention.output.adapters):
            assert ("upper" in site) == (number == 2)
            if number == 2:
                site["upper"].load_state_dict(site["all"].state_dict())
    adapters.activate(model, "upper")
    expected = output(model)
    for skipped in (2, [0, 1]):
        adapters.activate(model, "all", skip_layers=skipped)
        assert torch.equal(output(model), expected)
    adapters.activate(model, "all")
    assert not torch.equal(output(model), expected)


def test_random_drop_is_a_function_of_the_step_in_training_alone() -> None:
    draws = [adapters.layers_dropped(step, LAYERS, seed=1) for step in range(400)]
    assert draws == [adapters.layers_dropped(step, LAYERS, seed=1) for step in range(400)]
    assert {draws.count(number) > 60 for number in range(LAYERS + 1)} == {True}
    model = TINY["distilbert"]().eval()
    adapters.add(model, "task", "seq_bn:reduction=2")
    disturb(model)
    plain = output(model)
    drop = adapters.RandomDrop(model, most=LAYERS, seed=1)
    assert torch.equal(output(model), plain)
    assert drop.step == 0
    for module in model.modules():
        module.p = 0.0 if isinstance(module, nn.Dropout) else getattr(module, "p", None)
    model.train()
    seen = [output(model) for _ in range(4)]
    drop.step = 0
    assert all(torch.equal(output(model), before) for before in seen)
    model.eval()
    for step, before in enumerate(seen):
        adapters.activate(model, "task", skip_layers=draws[step])
        assert torch.allclose(output(model), before, atol=1e-6)
    adapters.activate(model, "task")
    drop.remove()
    assert torch.equal(output(model.train()), plain)


def test_removing_the_adapters_ends_their_random_drop() -> None:
    model = TINY["bert"]()
    adapters.add(model, "task", "seq_bn:reduction=2")
    drop = adapters.RandomDrop(model, most=LAYERS, seed=1)
    adapters.remove(model)
    assert not model._forward_pre_hooks
    output(model.train())
    assert drop.step == 0
    drop.remove()


@given(width=st.integers(2, 24), factor=st.sampled_from([1.0, 2.0, 3.5]), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_inverse_undoes_the_invertible_adapter(width: int, factor: float, seed: int) -> None:
    config = adapters.adapter_config(f"pfeiffer+inv:inv_adapter_reduction_factor={factor},non_linearity=tanh")
    block, draw = Invertible(config, width), torch.Generator().manual_seed(seed)
    for parameter in block.parameters():
        parameter.data.normal_(0.0, 0.5, generator=draw)
    embedded = torch.randn(2, 5, width, generator=draw)
    assert not torch.allclose(block(embedded), embedded, atol=1e-3)
    assert torch.allclose(block.inverse(block(embedded)), embedded, atol=1e-5)
    assert torch.allclose(block(block.inverse(embedded)), embedded, atol=1e-5)


MASKED = ("Bert", "Roberta", "DistilBert", "Electra", "DebertaV2", "MPNet")


@pytest.mark.parametrize("family", MASKED)
def test_the_inverse_runs_before_the_output_embeddings_of_a_language_model(family: str) -> None:
    config = BARE[{"DebertaV2": "deberta-v2"}.get(family, family.lower())]().config
    model = getattr(transformers, f"{family}ForMaskedLM")(config).eval()
    adapters.add(model, "lang", "pfeiffer+inv:reduction=2")
    disturb(model)
    seen: list[Tensor] = []
    hook = model.get_output_embeddings().register_forward_hook(lambda _, args, out: seen.append(args[0]))
    output(model)
    adapters.activate(model, "lang", inverse=False)
    output(model)
    hook.remove()
    mapped, plain = seen
    block = model.base_model.embeddings.invertible_adapters["lang"]
    assert torch.allclose(block(mapped), plain, atol=1e-5)
    assert not torch.allclose(mapped, plain, atol=1e-2)


def test_tuned_norms_of_the_model_are_not_those_of_another_adapter(tmp_path: Path) -> None:
    model = tiny("bert")
    adapters.add(model, "lang", "pfeiffer:ln_after=true,reduction=4")
    adapters.add(model, "task", "houlsby:size=4")
    disturb(model)
    for name in ("lang", "task"):
        adapters.save(model, name, tmp_path / name)
    fresh = tiny("bert")
    fresh.load_state_dict({key: value for key, value in model.state_dict().items() if key in fresh.state_dict()})
    for name in ("lang", "task"):
        adapters.load(fresh, tmp_path / name)
    for each in (model, fresh):
        adapters.activate(each, "lang", "task")
    assert torch.equal(output(fresh), output(model))
