"""Implement the kinds of task.

A new kind is one module with a class that has the methods of ``Kind``, one line here, and one in
``gradgate.tasks.types.KIND_INFO``.
"""

from gradgate.tasks.kinds.base import Examples, Kind, Scored, TaskData
from gradgate.tasks.kinds.classification import Classification
from gradgate.tasks.kinds.generation import Generation
from gradgate.tasks.kinds.multi_label import MultiLabel
from gradgate.tasks.kinds.multiple_choice import MultipleChoice
from gradgate.tasks.kinds.question_answering import QuestionAnswering
from gradgate.tasks.kinds.ranking import Ranking
from gradgate.tasks.kinds.regression import Regression
from gradgate.tasks.kinds.token_classification import TokenClassification

_ALL: tuple[Kind, ...] = (
    Classification(),
    MultiLabel(),
    Regression(),
    TokenClassification(),
    QuestionAnswering(),
    MultipleChoice(),
    Ranking(),
    Generation(),
)
KINDS: dict[str, Kind] = {kind.info.name: kind for kind in _ALL}

__all__ = ["KINDS", "Examples", "Kind", "Scored", "TaskData"]
