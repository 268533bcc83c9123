"""Define tasks: data in; features, model head, metrics and predictions out.

Descriptions of tasks are light. The kinds and the readers of data need numpy and load at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.tasks.data import count_rows, kind_of, load_task, subsample
    from gradgate.tasks.find import find_task, task_names
    from gradgate.tasks.kinds import Kind, Scored, TaskData
    from gradgate.tasks.metrics import greater_is_better
    from gradgate.tasks.spec import TaskSpec

__all__ = [
    "Kind",
    "Scored",
    "TaskData",
    "TaskSpec",
    "count_rows",
    "find_task",
    "greater_is_better",
    "kind_of",
    "load_task",
    "subsample",
    "task_names",
]

_DATA = ("count_rows", "kind_of", "load_task", "subsample")
__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_DATA, "gradgate.tasks.data")
    | dict.fromkeys(("find_task", "task_names"), "gradgate.tasks.find")
    | dict.fromkeys(("Kind", "Scored", "TaskData"), "gradgate.tasks.kinds")
    | {"greater_is_better": "gradgate.tasks.metrics", "TaskSpec": "gradgate.tasks.spec"},
)
