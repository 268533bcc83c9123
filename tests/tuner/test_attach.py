"""Attaching and detaching: what is refused, what is respected, what is left behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from gradgate import Clock, Gate, LayerMap, Method, MethodState, Plan, Tuner, map_layers
from gradgate.errors import AttachError, GradgateWarning, LayerMapError, MethodError, NonFiniteError
from gradgate.methods import CLOSED, OPEN
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, batch, build, moved, step, train, weights
from support.tiny_models import tiny_batch


def flags(model: nn.Module) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in model.named_parameters()}


def hooks(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    return (
        len(optimizer._optimizer_step_pre_hooks)
        + len(optimizer._optimizer_step_post_hooks)
        + sum(len(p._backward_hooks or ()) for p in model.parameters())
    )


@dataclass(frozen=True, kw_only=True)
class Odd(Method):
    """A user's method with a plan of its own."""

    name: ClassVar[str] = "odd"
    gates: Callable[[Clock, LayerMap], dict[str, Gate]]

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan(self.gates(clock, layers))


# Refused.


def test_a_parameter_that_the_optimizer_lacks_is_named() -> None:
    model = build("bert")
    lacking = model.bert.encoder.layer[1].output.dense.weight
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p is not lacking])
    before = flags(model)
    with pytest.raises(AttachError, match=r"bert\.encoder\.layer\.1\.output\.dense\.weight will be opened.*'gradual'"):
        Tuner(model, optimizer, "gradual")
    assert flags(model) == before
    assert hooks(model, optimizer) == 0


def test_all_that_the_optimizer_lacks_is_counted() -> None:
    model = build("bert")
    optimizer = torch.optim.AdamW(model.classifier.parameters())
    lacking = sum(1 for _ in model.parameters()) - 2
    with pytest.raises(AttachError, match=rf"and {lacking - 1} more will be opened by 'full'"):
        Tuner(model, optimizer, "full")


def test_what_a_method_never_opens_need_not_be_in_the_optimizer() -> None:
    model = build("bert")
    names = map_layers(model)["head"].parameter_names
    optimizer = torch.optim.AdamW([model.get_parameter(name) for name in names])
    with Tuner(model, optimizer, "head", audit=True):
        train(model, optimizer, 2)


def test_a_model_without_anything_to_open_is_refused() -> None:
    model = build("bert-lm")
    for name in map_layers(model)["head"].parameter_names:
        model.get_parameter(name).requires_grad_(False)
    with pytest.raises(AttachError, match=r"'head' would never open anything: its groups \(head\)"):
        Tuner(model, adamw(model), "head")


def test_a_model_without_a_head_has_nothing_for_the_head_to_do() -> None:
    model = build("bart-lm")
    with pytest.raises(AttachError, match=r"never open anything.*Groups of this model: embeddings, layers\.0"):
        Tuner(model, adamw(model), "head")


def test_a_plan_that_opens_nothing_for_a_step_is_refused() -> None:
    model = build("bart-lm")
    optimizer = adamw(model)
    with pytest.raises(AttachError, match="opens nothing for step 1"):
        Tuner(model, optimizer, "gradual:every=5,timing=algorithm")
    assert all(flags(model).values())
    assert hooks(model, optimizer) == 0


def test_more_frozen_layers_than_there_are() -> None:
    model = build("bert")
    with pytest.raises(MethodError, match=r"'freeze:layers=99' asks for 99 closed layers, but the model has 3"):
        Tuner(model, adamw(model), "freeze:layers=99")


def test_shared_layers_have_no_order_to_open_in() -> None:
    model = build("albert")
    with pytest.raises(MethodError, match="shares one layer between all depths"):
        Tuner(model, adamw(model), "gradual")


def test_a_warning_says_that_layers_with_the_same_weights_open_and_close_separately() -> None:
    model = build("bert")
    lowest, _, top = model.bert.encoder.layer
    top.intermediate = lowest.intermediate
    assert "layers.0 shares weights with layers.2, and they open and close with layers.0" in str(map_layers(model))
    Tuner(model, adamw(model), "full").detach()
    with pytest.warns(GradgateWarning, match=r"'freeze:layers=1' opens and closes layers\.0 and layers\.2 separately"):
        Tuner(model, adamw(model), "freeze:layers=1")


def test_an_option_without_effect_is_warned_of() -> None:
    model = build("bert")
    told = r"'sparse:rank=4': rank=4 has no effect with by=random, only with lift\. Leave it out"
    with pytest.warns(GradgateWarning, match=told), Tuner(model, adamw(model), "sparse:rank=4+layerwise-lr"):
        pass


def test_a_plan_that_leaves_a_group_out_is_refused() -> None:
    model = build("bert")
    forgetful = Odd(gates=lambda clock, layers: {"head": OPEN})
    with pytest.raises(MethodError, match=r"'odd'.*has no gate for embeddings, layers\.0, layers\.1, layers\.2"):
        Tuner(model, adamw(model), forgetful)


def test_a_plan_for_a_group_that_is_not_there_is_refused() -> None:
    model = build("bert")
    wishful = Odd(gates=lambda clock, layers: {**dict.fromkeys(layers.names, OPEN), "layers.9": OPEN})
    with pytest.raises(MethodError, match=r"'odd'.*a gate for an unknown group: layers\.9"):
        Tuner(model, adamw(model), wishful)


def test_opening_more_than_was_announced_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Sly(Odd):
        def reaches(self, layers: LayerMap) -> frozenset[str]:
            return frozenset({"head"})

    model = build("bert")
    optimizer = torch.optim.AdamW([model.get_parameter(n) for n in map_layers(model)["head"].parameter_names])
    sly = Sly(
        gates=lambda clock, layers: {name: OPEN if name == "head" or clock.step else CLOSED for name in layers.names}
    )
    with (
        Tuner(model, optimizer, sly),
        pytest.raises(MethodError, match=r"'odd'.*opens what reaches\(\) leaves out: embeddings"),
    ):
        train(model, optimizer, 1)


@each_once(
    "text",
    ["gradual:every=1", "graddrop:mask_target=update", "full+layerwise-lr:decay=0.5"],
    "as_keyword",
    [True, False],
)
def test_a_step_with_a_closure_is_a_step(text: str, as_keyword: bool) -> None:
    plain, closed = build("bert"), build("bert")
    optimizer, other = adamw(plain), adamw(closed)
    with Tuner(plain, optimizer, text):
        train(plain, optimizer, 2)
    with Tuner(closed, other, text, audit=True) as tuner:
        for number in range(2):

            def closure(number: int = number) -> torch.Tensor:
                other.zero_grad()
                loss: torch.Tensor = closed(**tiny_batch(closed, seed=number)).loss
                loss.backward()
                return loss

            loss = other.step(closure=closure) if as_keyword else other.step(closure)
            assert loss is not None
        assert tuner.clock.step == 2
    assert_same_weights(plain, closed)


def test_an_optimizer_that_calls_its_closure_twice_is_refused() -> None:
    class Ascends(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            closure()
            return closure()

    model = build("bert")
    optimizer = Ascends(model.parameters(), lr=0.1)
    with Tuner(model, optimizer, "full"), pytest.raises(AttachError, match=r"closure more .* second call by Ascends"):
        optimizer.step(lambda: model(**tiny_batch(model)).loss.backward())


def test_lbfgs_is_refused() -> None:
    model = build("bert")
    with pytest.raises(AttachError, match="LBFGS"):
        Tuner(model, torch.optim.LBFGS(model.parameters()), "full")


# Semantics 6: a gradient that is not finite.


def poison(model: nn.Module, optimizer: torch.optim.Optimizer, factor: float) -> None:
    optimizer.zero_grad()
    (model(**batch(model, 0)).loss * factor).backward()
    optimizer.step()


@each_once(
    "factor",
    [float("nan"), float("inf")],
    "method",
    ["full", "head", "freeze:layers=1", "graddrop:p=0.9", "layer-graddrop:p=0.9"],
)
def test_a_loss_that_is_no_number_stops_at_its_step_with_the_weights_before_it(method: str, factor: float) -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, method) as tuner:
        train(model, optimizer, 2)
        before = weights(model)
        with pytest.raises(
            NonFiniteError, match=r"gradients of step 3 are not finite.*weights are still those of step 2"
        ):
            poison(model, optimizer, factor)
        assert tuner.clock.step == 2
    assert not moved(before, model)


@pytest.mark.parametrize("method", ["graddrop:p=0.9", "graddrop:p=0.9,mask_target=update"])
def test_it_is_seen_where_every_open_group_is_sparse(method: str) -> None:
    model = lora(build("bert"))
    optimizer = adamw(model)
    with Tuner(model, optimizer, method), pytest.raises(NonFiniteError, match="step 1"):
        poison(model, optimizer, float("nan"))


def test_training_goes_on_after_a_bad_batch_that_was_caught() -> None:
    models = [build("bert"), build("bert")]
    for model, bad in zip(models, (False, True), strict=True):
        optimizer = adamw(model)
        with Tuner(model, optimizer, "graddrop:p=0.5,mask_target=update", audit=True):
            train(model, optimizer, 2)
            if bad:
                with pytest.raises(NonFiniteError):
                    poison(model, optimizer, float("nan"))
            train(model, optimizer, [2, 3])
    assert_same_weights(*models)


# Semantics 8: a frozen backbone.


def lora(model: nn.Module) -> nn.Module:
    config = LoraConfig(r=2, lora_alpha=4, target_modules=["query", "value"], init_lora_weights=False)
    return get_peft_model(model, config)


def test_groups_of_a_lora_model_hold_its_adapters() -> None:
    model = lora(build("bert"))
    backbone = {name for name, p in model.named_parameters() if not p.requires_grad}
    before = weights(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.1)
    with Tuner(model, optimizer, "gradual:every=2", audit=True) as tuner:
        train(model, optimizer, 2)
        expected = {name for name in before if "lora_" in name and ("layer.2." in name or "layer.1." in name)}
        assert {n for n, p in model.named_parameters() if p.requires_grad} == expected
        assert {n for n in moved(before, model) if "layer.1." in n} == {n for n in expected if "layer.1." in n}
        train(model, optimizer, [2, 3, 4])
        assert tuner.open_fraction == sum(before[n].numel() for n in before if "lora_" in n) / sum(
            v.numel() for v in before.values()
        )
    assert moved(before, model) == {name for name in before if "lora_" in name}
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == backbone


def test_a_lora_model_learns_even_when_a_step_drops_every_layer() -> None:
    model = lora(build("bert"))
    optimizer = adamw(model)
    before = weights(model)
    with Tuner(model, optimizer, "layer-graddrop:p=0.9", audit=True) as tuner:
        dropped_all = 0
        for number in range(12):
            dropped_all += all(tuner.plan[f"layers.{i}"].dropped for i in range(3))
            then = weights(model)
            old = tuner.plan
            step(model, optimizer, number)
            if number == 0 and all(old[f"layers.{i}"].dropped for i in range(3)):
                assert moved(then, model) == {n for n in then if "lora_" in n}  # weight decay alone
        assert 0 < dropped_all < 12
    assert moved(before, model) == {n for n in before if "lora_" in n}


def test_what_the_user_froze_stays_frozen() -> None:
    model = build("bert")
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    before = weights(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", audit=True):
        train(model, optimizer, 3)
    assert moved(before, model) == set(before) - {"bert.embeddings.word_embeddings.weight"}
    assert not model.bert.embeddings.word_embeddings.weight.requires_grad


# Detaching; that nothing is left behind is in test_catalog_promises.py.


def test_a_detached_tuner_counts_no_further() -> None:
    model = build("bert")
    optimizer = adamw(model)
    tuner = Tuner(model, optimizer, "graddrop:p=0.5", audit=True)
    train(model, optimizer, 3)
    tuner.detach()
    train(model, optimizer, [3])
    assert tuner.clock.step == 3


def test_detaching_twice_does_not_undo_what_came_between() -> None:
    model = build("bert")
    tuner = Tuner(model, adamw(model), "full")
    tuner.detach()
    model.classifier.weight.requires_grad_(False)
    tuner.detach()
    assert not model.classifier.weight.requires_grad


def test_one_tuner_after_another() -> None:
    model = build("bert")
    optimizer = adamw(model)
    before = weights(model)
    with Tuner(model, optimizer, "head", audit=True):
        train(model, optimizer, 2)
    assert moved(before, model) == set(map_layers(model)["head"].parameter_names)
    with Tuner(model, optimizer, "full", audit=True):
        train(model, optimizer, 2)
    assert moved(before, model) == set(before)


def test_a_second_tuner_on_the_same_model_is_refused() -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "freeze:layers=2"):
        with pytest.raises(AttachError, match=r"already has a tuner \('freeze:layers=2'\).*detach\(\)"):
            Tuner(model, adamw(model), "full")
        assert not model.bert.embeddings.word_embeddings.weight.requires_grad
    with Tuner(model, adamw(model), "full"):
        pass


def test_the_seed_decides_the_masks() -> None:
    def trained(seed: int) -> nn.Module:
        model = build("bert")
        optimizer = adamw(model)
        with Tuner(model, optimizer, "graddrop:p=0.5", seed=seed):
            train(model, optimizer, 2)
        return model

    assert_same_weights(trained(0), trained(0))
    assert moved(weights(trained(0)), trained(1))


def test_layers_can_be_given_as_a_map_or_a_path() -> None:
    model = build("bert")
    for layers in (map_layers(model), "bert.encoder.layer"):
        optimizer = adamw(model)
        with Tuner(model, optimizer, "freeze:layers=1", layers=layers) as tuner:
            assert [name for name, gate in tuner.plan.items() if gate.closed] == ["embeddings", "layers.0"]


def _of_another_model(model: nn.Module) -> LayerMap:
    return map_layers(build("llama"))


def _before_an_adapter(model: nn.Module) -> LayerMap:
    layers = map_layers(model)
    get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    return layers


def _before_a_resize(model: Any) -> LayerMap:
    layers = map_layers(model)
    model.resize_token_embeddings(110, mean_resizing=False)
    return layers


def _before_a_new_head(model: Any) -> LayerMap:
    layers = map_layers(model)
    model.scorer, model.classifier = nn.Linear(16, 3), nn.Identity()
    return layers


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        (_of_another_model, r"of LlamaForCausalLM has lm_head.*that the model lacks"),
        (_before_an_adapter, r"of BertForSequenceClassification .*(lacks|that the model lacks)"),
        (_before_a_resize, r"has another shape of bert\.embeddings\.word_embeddings\.weight"),
        (_before_a_new_head, r"has classifier\.bias, classifier\.weight that the model lacks"),
    ],
)
def test_a_map_of_another_model_is_refused(mapped: Callable[[nn.Module], LayerMap], message: str) -> None:
    model = build("bert")
    layers = mapped(model)
    with pytest.raises(LayerMapError, match=rf"{message}.*Map the model as it is now"):
        Tuner(model, adamw(model), "full", layers=layers)


def test_the_error_of_a_missing_parameter_says_what_to_do() -> None:
    model = build("bert")
    with pytest.raises(AttachError, match=re.escape("Build the optimizer from all of model.parameters()")):
        Tuner(model, torch.optim.AdamW(model.classifier.parameters()), "full")


# Schedules that are too long.


@pytest.mark.parametrize(
    ("method", "closed", "every"),
    [
        ("lpft", "embeddings, layers.0, layers.1, layers.2", 19),
        ("gradual:every=11+layerwise-lr", "embeddings, layers.0", 10),
        ("blocks:order=top-down", "layers.0, layers.1", 9),
        ("gradfreeze:layers_per_epoch=1", "embeddings, layers.0", None),
    ],
)
def test_a_training_too_short_for_its_schedule_is_warned_of(method: str, closed: str, every: int | None) -> None:
    model = build("bert")
    remedy = f"every={every} or less" if every else "a faster schedule"
    told = rf"leaves {closed} closed to the end of this training: .* its 20 steps\. Use {remedy}, or train for more"
    with pytest.warns(UserWarning, match=told), Tuner(model, adamw(model), method, total_steps=20, steps_per_epoch=10):
        pass


@pytest.mark.parametrize(
    "method", ["head", "freeze:layers=1", "lisa:layers=1", "layer-graddrop:p=0.9", "gradual:every=10", "blocks:every=9"]
)
def test_a_schedule_that_ends_in_time_and_a_random_draw_are_not_warned_of(method: str, recwarn: Any) -> None:
    model = build("bert")
    with Tuner(model, adamw(model), method, total_steps=20):
        assert not [warned for warned in recwarn if "closed to the end" in str(warned.message)]
