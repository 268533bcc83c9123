"""A measurement of the Fisher trace leaves no trace on the training, and what it cannot measure it refuses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from gradgate import Tuner
from gradgate.errors import AttachError, NonFiniteError
from gradgate.measure import Batch, FisherRequest
from gradgate.measure.trace import trace
from support.loop import adamw, build, train
from support.tiny_models import LABELS, tiny_batch

PER_EXAMPLE = FisherRequest(groups=("all",), labels="true")


class Net(nn.Module):
    """A classifier with a batch norm, whose forward pass in training overwrites buffers, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, LABELS)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.5)

    def forward(self, x: Tensor, labels: Tensor) -> SequenceClassifierOutput:
        hidden = self.dropout(self.norm(self.first(x)))
        return SequenceClassifierOutput(loss=None, logits=self.second(hidden))


class TokensFirst(Net):
    """Calls its first layer with the axis of the tokens before that of the examples."""

    def forward(self, x: Tensor, labels: Tensor) -> SequenceClassifierOutput:
        tokens = x.view(len(x), 2, 3).transpose(0, 1).repeat(2, 1, 2)  # (4, examples, 6)
        return SequenceClassifierOutput(loss=None, logits=self.second(self.first(tokens).tanh().mean(dim=0)))


class UsedTwice(Net):
    """Uses a weight inside of its module and outside of it."""

    def forward(self, x: Tensor, labels: Tensor) -> SequenceClassifierOutput:
        hidden = self.first(x).tanh() @ self.first.weight
        return SequenceClassifierOutput(loss=None, logits=self.second(functional.pad(hidden, (0, 2))))


class RunTwice(Net):
    """Calls one module twice."""

    def forward(self, x: Tensor, labels: Tensor) -> SequenceClassifierOutput:
        hidden = self.first(functional.pad(self.first(x).tanh(), (0, -2)))
        return SequenceClassifierOutput(loss=None, logits=self.second(hidden))


def numbers(size: int = 4) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return {"x": torch.randn(size, 6, generator=draw), "labels": torch.arange(size) % LABELS}


def measure(model: nn.Module, data: Iterable[Batch], request: FisherRequest = PER_EXAMPLE) -> float:
    return trace(model, {"all": [name for name, _ in model.named_parameters()]}, data, request)["all"]


def drawing() -> Iterator[dict[str, Tensor]]:
    """Batches of a data set that draws from every random state there is."""
    for _ in range(2):
        random.random(), np.random.rand(), torch.rand(3)
        yield numbers()


def frozen_copy(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: frozen_copy(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [frozen_copy(value) for value in state]
    return state.tolist() if isinstance(state, Tensor | np.ndarray) else state


WATCHED: dict[str, Callable[[nn.Module, torch.optim.Optimizer], Any]] = {
    "random state of torch": lambda model, optimizer: torch.get_rng_state(),
    "random state of Python": lambda model, optimizer: random.getstate(),
    "random state of NumPy": lambda model, optimizer: np.random.get_state(),
    "weights": lambda model, optimizer: [*model.parameters()],
    "gradients": lambda model, optimizer: [p.grad for p in model.parameters()],
    "buffers": lambda model, optimizer: dict(model.named_buffers()),
    "training flags": lambda model, optimizer: [m.training for m in model.modules()],
    "requires_grad": lambda model, optimizer: [p.requires_grad for p in model.parameters()],
    "optimizer": lambda model, optimizer: optimizer.state_dict(),
    "hooks of modules": lambda model, optimizer: [len(m._forward_hooks) for m in model.modules()],
    "grad mode": lambda model, optimizer: torch.is_grad_enabled(),
}


@pytest.mark.parametrize("eval_mode", [True, False])
@pytest.mark.parametrize("gradient", ["per_example", "batch"])
@pytest.mark.parametrize("what", WATCHED)
def test_nothing_of_the_training_changes(what: str, gradient: Any, eval_mode: bool) -> None:
    model = Net()
    model.norm.eval()  # as one does with the batch norms of a frozen model
    model.second.bias.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        functional.cross_entropy(model(**numbers()).logits, numbers()["labels"]).backward()
        optimizer.step()
    tensors = [id(tensor) for tensor in (*model.parameters(), *model.buffers())]
    before = frozen_copy(WATCHED[what](model, optimizer))
    request = FisherRequest(groups=("all",), gradient=gradient, eval_mode=eval_mode)
    assert measure(model, drawing(), request) > 0
    assert frozen_copy(WATCHED[what](model, optimizer)) == before
    assert [id(tensor) for tensor in (*model.parameters(), *model.buffers())] == tensors


def test_nothing_changes_where_a_measurement_breaks_off() -> None:
    model = Net().train()
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        measure(model, (numbers() if n == 0 else 1 // 0 for n in range(2)))  # type: ignore[misc]
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_result_does_not_depend_on_the_random_state_around_it() -> None:
    model = Net()
    request = FisherRequest(groups=("all",), eval_mode=False)
    found = measure(model, drawing(), request)
    torch.rand(5)
    assert measure(model, drawing(), request) == found
    assert measure(model, drawing(), FisherRequest(groups=("all",), eval_mode=False, seed=1)) != found


def test_frozen_parameters_are_measured_too_and_in_no_grad() -> None:
    model = Net().requires_grad_(False)
    with torch.no_grad():
        assert measure(model, [numbers()]) > 0


@pytest.mark.parametrize("text", ["graddrop:p=0.9", "layer-graddrop:p=0.9", "freeze:layers=2"])
def test_gates_do_not_reach_the_measurement(text: str) -> None:
    model = build("bert", dropout=True)
    names = {"all": [name for name, _ in model.named_parameters() if "encoder.layer" in name]}
    optimizer = adamw(model)
    with Tuner(model, optimizer, text) as tuner:
        train(model, optimizer, 2)
        gated = trace(model, names, [tiny_batch(model)], PER_EXAMPLE)
        assert tuner.clock.step == 2
    assert trace(model, names, [tiny_batch(model)], PER_EXAMPLE) == gated


def test_checkpointed_activations_change_nothing() -> None:
    model = build("bert")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    request = FisherRequest(groups=("all",), labels="true", eval_mode=False)
    plain = measure(model, [tiny_batch(model)], request)
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing"):
            module.gradient_checkpointing = True
    flags = [getattr(module, "gradient_checkpointing", None) for module in model.modules()]
    assert True in flags
    assert measure(model, [tiny_batch(model)], request) == pytest.approx(plain, rel=1e-6)
    assert [getattr(module, "gradient_checkpointing", None) for module in model.modules()] == flags


@pytest.mark.parametrize("net", [Net, TokensFirst, UsedTwice, RunTwice])
@pytest.mark.parametrize("size", [4, 3])
def test_unusual_modules_are_measured_right(net: type[Net], size: int) -> None:
    model, batch = net().eval(), numbers(size)
    expected = 0.0
    for number in range(size):
        one = {name: tensor[number : number + 1] for name, tensor in batch.items()}
        log_p = model(**one).logits[0].log_softmax(-1)[one["labels"][0]]
        gradients = torch.autograd.grad(log_p, list(model.parameters()), allow_unused=True)
        expected += sum(float(g.pow(2).sum()) for g in gradients if g is not None) / size
    assert measure(model, [batch]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "head"),
    [("bert", "classifier"), ("albert", "classifier"), ("llama-classifier", "score"), ("gpt2-classifier", "score")],
)
def test_one_backward_pass_measures_all_examples(name: str, head: str) -> None:
    model, passes = build(name), []

    def count(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        args[0].register_hook(lambda gradient: passes.append(1) and None)

    model.get_submodule(head).register_forward_pre_hook(count)
    names = [name for name, _ in model.named_parameters() if "layer" in name or ".h." in name]
    trace(model, {"all": names}, [tiny_batch(model, seed=seed) for seed in range(3)], PER_EXAMPLE)
    assert len(passes) == 3 + 1  # one more checks an example of the first batch


def test_a_group_that_nothing_depends_on_has_a_trace_of_zero() -> None:
    groups = {"unused": ["norm.weight"], "empty": [], "used": ["first.weight"]}
    found = trace(RunTwice(), groups, [numbers()], PER_EXAMPLE)
    assert found == {"unused": 0.0, "empty": 0.0, "used": pytest.approx(found["used"])}
    assert found["used"] > 0
    for gradient in ("per_example", "batch"):
        request = FisherRequest(groups=("unused",), gradient=gradient)  # type: ignore[arg-type]
        assert trace(RunTwice(), {"unused": ["norm.weight"]}, [numbers()], request) == {"unused": 0.0}


def test_no_more_batches_are_taken_than_asked_for() -> None:
    taken = []

    def data() -> Iterator[dict[str, Tensor]]:
        for number in range(9):
            taken.append(number)
            yield numbers()

    measure(Net(), data(), FisherRequest(groups=("all",), batches=3))
    assert taken == [0, 1, 2]


def test_the_mean_is_over_examples_in_batches_of_unequal_size() -> None:
    model = Net()
    whole, parts = numbers(5), [{k: v[:3] for k, v in numbers(5).items()}, {k: v[3:] for k, v in numbers(5).items()}]
    assert measure(model, parts) == pytest.approx(measure(model, [whole]), rel=1e-5)


def test_what_cannot_be_measured_is_refused() -> None:
    model, without = Net(), {"x": numbers()["x"], "labels": None}
    with pytest.raises(AttachError, match="at least one batch"):
        measure(model, [])
    with pytest.raises(AttachError, match="fisher_labels=true needs batches with labels; these have x, labels"):
        measure(model, [without])
    with pytest.raises(AttachError, match=r"logits.*returned Tensor"):
        measure(nn.Linear(3, 3), [{"input": torch.ones(2, 3)}])
    with pytest.raises(AttachError, match=r"calling Linear .*failed for its entries anchor: .*unexpected.*fisher"):
        measure(nn.Linear(3, 3), [{"anchor": torch.ones(2, 3)}])
    with pytest.raises(AttachError, match=r"calling Linear .*failed for a tuple: "):
        measure(nn.Linear(3, 3), [(torch.ones(2, 3), torch.ones(2))])  # type: ignore[list-item]
    one_output = Net()
    one_output.second = nn.Linear(8, 1)
    with pytest.raises(AttachError, match=r"regression zero.*fisher_labels=sample.* Found fisher_labels=argmax"):
        measure(one_output, [numbers()], FisherRequest(groups=("all",), labels="argmax"))


@pytest.mark.parametrize("labels", ["sample", "true"])
def test_numbers_that_are_not_finite_are_refused(labels: Any) -> None:
    broken = numbers() | {"x": torch.full((4, 6), torch.nan)}
    with pytest.raises(NonFiniteError, match="not finite"):
        measure(Net(), [broken], FisherRequest(groups=("all",), labels=labels))
