"""Each kind of finding, in a small training that has the fault."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

import gradgate as gg
from gradgate.auditing.records import ModelObservations, OptimizerRecord, ParameterRecord
from gradgate.auditing.session import Audit
from gradgate.errors import SelectorError, UsageError
from support.audited_models import bert
from support.command_line import Command


def loss_of(model: nn.Module, step: int) -> Tensor:
    draw = torch.Generator().manual_seed(step)
    ids, labels = torch.randint(0, 64, (4, 6), generator=draw), torch.randint(0, 3, (4,), generator=draw)
    loss: Tensor = model(input_ids=ids, labels=labels).loss
    return loss


def train(
    model: nn.Module,
    *optimizers: torch.optim.Optimizer,
    steps: int = 4,
    loss: Callable[[nn.Module, int], Tensor] = loss_of,
    between: Callable[[int], None] = lambda step: None,
    expect: str | None = None,
) -> Audit:
    with gg.audit(model, expect=expect) as found:
        for step in range(steps):
            loss(model, step).backward()
            for optimizer in optimizers:
                optimizer.step()
            model.zero_grad()
            between(step)
    return found


def adamw(parameters: Iterable[nn.Parameter], **options: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameters, **{"lr": 1e-2, **options})


def names(found: Audit, kind: str) -> set[str]:
    return {name for each in found.findings if each.kind == kind for name in each.names}


def head_of(model: nn.Module) -> set[str]:
    return {name for name, _ in model.named_parameters() if name.startswith("classifier")}


def test_a_sound_training_has_no_finding() -> None:
    model = bert()
    found = train(model, adamw(model.parameters()), expect="embeddings/layers.*/head")
    assert (found.findings, found.expected, found.steps, found.report.notes) == ((), True, 4, ())
    assert set(found.learned.names) == {name for name, _ in model.named_parameters()}


def test_a_head_that_no_optimizer_has() -> None:
    model = bert()
    found = train(model, adamw(model.bert.parameters()))
    assert names(found, "not_in_optimizer") == head_of(model)


def test_a_parameter_in_two_optimizers() -> None:
    model = bert()
    found = train(model, adamw(model.parameters()), adamw(model.classifier.parameters(), lr=1e-3))
    assert names(found, "in_two_groups") == head_of(model)


def test_a_generator_that_was_used_up() -> None:
    model = bert()
    named = model.named_parameters()
    groups = [
        {"params": [p for n, p in named if "bias" not in n]},
        {"params": [p for n, p in named if "bias" in n]},
    ]
    found = train(model, torch.optim.AdamW(groups, lr=1e-2))
    assert names(found, "empty_group") == {name for name, _ in model.named_parameters() if "bias" in name}


def test_an_encoder_whose_output_is_detached() -> None:
    model = bert()
    model.bert.pooler.register_forward_hook(lambda module, args, output: output.detach())
    found = train(model, adamw(model.parameters()))
    silent = {name for name, _ in model.named_parameters()} - head_of(model)
    assert {name for name in silent if ".pooler." not in name} <= names(found, "no_gradient")


def test_a_gradient_that_is_always_zero() -> None:
    model = bert()
    found = train(model, adamw(model.parameters(), weight_decay=0.0), loss=without_bias)
    assert names(found, "zero_gradient") == {"classifier.bias"}


def without_bias(model: nn.Module, step: int) -> Tensor:
    """Return a loss in which the bias of the head cancels: it has a gradient, which is 0."""
    ids = torch.randint(0, 64, (4, 6), generator=torch.Generator().manual_seed(step))
    logits = model(input_ids=ids).logits - model.classifier.bias  # type: ignore[union-attr, operator]
    return logits.square().mean()


def test_decay_on_what_was_frozen_in_the_middle() -> None:
    model = bert()
    optimizer = adamw(model.parameters(), weight_decay=0.1)

    def freeze(step: int) -> None:
        for parameter in model.bert.embeddings.parameters():
            parameter.requires_grad_(False)
            parameter.grad = torch.zeros_like(parameter)  # as zero_grad(set_to_none=False) leaves it

    with gg.audit(model) as found:
        for step in range(8):
            loss_of(model, step).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            freeze(step)
    embeddings = {f"bert.embeddings.{name}" for name, _ in model.bert.embeddings.named_parameters()}
    assert names(found, "moved_while_frozen") == embeddings


def test_an_update_that_bfloat16_rounds_away() -> None:
    model = bert().to(torch.bfloat16)
    found = train(model, torch.optim.SGD(model.parameters(), lr=1e-9), steps=4)
    assert "classifier.weight" in names(found, "lost_update")


def test_a_group_with_a_rate_of_zero() -> None:
    model = bert()
    groups = [{"params": list(model.bert.parameters())}, {"params": list(model.classifier.parameters()), "lr": 0.0}]
    found = train(model, torch.optim.AdamW(groups, lr=1e-2))
    assert names(found, "zero_learning_rate") == head_of(model)


class Block(nn.Module):
    """A layer whose attention is ``q_proj`` in some and ``mixer`` in other layers, as in hybrid decoders."""

    def __init__(self, attends: bool) -> None:
        super().__init__()
        self.add_module("q_proj" if attends else "mixer", nn.Linear(8, 8))
        self.mlp = nn.Linear(8, 8)

    def forward(self, states: Tensor) -> Tensor:
        mixed = self.q_proj(states) if hasattr(self, "q_proj") else self.mixer(states)
        return states + self.mlp(torch.tanh(mixed))


class Hybrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(place % 3 == 0) for place in range(6))
        self.head = nn.Linear(8, 3)

    def forward(self, states: Tensor) -> Tensor:
        for layer in self.layers:
            states = layer(states)
        return self.head(states)


def test_lora_in_part_of_the_depth() -> None:
    torch.manual_seed(0)
    model = get_peft_model(Hybrid(), LoraConfig(target_modules=["q_proj"], r=2))
    found = train(
        model, adamw(p for p in model.parameters() if p.requires_grad),
        loss=lambda model, step: model(torch.randn(4, 8)).square().mean(),
    )  # fmt: skip
    (finding,) = found.findings
    assert finding.kind == "partial_coverage"
    assert "2 of 6 layers" in finding.text


def test_lora_on_a_name_that_no_module_has() -> None:
    model = get_peft_model(bert(), LoraConfig(target_modules=["query", "v_proj"], r=2))
    found = train(model, adamw(p for p in model.parameters() if p.requires_grad))
    assert [each.kind for each in found.findings] == ["partial_coverage"]
    assert "v_proj" in found.findings[0].text


def test_a_base_that_learns_under_its_adapter() -> None:
    model = get_peft_model(bert(), LoraConfig(target_modules=["query"], r=2))
    model.requires_grad_(True)
    found = train(model, adamw(model.parameters()))
    (finding,) = found.findings
    assert (finding.kind, "bert.encoder.layer.0.output.dense.weight" in str(finding.names)) == ("unexpected", True)
    assert "which has adapters, but 100% of it learns" in finding.text


def test_a_table_that_was_replaced_after_the_optimizer_was_made() -> None:
    model = bert()
    optimizer = adamw(model.parameters())
    model.set_input_embeddings(nn.Embedding(70, 16))
    found = train(model, optimizer)
    assert "bert.embeddings.word_embeddings.weight" in names(found, "replaced")


def test_a_state_that_one_of_two_resumed_optimizers_lacks() -> None:
    def optimizers(model: BertForSequenceClassification) -> list[torch.optim.AdamW]:
        return [adamw(model.bert.parameters()), adamw(model.classifier.parameters())]

    model = bert()
    embedded = "bert.embeddings.word_embeddings.weight"
    model.get_parameter(embedded).requires_grad_(False)
    before = optimizers(model)
    train(model, *before)
    model = bert()
    resumed = optimizers(model)
    for optimizer, earlier in zip(resumed, before, strict=True):
        optimizer.load_state_dict(earlier.state_dict())
    assert names(train(model, *resumed), "unexpected") == {embedded}


def test_a_second_phase_with_the_same_optimizer_resumes_nothing() -> None:
    model = bert()
    model.bert.requires_grad_(False)
    optimizer = adamw(model.parameters())
    train(model, optimizer)
    model.requires_grad_(True)
    assert names(train(model, optimizer), "unexpected") == set()


def test_a_module_that_is_added_during_the_training_has_a_row() -> None:
    model = bert()
    optimizer = adamw(model.parameters())

    def add(step: int) -> None:
        if step == 0:
            model.added = nn.Linear(16, 16)
            model.bert.pooler.register_forward_hook(lambda module, args, output: model.added(output))
            optimizer.add_param_group({"params": list(model.added.parameters())})

    found = train(model, optimizer, between=add)
    assert {"added.weight", "added.bias"} <= set(found.learned.names)
    assert [line.split()[:2] for line in str(found).splitlines() if line.strip().startswith("added")] == [
        ["added", "272"]
    ]


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    )


def next_words(model: nn.Module, step: int) -> Tensor:
    ids = torch.randint(0, 64, (2, 8), generator=torch.Generator().manual_seed(step))
    loss: Tensor = model(input_ids=ids, labels=ids).loss
    return loss


def test_tied_tables_that_come_apart() -> None:
    model = gpt2()
    model.lm_head = copy.deepcopy(model.lm_head)
    found = train(model, adamw(model.parameters()), loss=next_words)
    assert names(found, "untied") == {"lm_head.weight", "transformer.wte.weight"}


def test_a_loss_over_no_tokens() -> None:
    model = gpt2()

    def empty(model: nn.Module, step: int) -> Tensor:
        ids = torch.randint(0, 64, (2, 8))
        loss: Tensor = model(input_ids=ids, labels=torch.full_like(ids, -100)).loss.nan_to_num()
        return loss

    found = train(model, adamw(model.parameters()), loss=empty)
    assert "zero_tokens" in {each.kind for each in found.findings}


def test_a_training_that_learns_more_than_was_expected() -> None:
    model = bert()
    found = train(model, adamw(model.parameters()), expect="head")
    assert found.expected is False
    assert "unexpected" in {each.kind for each in found.findings}
    frozen = bert()
    for parameter in frozen.bert.parameters():
        parameter.requires_grad_(False)
    assert train(frozen, adamw(frozen.classifier.parameters()), expect="head").expected is True


def test_what_zero_gradients_freeze_still_moves_against_the_expectation() -> None:
    model = bert()
    for parameter in model.bert.encoder.parameters():
        parameter.register_hook(torch.zeros_like)

    def close(step: int) -> None:
        for parameter in model.bert.embeddings.parameters():
            parameter.requires_grad_(False)
            parameter.grad = torch.zeros_like(parameter)

    close(0)
    found = train(model, adamw(model.parameters(), weight_decay=0.1), between=close, expect="head")
    assert found.expected is False
    moved = {"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.output.dense.weight"}
    assert moved <= names(found, "unexpected")
    assert head_of(model) <= set(found.learned.names)


def test_an_audit_changes_no_bit() -> None:
    ends = []
    for is_audited in (True, False):
        model = bert()
        optimizer = adamw(model.parameters())
        torch.manual_seed(1)
        if is_audited:
            train(model, optimizer)
        else:
            for step in range(4):
                loss_of(model, step).backward()
                optimizer.step()
                model.zero_grad()
        ends.append(({n: p.detach().clone() for n, p in model.named_parameters()}, torch.rand(1)))
    (first, draw), (second, other) = ends
    assert torch.equal(draw, other)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_selector_that_no_model_has_is_refused_before_the_training() -> None:
    for refused in (lambda text: gg.audit(expect=text), lambda text: gg.AuditCallback(expect=text)):
        with pytest.raises(SelectorError, match=r"'layrs.3' is not a valid selector term. Did you mean 'layers"):
            refused("layrs.3")


def test_a_step_below_1_is_refused_before_the_training(command: Command) -> None:
    for refused in (gg.audit, gg.AuditCallback):
        with pytest.raises(UsageError, match="steps=0: expected a step number, 1 or more"):
            refused(steps=0)
    said = command("audit", "--steps", "0", "--", "python", "-c", "print('trained')")
    assert (said.code, said.out) == (2, "")
    assert "--steps 0: expected a step number, 1 or more" in said.err


@pytest.mark.parametrize("audit", [gg.audit, gg.AuditCallback])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": "a"}, "steps='a': expected a step number"),
        ({"steps": 2.5}, "steps=2.5: expected a step number"),
        ({"expect": 3}, "expect=3: expected a selector"),
    ],
)
def test_an_argument_of_another_type_is_refused(audit: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        audit(**wrong)


def test_a_selector_that_this_model_lacks_is_told_at_the_end() -> None:
    model = bert()
    found = train(model, adamw(model.parameters()), expect="layers.top9")
    assert found.expected is None
    assert "expectation layers.top9: cannot be checked" in str(found)
    assert "expected 1 to 3 layers, got 9" in str(found)


def test_what_has_moved_and_was_put_back_has_learned() -> None:
    model = bert()
    start = copy.deepcopy(model.state_dict())
    found = train(model, adamw(model.parameters()), between=lambda step: _restore(model, start, step))
    assert found.findings == ()
    assert len(found.learned.names) == len(start)


def _restore(model: nn.Module, start: dict[str, Tensor], step: int) -> None:
    if step == 3:
        model.load_state_dict(start)


def test_a_pooler_that_has_a_gradient_and_does_not_learn_is_not_as_expected() -> None:
    model = bert()
    assert train(model, adamw(model.classifier.parameters()), expect="head").expected is False
    model.bert.pooler.requires_grad_(False)
    assert train(model, adamw(model.classifier.parameters()), expect="head").expected is True


def test_a_model_of_an_earlier_training_is_not_in_the_report() -> None:
    earlier, model = bert(), bert()
    earlier.classifier.requires_grad_(False)
    loss_of(earlier, 0).backward()
    with gg.audit(expect="embeddings/layers.*/head") as found:
        optimizer = adamw(model.parameters())
        for step in range(4):
            loss_of(model, step).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert earlier.bert.pooler.dense.weight.grad is not None
    assert (len(found.report.models), found.findings, found.expected) == (1, (), True)


def test_the_copy_of_a_trained_model_is_said_to_be_in_no_optimizer() -> None:
    model = bert()
    with gg.audit(copy.deepcopy(model), expect="head") as found:
        optimizer = adamw(model.parameters())
        loss_of(model, 0).backward()
        optimizer.step()
    assert (found.report.models, found.expected) == ((), None)
    assert "BertForSequenceClassification: no optimizer holds a weight of it; the training made 1 step of AdamW" in str(
        found
    )
    assert "No optimizer of torch" not in str(found)


def test_a_given_model_is_in_the_report_though_it_does_not_train() -> None:
    given, model = bert(), gpt2()
    loss_of(given, 0).backward()
    with gg.audit(given, model) as found:
        optimizer = adamw(model.parameters())
        for step in range(4):
            next_words(model, step).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(found.report.models) == 2
    assert not any("bert" in name for name in found.learned.names)


def test_a_parameter_that_closes_late_and_still_moves() -> None:
    model = bert()
    optimizer = adamw(model.parameters(), weight_decay=0.1)

    def freeze(step: int) -> None:
        if step == 8:  # no look comes after it
            model.classifier.requires_grad_(False)
            model.classifier.weight.grad = torch.zeros_like(model.classifier.weight)

    with gg.audit(model) as found:
        for step in range(11):
            loss_of(model, step).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            freeze(step)
    assert names(found, "moved_while_frozen") == head_of(model)


def test_a_schedule_that_resumes_opens_what_has_no_state_yet() -> None:
    """What is closed when the states are restored has none, and needs none until it opens."""
    model = bert()
    model.bert.embeddings.requires_grad_(False)
    before = adamw(model.parameters())
    train(model, before)
    resumed = adamw(model.parameters())
    resumed.load_state_dict(before.state_dict())

    def open_all(step: int) -> None:
        model.requires_grad_(step >= 1)
        if step < 1:
            model.classifier.requires_grad_(True)

    assert names(train(model, resumed, between=open_all), "unexpected") == set()


@pytest.mark.parametrize("kind", ["LOHA", "FOURIERFT"])
def test_every_adapter_of_peft_has_modules_that_it_adapts(kind: str) -> None:
    from peft import FourierFTConfig, LoHaConfig

    wanted = {
        "LOHA": LoHaConfig(target_modules=["query", "value"], r=2),
        "FOURIERFT": FourierFTConfig(target_modules=["query", "value"], n_frequency=8, task_type="SEQ_CLS"),
    }
    model: Any = get_peft_model(bert(), wanted[kind])
    assert names(train(model, adamw(model.parameters())), "partial_coverage") == set()


def test_an_optimizer_that_one_process_has_alone_is_merged_with_its_rates() -> None:
    both, first = (
        ModelObservations(
            "Net",
            [
                ParameterRecord("a", [2], "", "head", "", homes=[[0, 0]]),
                ParameterRecord("b", [2], "", "head", "", homes=[[1, 0]] if rank else []),
            ],
            optimizers=[OptimizerRecord("AdamW", 4, rates=[0.1]), OptimizerRecord("SGD", 4, rates=[0.5])][: rank + 1],
        )
        for rank in (1, 0)
    )
    for merged in (first.merged(both), both.merged(first)):
        assert [merged.rate(each) for each in merged.parameters] == [0.1, 0.5]
