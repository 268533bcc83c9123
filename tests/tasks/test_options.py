"""What only one kind of task has: read from flat entries, refused elsewhere, and the same data as ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import TaskSpec, find_task, load_task
from gradgate.tasks.spec import build_spec
from gradgate.tasks.types import (
    KIND_INFO,
    KindOptions,
    MultipleChoiceOptions,
    QuestionAnsweringOptions,
    RankingOptions,
)
from support.kind_folders import save_choices, save_questions, save_ranking, save_tags
from support.tiny_folders import save_pairs, save_scores


@pytest.mark.parametrize(
    ("make", "entry", "fingerprint"),
    [
        (save_pairs, "", "43fe2f116df4e194b23cbb736d003c91e0d33ab9e4dd1bb8d6a6e77a6cafaab3"),
        (save_scores, "", "2100e1eaf27c97d56d59eb588c82ddd85f9dfba73d19f6a8d3bb2f5728feb766"),
        (save_tags, "", "ff6ffd0a2cc4f69fa11ac7e31940f27e8ba45b3c3fa7720c01313e159ead2971"),
        (save_questions, "", "ad3c15e0a55f94c2e1fc0ed6b9199d9260ab3d8fd4ba60d7b458566047e896ff"),
        (save_choices, "", "88b598a371a6d8431b8c78307dfb81a50b4afc53ebdc92d488d0c5faa1afdf3b"),
        (save_choices, "question: null\n", "f98ca5266b91929c7ffb36ef22e8b349bbfb9fa56410d32ef7a84092d258c0b9"),
        (
            save_choices,
            "question_from: {test: train.jsonl}\n",
            "5e5ea6e755a34fb916052e8f25908bb2a2d4014eb142f3681e5585a800c131a2",
        ),
        (
            save_choices,
            "choices: [choice2, choice1, premise]\n",
            "830a9fb3f629e81dab60c7207d682974cf83c603819b613b0f058ffa3a5c5e54",
        ),
        (save_ranking, "", "dde7cb490f6302c9838219ea223bb1d7a4ea87a688c337b744b4645e37582524"),
        (save_ranking, "query: title\n", "4cf41370334a2587157a9f071ab0a641c5df35036ae3a891dfe3fafc16790ebc"),
    ],
)
def test_fingerprints_of_recorded_runs_stay(
    tmp_path: Path, make: Callable[[Path], Path], entry: str, fingerprint: str
) -> None:
    folder = make(tmp_path)
    if entry:
        (folder / "task.yaml").write_text((folder / "task.yaml").read_text() + entry)
    assert load_task(find_task(folder)).fingerprint == fingerprint


OPTIONS: list[tuple[str, dict[str, Any], KindOptions]] = [
    ("classification", {}, KindOptions()),
    ("regression", {}, KindOptions()),
    ("token-classification", {}, KindOptions()),
    ("ranking", {}, RankingOptions(query=None)),
    ("ranking", {"query": "id"}, RankingOptions(query="id")),
    (
        "multiple-choice",
        {},
        MultipleChoiceOptions(choices=("choice1", "choice2"), question="question", question_from={}),
    ),
    (
        "multiple-choice",
        {"choices": ["a", "b", "c"], "question": None, "question_from": {"test": "t.jsonl"}},
        MultipleChoiceOptions(choices=("a", "b", "c"), question=None, question_from={"test": "t.jsonl"}),
    ),
    (
        "question-answering",
        {},
        QuestionAnsweringOptions(normalization="squad", no_answer_threshold=0.0, articles=None),
    ),
    (
        "question-answering",
        {"normalization": "mlqa", "no_answer_threshold": 1, "articles": {"train": 3, "dev": 2}},
        QuestionAnsweringOptions(normalization="mlqa", no_answer_threshold=1.0, articles={"train": 3, "dev": 2}),
    ),
]


@pytest.mark.parametrize(("kind", "entries", "options"), OPTIONS)
def test_flat_entries_become_the_options_of_the_kind(kind: str, entries: dict[str, Any], options: KindOptions) -> None:
    spec = build_spec({"name": "x", "kind": kind, **entries}, "x")
    assert spec.options == options
    assert type(spec.options) is type(options)
    written = spec.model_dump()
    assert "options" not in written
    assert {name: written[name] for name in KIND_INFO[kind].options.model_fields} == options.model_dump()
    assert build_spec(written, "x") == spec
    assert TaskSpec.model_validate_json(spec.model_dump_json()) == spec


def test_entries_belong_to_one_kind_and_to_no_task_in_general() -> None:
    owned = [entry for info in KIND_INFO.values() for entry in info.options.model_fields]
    assert sorted(owned) == sorted(set(owned) - TaskSpec.model_fields.keys())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"choices": ["a", "b"]},
            "choices: an entry of multiple-choice, but the kind of this task is classification. Remove it, or set "
            r"`kind: multiple-choice`\.",
        ),
        (
            {"kind": "ranking", "question": "q"},
            r"question: an entry of multiple-choice, but the kind of this task is ranking\.",
        ),
        (
            {"kind": "multiple-choice", "articles": {"train": 1}},
            r"articles: an entry of question-answering, but the kind of this task is multiple-choice\.",
        ),
        ({"kind": "ranking", "queri": "q"}, r"queri: unknown entry.*Did you mean 'query'"),
        (
            {"txt": "a"},
            r"txt: unknown entry\. Expected one of name, kind, text, .*Did you mean 'text'\?",
        ),
        (
            {"format": {"headr": False}},
            r"format\.headr: unknown entry\. Expected one of type, header, .*Did you mean 'header'\?",
        ),
        (
            {"formats": {"dev": {"colums": ["a"]}}},
            r"formats\.dev\.colums: unknown entry.* Expected one of type, header, columns, .*Did you mean 'columns'",
        ),
        (
            {"hub": {"path": "a/b", "training": {"path": "c/d", "split": {}}}},
            r"hub\.training\.split: unknown entry.* Expected one of path, name, .*Did you mean 'splits'\?",
        ),
        ({"options": {"query": "q"}, "kind": "ranking"}, r"`options` is not a valid entry; write query next to `kind`"),
        ({"options": {}}, r"`options` is not a valid entry; classification has none"),
        ({"options": RankingOptions()}, r"task: options: .*RankingOptions is not for classification; expected Kind"),
        ({"kind": "multiple-choice", "choices": ["a"]}, r"task: choices: expected at least 2 items"),
        ({"kind": "question-answering", "articles": {"train": 0}}, r"task: articles\.train: expected a number greater"),
        ({"choices": 1, "query": 2, "source": "?"}, r"source: .*choices: an entry.*query: an entry of ranking"),
    ],
)
def test_an_entry_of_another_kind_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_spec({"name": "x", **values}, "x")


def test_options_can_be_given_as_one_object() -> None:
    spec = TaskSpec(name="x", kind="ranking", options=RankingOptions(query="id"))
    assert spec == build_spec({"name": "x", "kind": "ranking", "query": "id"}, "x")


def test_another_kind_leaves_the_options_of_the_last_one(tmp_path: Path) -> None:
    changed = find_task(save_choices(tmp_path), kind="classification")
    assert (changed.kind, changed.options) == ("classification", KindOptions())


def test_a_test_file_of_its_own_has_its_own_questions(tmp_path: Path) -> None:
    folder = save_choices(tmp_path)
    (folder / "task.yaml").write_text((folder / "task.yaml").read_text() + "question_from: {test: train.jsonl}\n")
    options = find_task(folder, test_file=folder / "dev.jsonl").options
    assert isinstance(options, MultipleChoiceOptions)
    assert options.question_from == {}
