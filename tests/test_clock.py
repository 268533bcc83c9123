"""The clock counts steps done, and epochs from 1 to the last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate import Clock
from gradgate.errors import MethodError


def test_a_clock_starts_before_the_first_step() -> None:
    assert Clock().step == 0
    assert Clock().ticked() == Clock(step=1)


def test_ticking_keeps_what_is_known_of_the_length() -> None:
    assert Clock(4, steps_per_epoch=5, total_steps=15).ticked() == Clock(5, steps_per_epoch=5, total_steps=15)


def test_epochs_run_from_one_to_the_last() -> None:
    epochs = [Clock(step, steps_per_epoch=4, total_steps=12).epoch for step in range(12)]
    assert epochs == [1] * 4 + [2] * 4 + [3] * 4


def test_a_part_of_an_epoch_counts_as_one() -> None:
    clock = Clock(9, steps_per_epoch=4, total_steps=10)
    assert (clock.epoch, clock.epochs) == (3, 3)


def test_after_the_last_step_the_epoch_stays_the_last() -> None:
    assert Clock(12, steps_per_epoch=4, total_steps=12).epoch == 3


def test_without_a_total_the_epoch_goes_on() -> None:
    assert Clock(12, steps_per_epoch=4).epoch == 4


@given(st.integers(1, 50), st.integers(1, 500), st.integers(0, 600))
def test_the_epoch_lies_between_one_and_the_last(per_epoch: int, total: int, step: int) -> None:
    clock = Clock(step, steps_per_epoch=per_epoch, total_steps=total)
    assert 1 <= clock.epoch <= clock.epochs
    assert (clock.epochs - 1) * per_epoch < total <= clock.epochs * per_epoch


@pytest.mark.parametrize("name", ["epoch", "epochs", "known_total"])
def test_an_unknown_length_is_an_error_that_names_what_to_give(name: str) -> None:
    missing = "total_steps" if name == "known_total" else "steps_per_epoch|total_steps"
    with pytest.raises(MethodError, match=f"pass ({missing})= to the tuner"):
        getattr(Clock(), name)


def test_counts_that_are_not_positive_are_all_named() -> None:
    with pytest.raises(MethodError, match=r"step=-1, steps_per_epoch=0, total_steps=0"):
        Clock(-1, steps_per_epoch=0, total_steps=0)
