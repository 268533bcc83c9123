"""A request to stop: the first ends a training after its step, and only a person can hurry it."""

from __future__ import annotations

import signal

import pytest

from gradgate.runs.interrupt import stoppable


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_further_sigterm_leaves_time_to_save_and_a_further_ctrl_c_does_not(first: signal.Signals) -> None:
    told: list[str] = []
    with stoppable(told.append) as stop:
        assert not stop.is_set()
        signal.raise_signal(first)
        assert stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert len(told) == 1
