"""Child-Tuning: which weights the child network has, and what becomes of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from gradgate import ChildTuning, GateCallback, Tuner, method
from gradgate.errors import AttachError, MethodError, RunError
from gradgate.measure.selection import pack, unpack
from support.loop import Weights, adamw, assert_same_weights, batch, build, fisher_data, layers_of, train, weights
from support.trainers import trainer_of


def inner(model: nn.Module) -> set[str]:
    """The parameters of the layers, which the task-driven form chooses from."""
    return {name for group in layers_of(model).layers for name in group.parameter_names}


def information(model: nn.Module, batches: list[dict[str, Tensor]]) -> Weights:
    """The mean over batches of the squared gradient of the loss with the data's labels, the long way."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for data in batches:
        model.zero_grad()
        model(**data).loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                total[name] += parameter.grad**2 / len(batches)
    model.zero_grad()
    return total


def changed(before: Weights, model: nn.Module) -> Weights:
    return {name: p.detach() != before[name] for name, p in model.named_parameters()}


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_a_mask_survives_its_bits(values: list[bool]) -> None:
    mask = torch.tensor(values)
    bits = pack(mask)
    assert bits.numel() == -(-len(values) // 8)
    assert torch.equal(unpack(bits, len(values)), mask)


def test_task_driven_keeps_the_weights_with_the_largest_information() -> None:
    model = build("bert")
    data = [batch(model, seed) for seed in range(3)]
    expected, names = information(model, data), inner(model)
    values = torch.cat([expected[name].flatten() for name in sorted(names)])
    text = "child-tuning:mode=D,keep=0.25,fisher_eval_mode=true"
    with Tuner(model, adamw(model), text, fisher_data=lambda step: data) as tuner:
        masks = tuner.state_dict()["tensors"]
    assert {path.removeprefix("chosen/") for path in masks} == names
    picked = {name: unpack(masks[f"chosen/{name}"], expected[name].numel()) for name in names}
    count = sum(int(mask.sum()) for mask in picked.values())
    assert abs(count / values.numel() - 0.25) < 0.01
    least = min(float(expected[name].flatten()[mask].min()) for name, mask in picked.items() if mask.any())
    most = max(float(expected[name].flatten()[~mask].max()) for name, mask in picked.items() if not mask.all())
    assert least >= most * (1 - 1e-4)


def test_task_driven_moves_the_chosen_weights_the_embeddings_and_the_head_alone() -> None:
    model = build("bert")
    optimizer, before, names = adamw(model, weight_decay=0.0), weights(model), inner(model)
    with Tuner(model, optimizer, "child-tuning:mode=D,keep=0.2", fisher_data=fisher_data(model)) as tuner:
        train(model, optimizer, 4)
        masks = tuner.state_dict()["tensors"]
    moved = changed(before, model)
    for name in names:
        chosen = unpack(masks[f"chosen/{name}"], moved[name].numel()).view(moved[name].shape)
        assert not bool((moved[name] & ~chosen).any()), name
    assert bool(moved["classifier.weight"].all())
    assert bool(moved["bert.embeddings.word_embeddings.weight"].any())


@pytest.mark.parametrize("mode", ["F", "D"])
def test_held_weights_keep_every_bit_under_weight_decay(mode: str) -> None:
    model = build("bert")
    optimizer, before, names = adamw(model), weights(model), inner(model)
    text = f"child-tuning:mode={mode},keep=0.3,mask_target=update"
    with Tuner(model, optimizer, text, fisher_data=fisher_data(model)):
        train(model, optimizer, 1)
    moved = changed(before, model)
    share = sum(int(moved[n].sum()) for n in names) / sum(moved[n].numel() for n in names)
    assert 0.15 < share < 0.32  # some of what passes has no gradient


def test_task_free_divides_by_the_kept_share_over_all_parameters() -> None:
    model, plain = build("bert"), build("bert")
    data = batch(model, 0)
    with Tuner(model, adamw(model), "child-tuning:keep=0.4"):
        model(**data).loss.backward()
    plain(**data).loss.backward()
    kept = total = 0
    for (name, masked), whole in zip(model.named_parameters(), plain.parameters(), strict=True):
        if whole.grad is None:
            continue
        passes = masked.grad != 0
        torch.testing.assert_close(masked.grad[passes], whole.grad[passes] / 0.4, msg=name)
        kept, total = kept + int(passes.sum()), total + int((whole.grad != 0).sum())
    assert abs(kept / total - 0.4) < 4 * (0.4 * 0.6 / total) ** 0.5


def test_choosing_leaves_no_trace_on_the_training() -> None:
    model, plain = build("bert", dropout=True), build("bert", dropout=True)
    torch.manual_seed(0)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "child-tuning:mode=D,keep=1", fisher_data=fisher_data(model)):
        train(model, optimizer, 3)
    torch.manual_seed(0)
    other = adamw(plain)
    with Tuner(plain, other, "full"):
        train(plain, other, 3)
    assert_same_weights(model, plain)


def test_resumes_in_trainer_with_the_choice_it_made(tmp_path: Path) -> None:
    text = "child-tuning:mode=D,keep=0.3,mask_target=update"
    unbroken, resumed = build("bert", dropout=True), build("bert", dropout=True)
    trainer_of(unbroken, tmp_path, GateCallback(text), save_strategy="steps", save_steps=4, max_steps=6).train()
    checkpoint = tmp_path / "checkpoint-4"
    trainer_of(resumed, tmp_path, GateCallback(text), max_steps=6).train(resume_from_checkpoint=str(checkpoint))
    assert_same_weights(unbroken, resumed)
    (checkpoint / "gradgate.safetensors").unlink()
    (checkpoint / "gradgate.json").unlink()
    with pytest.raises(RunError, match="cannot resume without what it measured"):
        trainer_of(build("bert"), tmp_path, GateCallback(text)).train(resume_from_checkpoint=str(checkpoint))


def test_a_plan_file_cannot_stand_in_for_its_masks(tmp_path: Path) -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "child-tuning:mode=D,keep=0.3", fisher_data=fisher_data(model)) as tuner:
        timeline = tuner.timeline.described(tuner.method, tuner.layers, 5)
    (tmp_path / "plan.yaml").write_text(timeline.to_yaml())
    with pytest.raises(MethodError, match=r"has no masks\. Use the method itself"):
        method(f"plan:{tmp_path / 'plan.yaml'}")


def test_two_seeds_of_the_task_free_form_draw_other_masks() -> None:
    found = []
    for seed in (0, 1):
        model = build("bert")
        with Tuner(model, adamw(model), "child-tuning:keep=0.5", seed=seed):
            model(**batch(model, 0)).loss.backward()
        found.append(model.classifier.weight.grad != 0)
    assert not torch.equal(*found)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(MethodError, match="0 < keep <= 1"):
        ChildTuning(keep=0.0)
    with pytest.raises(MethodError, match="expected 'F' or 'D'"):
        method("child-tuning:mode=G")
    model = build("bert")
    with pytest.raises(AttachError, match="measures the Fisher information"):
        Tuner(model, adamw(model), "child-tuning:mode=D")
