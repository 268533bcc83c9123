"""Blocks: their turns and rounds, what becomes of the ends, and what the optimizer keeps."""

from __future__ import annotations

import pytest

from gradgate import Blocks, Clock, LayerMap, MethodState, Tuner, map_layers, method
from gradgate.errors import MethodError
from support.loop import adamw, build, moved, step, weights
from support.schedules import open_groups, stack

FOUR = stack(4)


def turns(text: str, layers: LayerMap = FOUR, count: int = 8, seed: int = 0) -> list[set[str]]:
    """What is open in each turn of ``every`` steps, after a look at each step of it."""
    drawn = method(text)
    assert isinstance(drawn, Blocks)
    found = []
    for turn in range(count):
        clocks = [Clock(turn * drawn.every + number) for number in range(drawn.every)]
        opened = [open_groups(drawn.plan(clock, layers, MethodState(seed=seed))) for clock in clocks]
        assert all(one == opened[0] for one in opened)
        assert {drawn.next_change(clock, layers, MethodState()) for clock in clocks} == {(turn + 1) * drawn.every}
        found.append(opened[0])
    return found


def of_layers(opened: set[str]) -> list[int]:
    return sorted(int(name.removeprefix("layers.")) for name in opened if name.startswith("layers."))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("blocks:every=3,order=bottom-up", [[0], [1], [2], [3], [0], [1], [2], [3]]),
        ("blocks:every=3,order=top-down", [[3], [2], [1], [0], [3], [2], [1], [0]]),
        ("blocks:every=1,order=bottom-up,size=3", [[0, 1, 2], [3], [0, 1, 2], [3]]),
        ("blocks:every=1,order=top-down,size=3", [[3], [0, 1, 2], [3], [0, 1, 2]]),
        ("blocks:every=1,order=bottom-up,ends=blocks", [[], [0], [1], [2], [3], [], [], [0]]),
    ],
)
def test_each_block_learns_in_its_turn(text: str, expected: list[list[int]]) -> None:
    assert [of_layers(opened) for opened in turns(text, count=len(expected))] == expected


def test_a_random_order_has_each_block_once_in_a_round_and_differs_between_rounds_and_seeds() -> None:
    twelve = stack(12)
    order = [of_layers(opened)[0] for opened in turns("blocks:every=2", twelve, 12 * 20)]
    rounds = [order[first : first + 12] for first in range(0, len(order), 12)]
    assert all(sorted(one) == list(range(12)) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 20
    assert order[:12] != [of_layers(opened)[0] for opened in turns("blocks:every=2", twelve, 12, seed=1)]


def test_ends_as_blocks_take_turns_of_their_own() -> None:
    opened = turns("blocks:every=1,order=bottom-up,ends=blocks", count=6)
    assert opened == [{"embeddings"}, {"layers.0"}, {"layers.1"}, {"layers.2"}, {"layers.3"}, {"head"}]


@pytest.mark.parametrize(
    ("model", "ends", "always"),
    [
        ("bert", "closed", {"head"}),  # a classifier, with new weights
        ("bert", "open", {"embeddings", "head"}),
        ("llama", "closed", set()),  # an output layer over tokens
        ("gpt2", "closed", set()),  # a norm alone: the output layer is the table of embeddings
        ("llama", "open", {"embeddings", "head"}),
        ("llama", "blocks", set()),
    ],
)
def test_closed_ends_leave_the_fresh_head_of_a_task_open(model: str, ends: str, always: set[str]) -> None:
    layers, drawn = map_layers(build(model)), method(f"blocks:ends={ends}")
    plans = [drawn.checked_plan(Clock(100 * turn), layers, MethodState()) for turn in range(10)]
    assert set.intersection(*map(open_groups, plans)) == always
    assert set.union(*map(open_groups, plans)) == drawn.reaches(layers)


def test_the_optimizer_holds_the_state_of_the_open_block_alone() -> None:
    model = build("llama")
    optimizer, layers = adamw(model), map_layers(model)
    with Tuner(model, optimizer, "blocks:every=2,order=bottom-up", audit=True) as tuner:
        for number in range(8):
            opened, before = open_groups(tuner.plan), weights(model)
            step(model, optimizer, number)
            assert opened == {f"layers.{number // 2 % 3}"}
            assert {layers.group_of(name).name for name in moved(before, model)} == opened
            after = open_groups(tuner.plan)
            held = {layers.group_of(n).name for n, p in model.named_parameters() if "exp_avg" in optimizer.state[p]}
            assert held == (opened & after)


def test_a_block_with_nothing_to_learn_gets_no_turn() -> None:
    model = build("bert")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layer.1." not in name and "embeddings" not in name)
    with Tuner(model, adamw(model), "blocks:every=1,order=bottom-up,ends=blocks") as tuner:
        shown = []
        for number in range(5):
            shown.append(open_groups(tuner.plan))
            step(model, tuner.optimizer, number)
    assert shown == [{"layers.0"}, {"layers.2"}, {"head"}, {"layers.0"}, {"layers.2"}]


@pytest.mark.parametrize("option", ["every=0", "size=0", "ends=shut", "order=sideways"])
def test_options_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(MethodError, match=option.partition("=")[0]):
        method(f"blocks:{option}")


def test_larger_blocks_than_the_model_are_refused() -> None:
    method("blocks:size=4").check(FOUR)
    with pytest.raises(MethodError, match=r"has blocks of 5 layers, but the model has 4\. Use size=1 to 4"):
        method("blocks:size=5").check(FOUR)
    assert method("blocks:size=4").next_change(Clock(7), FOUR, MethodState()) is None
