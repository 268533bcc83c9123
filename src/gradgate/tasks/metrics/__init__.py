"""Metrics as fractions of one: of classes, numbers, tags, answers and rankings."""

from gradgate.tasks.metrics.answers import ANSWERS, score_answers
from gradgate.tasks.metrics.classes import CLASSIFICATION, accuracy, score_classes
from gradgate.tasks.metrics.numbers import REGRESSION, score_numbers
from gradgate.tasks.metrics.ranking import RANKING, score_ranking
from gradgate.tasks.metrics.tags import TAGS, score_tags

LOWER_IS_BETTER = frozenset({"mse"})


def greater_is_better(metric: str) -> bool:
    """Whether checkpoints with larger values of this metric are the better ones."""
    return metric not in LOWER_IS_BETTER


__all__ = [
    "ANSWERS",
    "CLASSIFICATION",
    "LOWER_IS_BETTER",
    "RANKING",
    "REGRESSION",
    "TAGS",
    "accuracy",
    "greater_is_better",
    "score_answers",
    "score_classes",
    "score_numbers",
    "score_ranking",
    "score_tags",
]
