"""The gaps that ``recommend`` knows are to the best arm of each study."""

from __future__ import annotations

from evidence.gaps import gaps


def test_the_best_arm_of_each_study_has_no_gap() -> None:
    smallest: dict[str, float] = {}
    for row in gaps():
        smallest[row.source] = min(smallest.get(row.source, 1.0), row.gap)
    assert set(smallest.values()) == {0.0}
