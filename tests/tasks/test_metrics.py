"""Metrics of tags, answers and rankings, by hand and against independent implementations."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradgate.errors import UsageError
from gradgate.tasks.metrics import METRICS, metric_of
from gradgate.tasks.metrics.answers import normalize_mlqa, normalize_squad, score_answers
from gradgate.tasks.metrics.ranking import score_ranking
from gradgate.tasks.metrics.tags import are_entities, score_tags
from gradgate.tasks.types import KIND_INFO


def entity_f1(predicted: str, gold: str) -> float:
    return score_tags([predicted.split()], [gold.split()], entities=True)["entity_f1"]


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ("B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC", 1.0),
        ("B-PER I-PER O O", "B-PER I-PER O B-LOC", 2 / 3),
        ("B-PER O O B-LOC", "B-PER I-PER O B-LOC", 1 / 2),  # a part of an entity is none of it
        ("B-LOC I-LOC O B-LOC", "B-PER I-PER O B-LOC", 1 / 2),
        ("O I-PER I-PER O", "O B-PER I-PER O", 1.0),  # an orphan begins an entity
        ("B-PER I-LOC O O", "B-PER B-LOC O O", 1.0),  # so does another type
        ("I-PER I-PER B-PER O", "B-PER I-PER B-PER O", 1.0),  # IOB1 against IOB2
        ("I-PER I-PER I-PER O", "B-PER I-PER B-PER O", 0.0),
        ("O O O O", "B-PER I-PER O B-LOC", 0.0),
        ("O O O O", "O O O O", 0.0),
    ],
)
def test_entity_f1_by_hand(predicted: str, gold: str, expected: float) -> None:
    assert entity_f1(predicted, gold) == pytest.approx(expected)


def test_entities_do_not_cross_sentences() -> None:
    scores = score_tags([["O", "B-X"], ["I-X"]], [["O", "B-X"], ["B-X"]], entities=True)
    assert (scores["entity_precision"], scores["entity_recall"], scores["entity_f1"]) == (1.0, 1.0, 1.0)


def spans(tags: list[str]) -> set[tuple[str, int, int]]:
    """Entities by runs: an independent reading of the rule."""
    opened, runs = 0, []
    for i, tag in enumerate(tags):
        before = tags[i - 1] if i else "O"
        opened += tag != "O" and (tag[0] == "B" or before == "O" or before[2:] != tag[2:])
        runs.append((opened, tag[2:]) if tag != "O" else None)
    places: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, run in enumerate(runs):
        if run is not None:
            places[run].append(i)
    return {(kind, where[0], where[-1]) for (_, kind), where in places.items()}


TAG = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=12), min_size=1, max_size=4))
def test_entity_f1_agrees_with_an_independent_reading(sentences: list[list[tuple[str, str]]]) -> None:
    predicted, gold = ([[pair[side] for pair in pairs] for pairs in sentences] for side in (0, 1))
    right = sum(len(spans(p) & spans(g)) for p, g in zip(predicted, gold, strict=True))
    found, true = (sum(len(spans(tags)) for tags in side) for side in (predicted, gold))
    scores = score_tags(predicted, gold, entities=True)
    assert scores["entity_f1"] == pytest.approx(2 * right / (found + true) if right else 0.0)
    assert scores["entity_precision"] == pytest.approx(right / found if found else 0.0)


def test_token_scores_count_every_token_alone() -> None:
    scores = score_tags([["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["ADJ"]], entities=False)
    assert scores == pytest.approx({"accuracy": 1 / 3, "macro_f1": (1 / 2 + 0 + 0) / 3})


def test_bare_tags_are_no_entities() -> None:
    assert are_entities(["O", "B-PER", "I-LOC"])
    assert not are_entities(["O"])
    assert not are_entities(["O", "PER"])
    assert not are_entities(["B-PER", "I-"])


def answers(predicted: str, *gold: str, normalization: str = "squad", language: str = "en") -> tuple[float, float]:
    scores = score_answers([predicted], [gold], normalization=normalization, language=language)
    return scores["f1"], scores["exact_match"]


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ("The Panthers!", ["panthers"], (1.0, 1.0)),
        ("Denver Broncos", ["the Broncos"], (2 / 3, 0.0)),
        ("a b c", ["d"], (0.0, 0.0)),
        ("b b c", ["b c c"], (2 * 2 / 6, 0.0)),  # a word counts as often as it occurs
        ("two", ["one", "two words", "two"], (1.0, 1.0)),  # the best of several
        ("", [], (1.0, 1.0)),
        ("x", [], (0.0, 0.0)),
        ("", ["x"], (0.0, 0.0)),
        ("", ["the"], (1.0, 1.0)),  # of which nothing is left: as SQuAD 2's script
        ("«été»", ["été"], (0.0, 0.0)),  # SQuAD's punctuation is ASCII's
    ],
)
def test_squad_scores_by_hand(predicted: str, gold: list[str], expected: tuple[float, float]) -> None:
    assert answers(predicted, *gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("The «Answer», an apple", "en", ["answer", "apple"]),
        ("La casa de los abuelos", "es", ["casa", "de", "abuelos"]),
        ("Der Hund eines Mannes", "de", ["hund", "mannes"]),
        ("những con mèo của tôi", "vi", ["con", "mèo", "tôi"]),
        ("الكتاب الكبير", "ar", ["كتاب", "كبير"]),
        ("यह एक किताब है।", "hi", ["यह", "एक", "किताब", "है"]),
        ("在1995年,the Beatles", "zh", ["在", "1995", "年", "the", "beatles"]),
        ("东京Tower", "zh-CN", ["东", "京", "tower"]),
        ("东京Tower", "zh_CN", ["东", "京", "tower"]),
        ("东京Tower", "ZH", ["东", "京", "tower"]),
        ("Der Hund eines Mannes", "de_DE", ["hund", "mannes"]),
        ("Der Hund eines Mannes", "German", ["hund", "mannes"]),
        ("the το βιβλίο", "el", ["the", "το", "βιβλίο"]),
    ],
)
def test_mlqa_normalisation_goes_by_language(text: str, language: str, words: list[str]) -> None:
    assert normalize_mlqa(text, language) == words


def test_normalisations_differ_in_punctuation_and_articles() -> None:
    assert normalize_squad("“an” end") == ["“", "”", "end"]
    assert answers("die Katze", "Katze") == pytest.approx((2 / 3, 0.0))
    assert answers("die Katze", "Katze", normalization="mlqa", language="de") == (1.0, 1.0)
    # In MLQA's script, words of which nothing is left have no F1, but are an exact match.
    assert answers("der", "die", normalization="mlqa", language="de") == (0.0, 1.0)
    assert answers("的人", "人们", normalization="mlqa", language="zh") == pytest.approx((1 / 2, 0.0))


def ndcg(grades: list[int], order: list[int], k: int | None = None) -> float:
    """By the definition."""

    def gain(ranked: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ranked[:k]))

    ideal = gain(sorted(grades, reverse=True))
    return gain([grades[i] for i in order]) / ideal if ideal else 0.0


def test_ndcg_is_the_mean_over_queries_with_several_documents() -> None:
    queries = ["a", "b", "a", "a", "b", "c"]
    grades = np.array([0, 2, 4, 1, 0, 3])
    scores = np.array([0.5, 0.1, 0.2, 0.9, 0.3, 0.0])
    found = score_ranking(scores, np.zeros(6), grades, queries)
    by_query = [([0, 4, 1], [2, 0, 1]), ([2, 0], [1, 0])]
    for name, k in (("ndcg", None), ("ndcg@1", 1), ("ndcg@5", 5)):
        assert found[name] == pytest.approx(np.mean([ndcg(true, order, k) for true, order in by_query]))


def test_documents_of_equal_score_share_their_ranks() -> None:
    found = score_ranking(np.zeros(2), np.array([1, 1]), np.array([1, 0]), ["q", "q"])
    assert found["ndcg"] == found["xglue_ndcg"] == pytest.approx((1 + 1 / math.log2(3)) / 2)


def test_a_query_without_a_relevant_document_counts_as_nothing() -> None:
    found = score_ranking(np.arange(4.0), np.arange(4), np.array([0, 0, 0, 1]), ["a", "a", "b", "b"])
    assert found["ndcg"] == 0.5
    assert score_ranking(np.arange(1.0), np.arange(1), np.array([1]), ["a"])["ndcg"] == 0.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=20))
def test_ndcg_agrees_with_its_definition(rows: list[tuple[int, int]]) -> None:
    scores = np.random.default_rng(len(rows)).permutation(len(rows)).astype(float)
    groups = {
        query: [index for _, index in members]
        for query, members in groupby(sorted((query, i) for i, (query, _) in enumerate(rows)), key=lambda pair: pair[0])
    }
    expected = []
    for members in groups.values():
        if len(members) > 1:
            order = sorted(range(len(members)), key=lambda place: -scores[members[place]])
            expected.append(ndcg([rows[index][1] for index in members], order, 10))
    found = score_ranking(scores, scores, np.array([grade for _, grade in rows]), [query for query, _ in rows])
    assert found["ndcg@10"] == pytest.approx(np.mean(expected) if expected else 0.0)


def test_every_metric_of_every_kind_has_its_title_and_direction() -> None:
    assert {name for info in KIND_INFO.values() for name in info.metrics} == METRICS.keys() - {"kl"}
    assert [name for name, metric in METRICS.items() if not metric.higher_is_better] == [
        "mse",
        "loss",
        "perplexity",
        "kl",
    ]
    assert all(metric.bounded == metric.higher_is_better for metric in METRICS.values())
    assert METRICS["matthews"].title == "Matthews correlation"
    with pytest.raises(UsageError, match=r"Unknown metric 'acuracy'\. Did you mean 'accuracy'"):
        metric_of("acuracy")
