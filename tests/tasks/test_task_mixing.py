"""How often each of several tasks comes, and in which batches."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import UsageError
from gradgate.tasks.multitask import TaskMixing, read_mix
from gradgate.training.multitask.trainer import TaskBatches

Sizes = st.lists(st.integers(1, 40), min_size=2, max_size=5)
Mixes = st.sampled_from([TaskMixing(), TaskMixing(1.0), TaskMixing(3.0)])


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(None, [0.1, 0.9]), (1.0, [0.1, 0.9]), (2.0, [0.25, 0.75]), (1e9, [0.5, 0.5])],
)
def test_shares_are_in_proportion_to_the_root_of_size(temperature: float | None, expected: list[float]) -> None:
    assert TaskMixing(temperature).probabilities([100, 900]) == pytest.approx(expected)


def test_a_low_temperature_does_not_overflow() -> None:
    assert TaskMixing(0.001).probabilities([100, 900]) == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("text", ["size", "temperature:2", "temperature:0.5"])
def test_a_mix_reads_as_it_is_written(text: str) -> None:
    assert read_mix(text).text == text


@pytest.mark.parametrize("text", ["", "sise", "size:2", "temperature", "temperature:0", "temperature:-1", "2"])
def test_what_is_no_mix_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected size, or temperature:T with T above 0"):
        read_mix(text)


@given(sizes=Sizes, batch=st.integers(1, 8), mix=Mixes, seed=st.integers(0, 2**40), epoch=st.integers(0, 9))
def test_batches_are_of_one_task_and_a_function_of_seed_and_epoch(
    sizes: list[int], batch: int, mix: TaskMixing, seed: int, epoch: int
) -> None:
    batches = TaskBatches(sizes, batch, mix, seed)
    batches.set_epoch(epoch)
    found = list(batches)
    assert len(found) == len(batches) == sum(-(-size // batch) for size in sizes)
    owner = [task for task, size in enumerate(sizes) for _ in range(size)]
    assert all(len({owner[row] for row in rows}) == 1 and len(set(rows)) == len(rows) <= batch for rows in found)
    again = TaskBatches(sizes, batch, mix, 0).reseeded(seed)
    again.set_epoch(epoch)
    assert list(again) == found


@given(sizes=Sizes, batch=st.integers(1, 8), seed=st.integers(0, 99))
def test_by_size_an_epoch_has_every_row_once(sizes: list[int], batch: int, seed: int) -> None:
    rows = [row for rows in TaskBatches(sizes, batch, TaskMixing(), seed) for row in rows]
    assert sorted(rows) == list(range(sum(sizes)))


def test_with_a_temperature_tasks_come_as_often_as_their_probability_says() -> None:
    batches = TaskBatches([100, 900], 1, TaskMixing(2.0), seed=0)
    drawn: Counter[bool] = Counter()
    for epoch in range(10):
        batches.set_epoch(epoch)
        drawn.update(row < 100 for (row,) in batches)
    # 10,000 draws at 1/4: five standard deviations are 0.022.
    assert drawn[True] / 10_000 == pytest.approx(0.25, abs=0.022)


def test_a_task_that_comes_more_often_than_it_has_rows_begins_again() -> None:
    batches = TaskBatches([5, 200], 1, TaskMixing(100.0), seed=0)
    rows = [row for (row,) in batches if row < 5]
    assert len(rows) > 60
    assert sorted(rows[:5]) == sorted(rows[5:10]) == list(range(5))
    assert rows[:5] != rows[5:10] or rows[5:10] != rows[10:15]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    batches = TaskBatches([30, 30], 4, TaskMixing(), seed=0)
    first = list(batches)
    batches.set_epoch(1)
    assert list(batches) != first
    assert list(batches.reseeded(1)) != first
