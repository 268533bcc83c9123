"""Tasks: data in, features, model head, metrics and predictions out."""

from gradgate.tasks.data import count_rows, kind_of, label_names, load_task, subsample
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
    "label_names",
    "load_task",
    "subsample",
    "task_names",
]
