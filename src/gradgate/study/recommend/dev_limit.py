"""Say which differences between two arms a dev split is too small to show."""

from __future__ import annotations

from gradgate.tasks.metrics.names import is_bounded

_DECISIVE = 6  # rows: of six that two models judge differently, all for one have p = 2 / 2**6 < 0.05; of five 0.06
_WORTH_SAYING = 0.01
_OF_ROWS = ("classification", "multi-label", "multiple-choice")


def dev_limit(rows: int, metric: str, kind: str) -> str | None:
    """Return the smallest difference of two models that a dev split can show; None where that is below a point.

    Two models that are scored on the same rows differ in the rows that one of them has right. With fewer than six of
    these, no exact test says which model is better. For metrics other than accuracy it is about as much. Means over
    seeds may show smaller differences of arms.

    Args:
        rows: of dev.
        metric: of the task.
        kind: of the task; those of one prediction per row have such a limit.

    Source:
        McNemar 1947, Note on the sampling error of the difference between correlated proportions; the exact test.
    """
    if rows < 1 or kind not in _OF_ROWS or not is_bounded(metric):
        return None
    least = _DECISIVE / rows
    if least < _WORTH_SAYING:
        return None
    about = "" if metric == "accuracy" else "about "
    return f"{rows:,} dev rows: one run of each arm cannot show differences below {about}{100 * least:.2g} points."
