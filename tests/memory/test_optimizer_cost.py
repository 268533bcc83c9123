"""What optimizers store per parameter, and what a step needs besides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import Parameter

from gradgate.errors import UsageError
from gradgate.memory.optimizer_cost import OPTIMIZERS, OWN_PRECISION, OptimizerCost

SHAPE = (128, 64)
ELEMENTS = 128 * 64
EXECUTED = ("adamw_torch", "sgd", "adagrad", "rmsprop")


def stored(optimizer: torch.optim.Optimizer) -> int:
    """Take a real step; return the bytes of the states."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(value.nbytes for value in states if isinstance(value, torch.Tensor))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("sgd", 0),
        ("adamw_torch", 8 * ELEMENTS + 4),
        ("adamw_torch_fused", 8 * ELEMENTS + 4),
        ("adagrad", 4 * ELEMENTS + 4),
        ("rmsprop", 4 * ELEMENTS + 4),
        ("adamw_torch_8bit", 2 * (ELEMENTS + 4 * ELEMENTS // 256)),
        ("adamw_8bit", 2 * (ELEMENTS + 4 * ELEMENTS // 256)),
        ("adamw_bnb_8bit", 2 * (ELEMENTS + 4 * ELEMENTS // 256)),
        ("adamw_torch_4bit", 2 * (ELEMENTS // 2 + 4 * ELEMENTS // 128)),
        ("lion_8bit", ELEMENTS + 4 * ELEMENTS // 256),
        ("rmsprop_bnb_8bit", ELEMENTS + 4 * ELEMENTS // 256),
    ],
)
def test_states_of_a_matrix(name: str, state: int) -> None:
    assert OptimizerCost(name).of(SHAPE, torch.float32).state == state


def test_adafactor_stores_rows_and_columns() -> None:
    cost = OptimizerCost("adafactor")
    assert 4 * (128 + 64) <= cost.of(SHAPE, torch.float32).state <= 4 * (128 + 64 + 2)
    assert 4 * 100 <= cost.of((100,), torch.float32).state <= 4 * (100 + 2), "a vector has no rows"


@pytest.mark.parametrize("shape", [(), (7,), (128, 64), (2, 3, 5)])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adamw_torch", lambda p: torch.optim.AdamW(p, foreach=False)),
        ("adagrad", lambda p: torch.optim.Adagrad(p, foreach=False)),
        ("rmsprop", lambda p: torch.optim.RMSprop(p, foreach=False)),
        ("sgd", lambda p: torch.optim.SGD(p, foreach=False)),
    ],
)
def test_states_are_those_of_a_step(name: str, make: Any, shape: tuple[int, ...]) -> None:
    assert OptimizerCost(name).of(shape, torch.float32).state == stored(make([Parameter(torch.zeros(shape))]))


@pytest.mark.parametrize("name", EXECUTED)
def test_states_have_the_type_of_weights(name: str) -> None:
    cost = OptimizerCost(name)
    long, short = (cost.of(SHAPE, dtype).state for dtype in (torch.float32, torch.bfloat16))
    assert short <= long
    assert long - short in (0, long // 2 - 2), "all but the count of steps is halved"


@pytest.mark.parametrize("name", ["adamw_torch_8bit", "adamw_torch_4bit", "lion_8bit"])
@pytest.mark.parametrize("elements", [1, 4095])
def test_small_parameters_are_not_quantized(name: str, elements: int) -> None:
    states = 1 if name == "lion_8bit" else 2
    assert OptimizerCost(name).of((elements,), torch.float32).state == 4 * states * elements
    assert OptimizerCost(name).of((4096,), torch.float32).state < 4 * states * 4095


def test_scales_of_a_last_block_are_counted() -> None:
    cost = OptimizerCost("lion_8bit")
    assert cost.of((4096,), torch.float32).state == 4096 + 4 * 16
    assert cost.of((4097,), torch.float32).state == 4097 + 4 * 17


@pytest.mark.parametrize("name", ["adamw_torch_fused", *OWN_PRECISION])
def test_fused_steps_need_nothing_besides(name: str) -> None:
    assert OptimizerCost(name).of(SHAPE, torch.float32)[1:] == (0, 0, 0)


def test_adamw_needs_two_copies_while_it_steps() -> None:
    cost = OptimizerCost("adamw_torch").of(SHAPE, torch.float32)
    assert cost.later == 8 * ELEMENTS
    assert cost.first >= 0
    assert 0 <= cost.left <= cost.later


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_costs_grow_with_elements(name: str) -> None:
    cost = OptimizerCost(name)
    small, large = (cost.of((rows, 64), torch.float32) for rows in (128, 256))
    assert small.state <= large.state <= 2 * small.state
    assert small.later <= large.later
    assert min(*small, *large) >= 0


def test_own_function_is_measured() -> None:
    cost = OptimizerCost(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False))
    assert cost.of(SHAPE, torch.float32).state == 4 * ELEMENTS
    assert cost.of((3,), torch.bfloat16).state == 2 * 3


@pytest.mark.parametrize(
    ("name", "nearest"), [("adamw_torsh", "adamw_torch"), ("sdg", "sgd"), ("adafactr", "adafactor")]
)
def test_unknown_optimizer_is_refused(name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"optim={name!r}.*Did you mean.*{nearest}"):
        OptimizerCost(name)


def test_optimizers_that_read_their_steps_are_executed() -> None:
    for make in (torch.optim.Adafactor, torch.optim.NAdam, torch.optim.RAdam):
        assert OptimizerCost(make).of(SHAPE, torch.float32).state == stored(make([Parameter(torch.zeros(SHAPE))]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: 3, "returned int"),
        (lambda p: p[7], "failed with IndexError"),
        (torch.optim.LBFGS, "Cannot estimate memory for LBFGS"),
        (torch.optim.SparseAdam, "Cannot estimate memory for SparseAdam"),
    ],
)
def test_other_functions_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OptimizerCost(make).of(SHAPE, torch.float32)
