"""What ``recommend`` knows of earlier studies is what their committed runs say."""

from __future__ import annotations

from evidence.gaps import gaps
from gradgate.study.recommend.evidence import FILE, GAPS


def test_the_recorded_gaps_are_those_of_the_committed_runs() -> None:
    assert list(GAPS.read(FILE)) == gaps()


def test_the_best_arm_of_each_study_has_no_gap() -> None:
    smallest: dict[str, float] = {}
    for row in GAPS.read(FILE):
        smallest[row.source] = min(smallest.get(row.source, 1.0), row.gap)
    assert set(smallest.values()) == {0.0}
