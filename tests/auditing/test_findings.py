"""Each kind of finding, in a small training that has the fault."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

import gradgate as gg
from gradgate.auditing.session import Audit
from support.command_line import Command


def bert(layers: int = 3) -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=64,
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


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
    assert (found.findings, found.expected, found.steps) == ((), True, 4)
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


SCRIPT = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
for _ in range(4):
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    model.zero_grad()
print("trained")
sys.exit({code})
"""


def audit_script(command: Command, tmp_path: Path, text: str, *flags: str) -> tuple[int, dict[str, object]]:
    file, out = tmp_path / "train.py", tmp_path / "audit.json"
    file.write_text(text, encoding="utf-8")
    done = command("audit", "--json", "--out", str(out), *flags, "--", sys.executable, str(file))
    return done.code, json.loads(out.read_text(encoding="utf-8"))


def test_a_script_keeps_its_exit_code_and_its_fault_is_found(command: Command, tmp_path: Path) -> None:
    code, report = audit_script(command, tmp_path, SCRIPT.format(code=3))
    assert code == 3
    assert list(report) == ["steps", "learned", "findings", "expected"]
    assert report["steps"] == 4
    assert report["learned"] == {"names": ["0.weight", "0.bias"], "elements": 40}
    assert [(each["kind"], each["names"]) for each in report["findings"]] == [  # type: ignore[attr-defined]
        ("not_in_optimizer", ["1.weight", "1.bias"])
    ]
    assert report["expected"] is None


def test_a_script_without_torch_keeps_its_output(tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    words = ["audit", "--json", "--out", str(out), "--", sys.executable, "-c", "print('done')"]
    done = subprocess.run([sys.executable, "-m", "gradgate", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
    report = json.loads(out.read_text(encoding="utf-8"))
    assert (report["steps"], report["findings"]) == (0, [])


def test_a_report_that_has_no_place_is_refused_before_the_training(command: Command, tmp_path: Path) -> None:
    script = ["--", sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    said = command("audit", "--out", str(tmp_path), *script)
    assert said.code != 0
    assert f"Cannot write {tmp_path}: Is a directory" in said.err
    assert list(tmp_path.iterdir()) == []


def test_steps_of_two_checkpoints_are_refused(command: Command) -> None:
    said = command("audit", "sample", "sample", "--steps", "3")
    assert said.code == 2
    assert "--steps 3: two checkpoints have no steps" in said.err


def test_two_checkpoints(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.save_pretrained(tmp_path / "base")
    with torch.no_grad():
        model.classifier.weight += 1.0
    model.save_pretrained(tmp_path / "trained")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "trained"), "--json"]
    done = command(*words, "--expect", "head")
    report = json.loads(done.out)
    assert report["learned"] == {"names": ["classifier.weight"], "elements": 48}
    assert (done.code, report["expected"]) == (1, False)  # the bias did not learn
    assert command("audit", str(tmp_path / "base")).code == 2


def test_an_adapter_on_a_base_that_was_stored_without_a_head(command: Command, tmp_path: Path) -> None:
    model = bert()
    model.bert.save_pretrained(tmp_path / "base")  # its names have no "bert."
    adapted = get_peft_model(model, LoraConfig(target_modules=["query"], layers_to_transform=[2], r=2))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.ones_(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    words = ["audit", str(tmp_path / "base"), str(tmp_path / "adapter")]
    assert json.loads(command(*words, "--expect", "layers.top1", "--json").out)["expected"] is True
    assert json.loads(command(*words, "--expect", "layers.0", "--json").out)["expected"] is False
    assert "layers.2" in command(*words).out


def test_a_file_of_tensors_without_names_is_refused(command: Command, tmp_path: Path) -> None:
    torch.save({0: torch.zeros(2)}, tmp_path / "list.pt")
    said = command("audit", str(tmp_path / "list.pt"), str(tmp_path / "list.pt"))
    assert said.code != 0
    assert "list.pt has no tensors. Expected tensors by name" in said.err
