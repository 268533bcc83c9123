"""The layerwise outlier distribution, against the formula of OWL on the same weights and inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradgate import map_layers
from gradgate.errors import AttachError, NonFiniteError
from gradgate.measure import OutlierRequest
from gradgate.measure.outliers import outlier_shares
from support.loop import batch, build, same, weights
from support.tiny_models import TINY


def by_hand(model: nn.Module, module: nn.Module, given: list[dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """A linear layer's weight, one row an output, and every token's input of it, without padding."""
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        for one in given:
            model(**one)
    hook.remove()
    rows = [x[one["attention_mask"].bool()] for x, one in zip(seen, given, strict=True)]
    weight: Any = module.weight
    return (weight.T if type(module).__name__ == "Conv1D" else weight).detach(), torch.cat(rows)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_the_shares_are_those_of_the_formula(name: str) -> None:
    """LOD: the share of elements of |W| * ||X||_2, over a layer's matrices, above M times their mean."""
    model, threshold = build(name), 2.0
    given = [{**batch(model, seed), "attention_mask": padded(model, seed)} for seed in range(2)]
    layers = map_layers(model)
    groups = {group.name: group.parameter_names for group in layers.layers}
    found = outlier_shares(model, groups, given, OutlierRequest(tuple(groups), threshold=threshold))
    for group, names in groups.items():
        linear = [m for n, m in model.named_modules() if f"{n}.weight" in names and m.weight.dim() > 1]
        metrics = []
        for module in linear:
            weight, inputs = by_hand(model, module, given)
            metrics.append((weight.abs() * inputs.norm(p=2, dim=0)).flatten())
        metric = torch.cat(metrics)
        assert len(linear) >= 4
        assert found[group] == pytest.approx(float((metric > threshold * metric.mean()).float().mean()), abs=1e-4)
        assert found[group] > 0.0


def padded(model: nn.Module, seed: int) -> Tensor:
    """A mask that leaves out the last tokens of the first row."""
    mask = torch.ones_like(batch(model, seed)["input_ids"])
    mask[0, -2:] = 0
    return mask


def test_measuring_leaves_no_trace() -> None:
    model = build("bert", dropout=True)
    before, state = weights(model), torch.random.get_rng_state()
    groups = {group.name: group.parameter_names for group in map_layers(model).layers}
    first, again = (outlier_shares(model, groups, [batch(model, 0)], OutlierRequest(tuple(groups))) for _ in range(2))
    assert first == again
    assert model.training
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(same(before[name], parameter) for name, parameter in model.named_parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_what_cannot_be_measured_says_why() -> None:
    model = build("bert")
    groups = {"layers.0": map_layers(model)["layers.0"].parameter_names}
    none: Iterable[dict[str, Tensor]] = []
    with pytest.raises(AttachError, match="on at least one training batch"):
        outlier_shares(model, groups, none, OutlierRequest(("layers.0",)))
    with pytest.raises(AttachError, match="failed for its entries nonsense"):
        outlier_shares(model, groups, [{"nonsense": torch.ones(1)}], OutlierRequest(("layers.0",)))
    broken: Any = copy.deepcopy(model)
    broken.bert.encoder.layer[0].attention.self.query.weight.data.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=r"layers\.0 are not finite"):
        outlier_shares(broken, groups, [batch(broken, 0)], OutlierRequest(("layers.0",)))


@pytest.mark.parametrize("name", ["t5", "bart-lm"])
def test_padding_of_the_source_is_left_out_of_what_comes_from_the_source_alone(name: str) -> None:
    """Whatever the length of the source, and so where it is that of the target too."""
    model = TINY[name]().eval()
    groups = {group.name: group.parameter_names for group in map_layers(model).layers}
    labels = torch.arange(4, 18).view(2, 7)
    source = torch.tensor([[5, 6, 7, 0, 0, 0, 0], [8, 9, 10, 11, 0, 0, 0]])

    def shares(more: int) -> dict[str, float]:
        ids = torch.nn.functional.pad(source, (0, more))
        data = [{"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}]
        return outlier_shares(model, groups, data, OutlierRequest(groups=tuple(groups), threshold=1.5))

    assert shares(0) == shares(1)
    assert any(shares(0).values())


def test_batches_without_names_are_refused_in_a_sentence() -> None:
    model = build("bert")
    groups = {group.name: group.parameter_names for group in map_layers(model).layers}
    rows: Any = [[batch(model, 0)["input_ids"]]]
    with pytest.raises(AttachError, match="as keyword arguments, which failed for a list: "):
        outlier_shares(model, groups, rows, OutlierRequest(tuple(groups)))
