"""Find the best answers to questions, from the logits of where they start and end in each window."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import DataError, NonFiniteError
from gradgate.tasks.kinds.windows import OUTSIDE

if TYPE_CHECKING:
    from datasets import Dataset

BEST = 20
"""Number of starts and ends tried per window, and of answers stored per question, as usual for SQuAD."""
LONGEST = 30
"""The most sub-words of an answer, as usual for SQuAD."""

Array = np.ndarray[Any, Any]


@dataclass
class RankedAnswers:
    """A question's answers, best first, as ``(score, text)``, and the score of having none.

    A score is the sum of a start and an end logit; ``nothing`` is the lowest over the windows, as in the usual
    evaluation for SQuAD 2: one window without the answer says little.
    """

    found: list[tuple[float, str]] = field(default_factory=list)
    nothing: float = math.inf

    def chosen(self, threshold: float | None) -> str:
        """Return the best text, or "" if none beats having no answer by more than the threshold."""
        if not self.found:
            return ""
        score, text = self.found[0]
        return "" if threshold is not None and self.nothing - score > threshold else text

    def record(self, count: int) -> list[dict[str, Any]]:
        """Return the best answers for a prediction file."""
        return [{"text": text, "score": round(score, 6)} for score, text in self.found[:count]]


def best_answers(contexts: list[str], features: Dataset, outputs: Any) -> list[RankedAnswers]:
    """Return the answers to each row's question.

    Args:
        contexts: of each row.
        features: the windows, as ``gradgate.tasks.kinds.windows.encode`` made them.
        outputs: a tuple that begins with start and end logits, shape ``(windows, sub-words)``; padding follows a
            window's own sub-words.

    Raises:
        DataError: outputs of another form.
        NonFiniteError: logits that are not finite.
    """
    if (
        not isinstance(outputs, tuple)
        or len(outputs) < 2
        or any(np.shape(o)[:1] != (len(features),) for o in outputs[:2])
    ):
        raise DataError(
            "The model returned no start and end logits for each window. Expected a question-answering head; "
            "load the model with AutoModelForQuestionAnswering. "
            f"Got {type(outputs).__name__} for {len(features)} windows."
        )
    starts, ends = (np.asarray(logits) for logits in outputs[:2])
    answers = [RankedAnswers() for _ in contexts]
    columns = (features[name][:] for name in ("row", "null", "begins", "ends"))
    for window, (row, null, begins, finishes) in enumerate(zip(*columns, strict=True)):
        own = slice(len(begins))
        start, end = starts[window, own].astype(np.float64), ends[window, own].astype(np.float64)
        if not (np.isfinite(start).all() and np.isfinite(end).all()):
            raise NonFiniteError(
                f"The model's outputs for question {row} are not finite; expected finite numbers for each sub-word"
            )
        answer = answers[row]
        answer.nothing = min(answer.nothing, float(start[null] + end[null]))
        for first, last in _spans(start, end, np.asarray(begins) != OUTSIDE):
            if text := contexts[row][begins[first] : finishes[last]].strip():  # some tokenizers count the space before
                answer.found.append((float(start[first] + end[last]), text))
    for answer in answers:
        answer.found = sorted(answer.found, key=lambda pair: -pair[0])[
            :BEST
        ]  # a stable sort: ties go to the earlier window
    return answers


def _spans(start: Array, end: Array, inside: Array) -> list[tuple[int, int]]:
    """Return the first and last sub-words of a window's best answers in the context, best first."""
    count = min(BEST, int(inside.sum()))
    firsts, lasts = (_best(np.where(inside, logits, -np.inf), count) for logits in (start, end))
    length = lasts[None, :] - firsts[:, None]
    scores = np.where((length >= 0) & (length < LONGEST), start[firsts][:, None] + end[lasts][None, :], -np.inf)
    order = [np.unravel_index(place, scores.shape) for place in _best(scores.ravel(), BEST)]
    return [(int(firsts[i]), int(lasts[j])) for i, j in order if np.isfinite(scores[i, j])]


def _best(scores: Array, count: int) -> Array:
    return np.argsort(-scores, kind="stable")[:count]
