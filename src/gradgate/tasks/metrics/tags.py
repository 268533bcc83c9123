"""Compute metrics of tagged sentences: single tokens, and whole entities by seqscore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from gradgate.tasks.metrics.classes import accuracy, macro_f1

OUTSIDE = "O"


def are_entities(tags: Iterable[str]) -> bool:
    """Return True if tags are those of IOB1 or IOB2: ``O``, and ``B-`` or ``I-`` with a type."""
    found = set(tags) - {OUTSIDE}
    return bool(found) and all(len(tag) > 2 and tag[:2] in ("B-", "I-") for tag in found)


def score_tags(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], *, entities: bool
) -> dict[str, float]:
    """Compute every metric of tags, one sequence per sentence; of entities only if ``entities``.

    ``accuracy`` and ``macro_f1`` count all tokens together. An entity counts if its first token, its last and its type
    are right; all entities are counted together (micro average). As in the CoNLL shared tasks, an entity begins at
    every ``B-``, and at an ``I-`` that follows ``O`` or another type, so that IOB1 and IOB2 are read by one rule
    (Tjong Kim Sang and De Meulder 2003, https://aclanthology.org/W03-0419).
    """
    index = {tag: number for number, tag in enumerate(dict.fromkeys(chain(*gold, *predicted)))}
    flat = [
        np.fromiter((index[tag] for tag in chain.from_iterable(side)), dtype=np.int64) for side in (predicted, gold)
    ]
    scores = {"accuracy": accuracy(*flat), "macro_f1": macro_f1(*flat)}
    return {**scores, **_score_entities(predicted, gold)} if entities else scores


def _score_entities(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, float]:
    from seqscore.scoring import score_label_sequences

    found, _ = score_label_sequences(predicted, gold, "BIO", repair="conlleval")
    return {"entity_f1": found.f1, "entity_precision": found.precision, "entity_recall": found.recall}
