"""What other code changes while a tuner is attached: flags, replaced tables; and layers that were frozen before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import gradgate as gg
from gradgate.errors import AttachError
from gradgate.layers import map_layers
from support.loop import adamw, build, step, train
from support.tiny_towers import TOWERS

BOTTOM, TOP = "bert.encoder.layer.0.output.dense.weight", "bert.encoder.layer.2.output.dense.weight"


def unfreeze_all(model: Any) -> None:
    model.requires_grad_(True)


def freeze_all(model: Any) -> None:
    """As ``LightningModule.freeze()`` does."""
    for parameter in model.parameters():
        parameter.requires_grad = False


def next_phase_of_a_scheduler(model: Any) -> None:
    """As BackboneFinetuning does at the start of an epoch."""
    model.get_parameter(BOTTOM).requires_grad_(True)


def freeze_the_head(model: Any) -> None:
    model.classifier.requires_grad_(False)


def test_a_loaded_state_closes_what_loading_the_weights_opened() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "freeze:layers=2") as tuner:
        state = tuner.state_dict()
        unfreeze_all(model)
        tuner.load_state_dict(state)
        assert not model.get_parameter(BOTTOM).requires_grad
        train(model, optimizer, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (unfreeze_all, r"and \d+ more are closed in step 3, but other code set requires_grad to True"),
        (next_phase_of_a_scheduler, rf"^{BOTTOM} is closed in step 3, but other code set requires_grad to True"),
        (freeze_all, r"and \d+ more are open in step 3, but other code set requires_grad to False"),
        (freeze_the_head, r"^classifier\.weight, classifier\.bias are open in step 3, but .* to False"),
    ],
)
def test_another_freezer_is_refused_in_time(change: Callable[[Any], None], message: str) -> None:
    model = build("bert")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "freeze:layers=2", audit=False):
        train(model, optimizer, 2)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.zero_grad()
        loss = model(**batch()).loss
        change(model)
        if loss.requires_grad and change is not freeze_all:
            loss.backward()
        with pytest.raises(AttachError, match=message):
            optimizer.step()
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def batch() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "labels": torch.tensor([0, 1])}


def test_what_was_frozen_before_stays_frozen() -> None:
    model = build("bert")
    model.bert.encoder.layer[0].requires_grad_(False)
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "full", audit=False):
        model.get_parameter(BOTTOM).requires_grad_(True)
        with pytest.raises(AttachError, match=rf"^{BOTTOM} is closed in step 1, but other code set requires_grad"):
            step(model, optimizer, 0)


def test_a_restored_flag_is_no_change() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "freeze:layers=2", audit=False) as tuner:
        model(**batch()).loss.backward()
        model.get_parameter(TOP).requires_grad_(False)
        model.get_parameter(TOP).requires_grad_(True)
        optimizer.step()
    assert tuner.clock.step == 1


# Weights that are replaced


def resized(model: Any) -> str:
    model.resize_token_embeddings(110, mean_resizing=False)
    return (
        r"bert\.embeddings\.word_embeddings\.weight was replaced, resized .*its shape was \(96, 16\) and is \(110, 16\)"
    )


def new_head(model: Any) -> str:
    model.classifier = nn.Linear(16, 5)
    return r"classifier\.weight, classifier\.bias were replaced"


def new_weight(model: Any) -> str:
    model.classifier.weight = nn.Parameter(torch.zeros(3, 16))
    return r"classifier\.weight was replaced, .*classifier\.weight: it is another tensor\)"


def new_layer_in_the_list(model: Any) -> str:
    model.bert.encoder.layer[1] = type(model.bert.encoder.layer[1])(model.config)
    return r"bert\.encoder\.layer\.1\.attention.* and \d+ more were replaced"


def removed_pooler(model: Any) -> str:
    model.bert.pooler = None
    return r"bert\.pooler\.dense\.weight, bert\.pooler\.dense\.bias were replaced, .*: it is no longer in the model"


@pytest.mark.parametrize("change", [resized, new_head, new_weight, new_layer_in_the_list, removed_pooler])
@pytest.mark.parametrize("audit", [False, True])
def test_a_replaced_weight_is_refused(change: Callable[[Any], str], audit: bool) -> None:
    model = build("bert")
    optimizer = adamw(model)
    tuner = gg.Tuner(model, optimizer, "freeze:layers=1", audit=audit)
    train(model, optimizer, 1)
    optimizer.zero_grad()
    with pytest.raises(AttachError, match=f"^{change(model)}"):
        optimizer.step()
    tuner.detach(audit=False)


def test_a_later_tie_is_refused() -> None:
    model = build("llama")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "full", audit=False):
        model.lm_head.weight = model.model.embed_tokens.weight
        with pytest.raises(AttachError, match=r"^lm_head\.weight was replaced, resized or removed before step 1"):
            optimizer.step()


def test_a_new_output_layer_of_a_tied_model_is_refused() -> None:
    model = build("gpt2")
    assert model.lm_head.weight is model.transformer.wte.weight
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "full", audit=False):
        model.lm_head = nn.Linear(model.config.n_embd, model.config.vocab_size, bias=False)
        with pytest.raises(AttachError, match=r"^lm_head\.weight was added before step 1, .* no optimizer steps it"):
            optimizer.step()


def test_a_wrapped_module_is_no_change() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with gg.Tuner(model, optimizer, "freeze:layers=1", audit=False) as tuner:
        model.bert.encoder.layer[1] = nn.Sequential(model.bert.encoder.layer[1])
        for _ in range(2):
            optimizer.step()
    assert tuner.clock.step == 2


# Layers that were frozen before


def test_opened_layers_without_learning_are_named() -> None:
    model = build("bert")
    model.bert.encoder.requires_grad_(False)
    with pytest.warns(UserWarning, match=r"^'gradual:every=2' opens layers\.0, layers\.1, layers\.2, in which nothing"):
        gg.Tuner(model, adamw(model), "gradual:every=2").detach()


@pytest.mark.parametrize(("method", "warns"), [("child-tuning:mode=D", False), ("sparse:by=gradient", True)])
def test_weights_are_chosen_of_what_can_learn_alone(method: str, warns: bool) -> None:
    model = build("bert")
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.requires_grad_(False)
    told = pytest.warns(UserWarning, match="opens .*, in which nothing can learn") if warns else nullcontext()
    with told:
        gg.Tuner(model, adamw(model), method, fisher_data=lambda step: [batch()]).detach()


def test_a_tower_is_known_behind_a_joined_method() -> None:
    model = build("t5")
    model.encoder.requires_grad_(False)
    gg.Tuner(model, adamw(model), "gradual:every=2,tower=decoder+layerwise-lr:decay=0.9").detach()


def test_a_frozen_tower_names_the_learning_one() -> None:
    model = TOWERS["clip"]()
    model.vision_model.encoder.requires_grad_(False)
    model.text_model.encoder.requires_grad_(True)
    assert [group.tower for group in map_layers(model).layers] == ["text", "text"]
    model = TOWERS["llava"]()
    model.model.vision_tower.requires_grad_(False)
    model.model.multi_modal_projector.requires_grad_(False)
    with pytest.warns(UserWarning, match=r"opens layers\.0, layers\.1, layers\.2, .*name the tower .*\(tower=text\)"):
        gg.Tuner(model, adamw(model), "gradual:every=2").detach()
    gg.Tuner(model, adamw(model), "gradual:every=2,tower=text", audit=False).detach()


@pytest.mark.parametrize("method", ["full", "graddrop:p=0.2", "head", "freeze:layers=all", "groups:open=head"])
def test_methods_without_a_schedule_say_nothing(method: str) -> None:
    model = build("bert")
    model.bert.encoder.requires_grad_(False)
    gg.Tuner(model, adamw(model), method).detach()


def test_adapters_in_each_layer_say_nothing() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(build("bert"), peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    gg.Tuner(model, optimizer, "gradual:every=2").detach()


def test_a_method_that_opens_nothing_is_refused() -> None:
    model = build("bert")
    model.bert.encoder.requires_grad_(False)
    with pytest.raises(AttachError, match="would never open anything"):
        gg.Tuner(model, adamw(model), "groups:open=layers.*")
