"""What ``max_length`` takes from training rows is said before they are trained on."""

from __future__ import annotations

from typing import Any

import pytest

from gradgate.settings.run import RunConfig, make_config
from gradgate.training.prepared_task import prepare_single, prepare_task
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.preview import preview
from gradgate.training.truncation import MOST


def config_of(task: str, max_length: int, **settings: Any) -> RunConfig:
    return make_config(model="sample", task=task, max_length=max_length, **settings)


def said(config: RunConfig) -> tuple[str, ...]:
    return prepare_task(config).length_notes(config, load_tokenizer(config))


def lengths_of(config: RunConfig) -> list[int]:
    """The number of tokens of each training row, from the tokenizer alone."""
    rows, _ = prepare_single(config).train_and_dev(config)
    tokenizer = load_tokenizer(config)
    return [len(tokenizer(*(row[name] for name in ("text", "text_pair") if name in row))["input_ids"]) for row in rows]


@pytest.mark.parametrize(("task", "limit"), [("sample", 12), ("sample-nli", 24)])
def test_rows_that_are_truncated_are_counted_with_the_length_that_keeps_them(task: str, limit: int) -> None:
    config = config_of(task, limit, train_size=50)
    lengths = lengths_of(config)
    longer, longest = sum(length > limit for length in lengths), max(lengths)
    assert 0 < longer < 50
    expected = (
        f"train: max_length={limit} truncates {longer} of 50 rows; the longest has {longest} tokens; "
        f"max_length={longest} keeps all"
    )
    assert said(config) == (expected,)
    assert expected in preview(config).notes
    assert said(config_of(task, longest, train_size=50)) == ()


def test_of_a_large_split_the_first_rows_are_counted() -> None:
    config = config_of("sample", 12)
    lengths = lengths_of(config)
    assert len(lengths) > MOST
    counted, (note,) = lengths[:MOST], said(config)
    assert note.startswith(
        f"train: max_length=12 truncates {sum(length > 12 for length in counted)} of the first {MOST:,} rows; "
    )
    assert note.endswith(f"max_length={max(counted)} keeps these")


def test_a_model_that_cannot_read_the_longest_row_says_how_much_it_reads() -> None:
    config = config_of("sample", 12, train_size=50)
    tokenizer = load_tokenizer(config)
    tokenizer.model_max_length = 16
    assert prepare_task(config).length_notes(config, tokenizer)[0].endswith("; the model reads 16 at most")


@pytest.mark.parametrize("task", ["sample-ner", "sample-qa"])
def test_rows_that_are_divided_into_windows_lose_nothing(task: str) -> None:
    assert said(config_of(task, 20, train_size=50)) == ()
