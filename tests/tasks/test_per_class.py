"""The scores of each class, and which classes are taken for which."""

from __future__ import annotations

import pytest

from gradgate.tasks.metrics.per_class import ClassScore, score_each_class


def test_classes_are_scored_from_predictions() -> None:
    rows = [{"gold": gold, "predicted": found} for gold, found in ("aa", "aa", "ab", "bb", "ba", "bb")]
    found = score_each_class("classification", ("a", "b", "c"), rows)
    assert found is not None
    third = pytest.approx(2 / 3)
    assert found.scores == (
        ClassScore("a", third, third, third, 3),
        ClassScore("b", third, third, third, 3),
        ClassScore("c", 0.0, 0.0, 0.0, 0),
    )
    assert found.confusion == ((2, 1, 0), (1, 2, 0), (0, 0, 0))


def test_tags_are_scored_by_token() -> None:
    rows = [{"gold": ["O", "X"], "predicted": ["O", "O"]}, {"gold": ["X"], "predicted": ["X"]}]
    found = score_each_class("token-classification", ("O", "X"), rows)
    assert found is not None
    assert found.confusion == ((1, 0), (1, 1))


def test_each_of_several_labels_is_scored() -> None:
    rows = [{"gold": ["a", "b"], "predicted": ["a"]}, {"gold": [], "predicted": ["a"]}]
    found = score_each_class("multi-label", ("a", "b"), rows)
    assert found is not None
    assert found.scores == (ClassScore("a", 0.5, 1.0, pytest.approx(2 / 3), 1), ClassScore("b", 0.0, 0.0, 0.0, 1))
    assert found.confusion is None


def test_many_classes_have_no_confusion() -> None:
    labels = [str(number) for number in range(101)]
    found = score_each_class("classification", labels, [{"gold": "0", "predicted": "0"}])
    assert found is not None
    assert found.confusion is None


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("classification", {"gold": "a"}),
        ("classification", {"gold": "a", "predicted": "z"}),
        ("classification", {"gold": ["a"], "predicted": "a"}),
        ("token-classification", {"gold": ["a"], "predicted": ["a", "b"]}),
        ("multi-label", {"gold": 3, "predicted": ["a"]}),
    ],
)
def test_damaged_predictions_are_refused(kind: str, row: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        score_each_class(kind, ("a", "b"), [row])


@pytest.mark.parametrize("kind", ["regression", "generation"])
def test_other_kinds_have_no_classes(kind: str) -> None:
    assert score_each_class(kind, (), [{"gold": 1.0, "predicted": 2.0}]) is None
