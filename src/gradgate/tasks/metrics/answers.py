"""Score answers as text: the F1 of words and exact match, after SQuAD's or MLQA's normalisation.

Both are those of the published evaluation scripts: SQuAD (Rajpurkar et al. 2016, https://aclanthology.org/D16-1264) and
MLQA (Lewis et al. 2020, https://aclanthology.org/2020.acl-main.653).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from gradgate.tasks.language_codes import short_code
from gradgate.tasks.metrics import ANSWERS

_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": r"\sال^|ال",
}
_MIXED = ("zh", "ja")
"""Languages whose ideographs are words of their own; MLQA has only Chinese."""
_IDEOGRAPH = re.compile("[\u4e00-\u9fa5]")


def score_answers(
    predicted: Sequence[str], gold: Sequence[Sequence[str]], *, normalization: str, language: str
) -> dict[str, float]:
    """Average ``f1`` and ``exact_match``; each prediction is compared with its best matching gold answer.

    Args:
        predicted: one answer per question; an empty one states that there is none.
        gold: the accepted answers of each question; an empty list if the question has no answer.
        normalization: ``squad``, English for every language, or ``mlqa``, which depends on ``language``.
        language: of the answers.
    """

    scores = dict.fromkeys(ANSWERS, 0.0)
    for answer, accepted in zip(predicted, gold, strict=True):
        if normalization == "squad":
            found = _squad(normalize_squad(answer), [normalize_squad(text) for text in accepted])
        else:
            found = _mlqa(normalize_mlqa(answer, language), [normalize_mlqa(text, language) for text in accepted])
        for name, score in zip(ANSWERS, found, strict=True):
            scores[name] += score
    return {name: total / max(1, len(predicted)) for name, total in scores.items()}


def _squad(mine: list[str], accepted: list[list[str]]) -> tuple[float, float]:
    """Score as SQuAD 2 does: gold answers that normalise to nothing do not count; if none is left, "" is right."""
    accepted = [words for words in accepted if words]
    if not accepted or not mine:
        right = float(not accepted and not mine)
        return right, right
    return max(word_f1(mine, words) for words in accepted), float(mine in accepted)


def _mlqa(mine: list[str], accepted: list[list[str]]) -> tuple[float, float]:
    if not accepted:  # MLQA has no such question: as SQuAD 2
        return float(not mine), float(not mine)
    return max(word_f1(mine, words) for words in accepted), float(mine in accepted)


def normalize_squad(text: str) -> list[str]:
    """Split into lower-case words without ASCII punctuation and English articles."""
    bare = "".join(character for character in text.lower() if character not in _ASCII_PUNCTUATION)
    return re.sub(_ARTICLES["en"], " ", bare).split()


def normalize_mlqa(text: str, language: str) -> list[str]:
    """Split into lower-case words without any Unicode punctuation and without the language's articles.

    Chinese and Japanese ideographs are words of their own. A language that MLQA does not have is split at white space
    and keeps its articles.
    """
    bare = "".join(character for character in text.lower() if not _is_punctuation(character))
    code = short_code(language) or ""
    if code in _ARTICLES:
        bare = re.sub(_ARTICLES[code], " ", bare)
    if code in _MIXED:
        bare = _IDEOGRAPH.sub(lambda found: f" {found[0]} ", bare)
    return bare.split()


def word_f1(mine: list[str], theirs: list[str]) -> float:
    """Compute the F1 of two bags of words; 0.0 if they have none in common."""
    common = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * common / (len(mine) + len(theirs)) if common else 0.0


_ASCII_PUNCTUATION = frozenset(string.punctuation)


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P")
