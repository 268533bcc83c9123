"""SHiRA's and LIFT's measured masks: which elements are chosen, that the others hold, and that a choice is kept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn

from gradgate import Sparse, Tuner, deltas
from gradgate.errors import AttachError, MethodError, NonFiniteError, RunError
from gradgate.measure.scores import low_rank
from gradgate.measure.selection import largest, unpack
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.bits import on_disk, same_bits
from support.crossed import some_fast
from support.loop import Weights, adamw, batch, build, fisher_data, layers_of, moved, weights
from support.loop import train as steps
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run

SHARE = 0.1


def matrices(model: nn.Module) -> list[str]:
    names = [name for group in layers_of(model).layers for name in group.parameter_names]
    return [name for name in names if model.get_parameter(name).dim() > 1]


def masks_of(tuner: Tuner, model: nn.Module) -> Weights:
    """The mask of each matrix, in its shape."""
    stored = {name.removeprefix("chosen/"): bits for name, bits in tuner.state_dict()["tensors"].items()}
    shapes = {name: model.get_parameter(name).shape for name in stored}
    return {name: unpack(bits, shapes[name].numel()).view(shapes[name]) for name, bits in stored.items()}


def as_papers_say(model: nn.Module, by: str) -> Weights:
    """The scores that the papers rank elements by, the long way."""
    if by == "gradient":
        for data in fisher_data(model)(0):
            model(**data).loss.backward()
        found = {name: model.get_parameter(name).grad.abs() for name in matrices(model)}
        model.zero_grad()
        return found
    values = {name: model.get_parameter(name).detach() for name in matrices(model)}
    if by == "lift":
        parts = {name: torch.svd(value) for name, value in values.items()}
        values = {name: u[:, :4] @ torch.diag(s[:4]) @ v[:, :4].T for name, (u, s, v) in parts.items()}
    return {name: value.abs() for name, value in values.items()}


@pytest.mark.parametrize("by", ["magnitude", "gradient", "lift"])
def test_the_largest_of_each_matrix_learn_and_all_else_holds_under_weight_decay(by: str) -> None:
    model = build("bert")
    before, scores, optimizer = weights(model), as_papers_say(model, by), adamw(model)
    data = fisher_data(model) if by == "gradient" else None
    with Tuner(model, optimizer, Sparse(share=SHARE, by=by, rank=4), fisher_data=data, audit=True) as tuner:
        masks = masks_of(tuner, model)
        share = tuner.open_fraction
        steps(model, optimizer, 4)
        assert all(same_bits(mask, masks_of(tuner, model)[name]) for name, mask in masks.items()), "chosen once"
    assert masks.keys() == set(matrices(model))
    for name, mask in masks.items():
        assert int(mask.sum()) == round(SHARE * mask.numel())
        assert scores[name][mask].min() >= scores[name][~mask].max() * (1 - 1e-5)
        changed = model.get_parameter(name).detach() != before[name]
        assert not (changed & ~mask).any()
        assert changed[mask].float().mean() > 0.9
    assert moved(before, model) <= {*masks, *layers_of(model)["head"].parameter_names}
    assert share < 0.15


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_exactly_so_many_are_the_largest_and_of_equal_ones_the_first(values: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(values)))
    picked = largest(torch.tensor(values, dtype=torch.float32).view(1, -1), count)[0].tolist()
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    assert [place for place, chosen in enumerate(picked) if chosen] == sorted(order[:count])


def test_a_low_rank_matrix_is_its_own_approximation_and_a_diagonal_keeps_its_largest() -> None:
    thin = torch.randn(6, 2) @ torch.randn(2, 9)
    torch.testing.assert_close(low_rank(thin, 2), thin)
    torch.testing.assert_close(
        low_rank(torch.diag(torch.tensor([1.0, 3.0, 2.0])), 1), torch.diag(torch.tensor([0, 3.0, 0]))
    )
    experts = torch.randn(3, 5, 4)
    torch.testing.assert_close(low_rank(experts, 2)[1], low_rank(experts[1], 2))


def test_a_new_choice_is_by_the_new_weights_and_forgets_what_it_closes() -> None:
    model = build("bert")
    optimizer = adamw(model, lr=0.05)
    text = "sparse:share=0.2,by=lift,rank=4,every=3"
    with Tuner(model, optimizer, text) as tuner:
        first = masks_of(tuner, model)
        steps(model, optimizer, 1)
        assert all(same_bits(mask, first[name]) for name, mask in masks_of(tuner, model).items())
        steps(model, optimizer, range(1, 2))  # the third step is the first with the next choice
        second, scores, held = masks_of(tuner, model), as_papers_say(model, "lift"), weights(model)
        for name, mask in second.items():
            assert scores[name][mask].min() >= scores[name][~mask].max() * (1 - 1e-5)
            moments = optimizer.state[model.get_parameter(name)]
            assert not moments["exp_avg"][~mask].any()
            assert not moments["exp_avg_sq"][~mask].any()
            assert not moments["exp_avg"][mask & ~first[name]].any(), "what is new begins at zero"
            assert moments["exp_avg"][mask & first[name]].any(), "what stays goes on"
            assert float(moments["step"]) == 2
        steps(model, optimizer, range(2, 4))
        assert [phase.step for phase in tuner.timeline.phases] == [0, 2]
    assert any(not same_bits(mask, first[name]) for name, mask in second.items())
    for name, mask in second.items():
        assert same_bits(model.get_parameter(name).detach()[~mask], held[name][~mask])


def test_random_masks_are_drawn_anew_where_asked() -> None:
    model = build("bert")
    before, optimizer = weights(model), adamw(model)
    name = matrices(model)[0]
    with Tuner(model, optimizer, "sparse:share=0.1,every=2") as tuner:
        steps(model, optimizer, 4)
        moments = optimizer.state[model.get_parameter(name)]["exp_avg"]
        assert [phase.step for phase in tuner.timeline.phases] == [0, 1, 3]
    assert (moments != 0).float().mean() < 0.13
    assert (model.get_parameter(name) != before[name]).float().mean() > 0.2


@some_fast("by", ["magnitude", "gradient"], ["gradient"])
def test_a_run_resumes_with_its_choice_and_its_delta_is_the_mask(
    tmp_path: Path, settings: dict[str, Any], by: str
) -> None:
    text = f"sparse:share=0.05,by={by},batches=2"
    config = make_config(**{**settings, "steps": 6, "save_every": 2, "method": text, "store": "model"})
    train(config, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "cut", Falls(3))
    train(config, tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")

    made = deltas.create(tmp_path / "whole/model", settings["model"], tmp_path / "d.safetensors")
    elements, stored = on_disk(tmp_path / "whole/model"), load_file(made.path)
    assert made.sparse
    assert not [name for name in made.whole if "encoder" in name or "embeddings" in name]
    for name in made.sparse:
        assert stored[f"{name}.idx"].numel() <= round(0.05 * elements[name].numel())


def test_a_resumed_training_keeps_the_choice_although_the_weights_have_changed() -> None:
    unbroken, resumed = build("bert"), build("bert")
    text, optimizer = "sparse:share=0.1,by=magnitude,every=4", adamw(unbroken)
    with Tuner(unbroken, optimizer, text) as tuner:
        steps(unbroken, optimizer, 5)
        state, past = tuner.state_dict(), optimizer.state_dict()
        resumed.load_state_dict(unbroken.state_dict())
        again = adamw(resumed)
        again.load_state_dict(copy.deepcopy(past))  # torch takes the tensors as they are
        kept = {name: bits.clone() for name, bits in state["tensors"].items()}
        steps(unbroken, optimizer, range(5, 9))
    with Tuner(resumed, again, text, state={**state, "tensors": kept}) as tuner:
        assert all(same_bits(bits, kept[name]) for name, bits in tuner.state_dict()["tensors"].items())
        steps(resumed, again, range(5, 9))
    assert not moved(weights(unbroken), resumed)
    with pytest.raises(RunError, match="cannot resume without what it measured"), Tuner(resumed, again, text) as tuner:
        tuner.resume_at(5)


def test_what_cannot_work_is_said_before_the_training() -> None:
    model = build("bert")
    with pytest.raises(MethodError, match=r"no matrix of this model has a higher rank than \d+.*by=magnitude"):
        Tuner(model, adamw(model), "sparse:by=lift")
    with pytest.raises(AttachError, match="gradients, of training batches"):
        Tuner(model, adamw(model), "sparse:by=gradient")
    with torch.no_grad():
        model.get_parameter(matrices(model)[2])[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=f"1 elements of {matrices(model)[2]}"):
        Tuner(model, adamw(model), "sparse:by=magnitude")


def test_measuring_gradients_leaves_no_trace() -> None:
    model, plain = build("bert", dropout=True), build("bert", dropout=True)
    states: list[Tensor] = []
    for one, data in ((model, fisher_data(model)), (plain, None)):
        torch.manual_seed(0)
        text = "sparse:by=gradient,share=0.1" if data else "sparse:share=0.1"
        with Tuner(one, adamw(one), text, fisher_data=data):
            one(**batch(one, 0)).loss.backward()
        states.append(torch.random.get_rng_state())
    assert torch.equal(*states)
    assert same_bits(model.classifier.weight.grad, plain.classifier.weight.grad)
