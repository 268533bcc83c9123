"""Models under torch.compile learn as they do without it, and stay compiled however often layers open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradgate import Tuner, map_layers
from support.loop import adamw, same, weights

METHODS = ("gradual:every=1", "graddrop:p=0.3", "graddrop:p=0.3,mask_target=update", "freeze:layers=1")


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed(inputs)
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        return self.head(hidden)


class Twin(nn.Module):
    """Two weights with one and the same gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.left(hidden) + self.right(hidden)


@pytest.fixture(autouse=True)
def _forget_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def stack(depth: int = 3, layer: Callable[[], nn.Module] = Twin) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Stack([layer() for _ in range(depth)])


def data(step: int) -> Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(step))


def train(model: nn.Module, method: str, *, wrap: Callable[[nn.Module], nn.Module], steps: int) -> list[set[str]]:
    """Names of the parameters that had a gradient in each step."""
    layers = map_layers(model, "layers", example={"inputs": data(0)})
    wrapped, optimizer, learned = wrap(model), adamw(model), []
    with Tuner(wrapped, optimizer, method, layers=layers, audit=True, seed=1) as tuner:
        for step in range(steps):
            optimizer.zero_grad()
            wrapped(data(step)).pow(2).mean().backward()
            learned.append({name for name, p in model.named_parameters() if p.grad is not None})
            assert learned[-1] == {name for name, p in model.named_parameters() if p.requires_grad}
            optimizer.step()
        assert tuner.clock.step == steps
    return learned


@pytest.mark.slow
def test_a_dozen_unfreezings_do_not_fall_back_to_eager() -> None:
    limits = torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit
    graphs = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    model = stack(depth=13, layer=lambda: nn.Linear(8, 8))
    learned = train(model, "gradual:every=1", wrap=lambda m: torch.compile(m, backend=count), steps=14)
    sets = len({frozenset(names) for names in learned})
    assert sets == 12
    assert len(graphs) == sets
    assert not [reason for reason in torch._dynamo.utils.counters["unimplemented"] if "limit" in reason]
    assert (torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit) == limits


@pytest.mark.parametrize(
    ("method", "how"),
    [
        (METHODS[0], "inside"),
        (METHODS[2], "inside"),
        (METHODS[0], "around"),
        (METHODS[2], "by layer"),
        pytest.param(METHODS[1], "inside", marks=pytest.mark.slow),
        pytest.param(METHODS[3], "inside", marks=pytest.mark.slow),
        pytest.param(METHODS[2], "around", marks=pytest.mark.slow),
        pytest.param(METHODS[0], "by layer", marks=pytest.mark.slow),
    ],
)
def test_a_compiled_model_learns_as_one_that_is_not(method: str, how: str) -> None:
    def compiled(model: nn.Module) -> nn.Module:
        if how == "around":
            return torch.compile(model, backend="aot_eager")
        for module in model.layers if how == "by layer" else [model]:
            module.compile(backend="aot_eager")
        return model

    plain, other = stack(2), stack(2)
    assert train(plain, method, wrap=lambda m: m, steps=3) == train(other, method, wrap=compiled, steps=3)
    for name, weight in weights(plain).items():
        torch.testing.assert_close(other.get_parameter(name), weight, rtol=0, atol=1e-6)


def test_masks_of_twins_are_their_own_in_one_graph() -> None:
    """A compiler may compute one gradient for both: gating it in place for one would gate it for the other."""
    model = stack()
    layers = map_layers(model, "layers", example={"inputs": data(0)})
    step = torch.compile(model, backend="aot_eager_decomp_partition")
    with Tuner(step, adamw(model), "graddrop:p=0.5", layers=layers):
        step(data(0)).pow(2).mean().backward()
    for layer in model.layers:
        left, right = layer.left.weight.grad, layer.right.weight.grad
        both = (left != 0) & (right != 0)
        assert 0.1 < both.float().mean() < 0.4
        assert same(left[both], right[both])
        assert not torch.equal(left == 0, right == 0)


def test_tuners_of_two_models_leave_the_limits_as_they_were() -> None:
    before = torch._dynamo.config.recompile_limit
    models = stack(12), stack(12)
    tuners = []
    for model in models:
        layers = map_layers(model, "layers", example={"inputs": data(0)})
        tuners.append(Tuner(model, adamw(model), "gradual:every=1", layers=layers))
    for tuner in tuners:
        tuner.resume_at(12)
    assert torch._dynamo.config.recompile_limit > before
    for tuner in tuners:
        tuner.detach()
    assert torch._dynamo.config.recompile_limit == before
