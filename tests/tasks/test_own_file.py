"""A single data file as a task: its columns are found, and its rows divided once for every run."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError, UsageError
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.run import make_config
from gradgate.tasks import count_rows, find_task, load_task
from gradgate.tasks.tables import read_tables, read_tests
from gradgate.training.named_tasks import find_task_of
from support.command_line import Command

WORDS = ("printer", "account", "locked", "reset", "invoice", "wrong", "charged", "login", "server", "refund")
QUEUES = ("billing", "technical", "account")


def messages(count: int) -> list[str]:
    draw = random.Random(count)
    return [f"{' '.join(draw.choices(WORDS, k=6))} {number}" for number in range(count)]


def tickets(count: int = 300) -> dict[str, list[Any]]:
    """Ids, dates, one column of text, and a queue that a third of the rows each have."""
    return {
        "id": list(range(1, count + 1)),
        "created": [f"2024-03-{number % 28 + 1:02}" for number in range(count)],
        "message": messages(count),
        "queue": [QUEUES[number % 3] for number in range(count)],
    }


def write(path: Path, columns: dict[str, list[Any]], delimiter: str = ",") -> Path:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else delimiter)
            writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet", "semicolons.csv"])
def test_one_file_of_any_type_is_a_task(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, tickets(), ";" if name.startswith("semi") else ",")
    data = load_task(find_task(str(path)))
    assert (data.spec.kind, data.spec.text, data.spec.label) == ("classification", "message", "queue")
    assert data.rows == {"train": 240, "dev": 30, "test": 30}
    assert data.labels == ("account", "billing", "technical")
    expected = f"{name}: 240 rows to train, 30 dev, 30 test (stratified by queue, data seed 0)"
    assert data.division == expected
    assert expected in data.notes


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", tickets())
    path.write_text(path.read_text().split("\n", 1)[1])
    with pytest.raises(DataError, match=r"one of its own values: the first line is a row and no header"):
        find_task(str(path), text=next(csv.reader(path.open()))[2])


def test_the_division_is_the_same_in_every_file_and_stratified(tmp_path: Path) -> None:
    columns = tickets()
    first = read_tables(find_task(str(write(tmp_path / "a.csv", columns))))
    order = random.Random(5).sample(range(300), 300)
    other = {name: [cells[row] for row in order] for name, cells in columns.items()}
    second = read_tables(find_task(str(write(tmp_path / "b.jsonl", other))))
    for split in ("train", "dev", "test"):
        assert set(first[split].columns["message"]) == set(second[split].columns["message"])
        assert set(Counter(first[split].columns["queue"]).values()) == {len(first[split]) // 3}
    everything = [text for table in first.values() for text in table.columns["message"]]
    assert sorted(everything) == sorted(columns["message"])


def test_rows_keep_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", tickets())
    lines = path.read_text().splitlines()
    for table in read_tables(find_task(str(path))).values():
        for row, message in enumerate(table.columns["message"]):
            line = int(table.place(row).rpartition(":")[2])
            assert lines[line - 1].split(",")[2] == message


def test_the_same_text_is_in_one_split_only(tmp_path: Path) -> None:
    texts = [text for text in messages(60) for _ in range(3)]
    texts = [text.upper() if row % 3 == 1 else f" {text}" if row % 3 == 2 else text for row, text in enumerate(texts)]
    columns = {"text": texts, "label": [QUEUES[row // 3 % 2] for row in range(180)]}
    tables = read_tables(find_task(str(write(tmp_path / "t.csv", columns))))
    seen = [{text.strip().lower() for text in table.columns["text"]} for table in tables.values()]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert {split: len(table) for split, table in tables.items()} == {"train": 144, "dev": 18, "test": 18}


@pytest.mark.parametrize(
    ("split", "rows"),
    [
        ("70/15/15", {"train": 210, "dev": 45, "test": 45}),
        ("90/10", {"train": 270, "dev": 30}),
        ("90/10/0", {"train": 270, "dev": 30}),
    ],
)
def test_shares_can_be_chosen(tmp_path: Path, split: str, rows: dict[str, int]) -> None:
    spec = find_task(str(write(tmp_path / "t.csv", tickets())), split=split)
    assert {name: by_language["en"] for name, by_language in count_rows(spec).items()} == rows
    last = list(rows)[-1]
    assert {name: len(table) for name, table in read_tests(spec).items()} == {last: rows[last]}


@pytest.mark.parametrize("split", ["80", "80/10", "80/10/20", "a/b/c", "0/50/50", "100/0/0", "-10/60/50", "nan/1/1"])
def test_shares_that_are_none_are_refused(split: str) -> None:
    with pytest.raises(UsageError, match=r"expected percentages of train, dev and test that add up to 100, as"):
        make_config(split=split)


def test_only_what_has_no_file_is_taken_from_train(tmp_path: Path) -> None:
    path, other = write(tmp_path / "t.csv", tickets()), write(tmp_path / "other.csv", tickets(30))
    with_dev = find_task(str(path), dev_file=other)
    assert load_task(with_dev).rows == {"train": 300, "dev": 30}
    assert load_task(find_task(str(path), test_file=other)).rows == {"train": 270, "dev": 30, "test": 30}
    assert load_task(find_task(str(path), dev_file=other, split="80/10/10")).rows == {
        "train": 270,
        "dev": 30,
        "test": 30,
    }
    with pytest.raises(UsageError, match=r"split=80/10/10 has nothing to take from train: the task t has dev, test"):
        find_task(str(path), dev_file=other, test_file=write(tmp_path / "third.csv", tickets(30)), split="80/10/10")


def test_a_train_file_without_a_task_is_the_task(tmp_path: Path) -> None:
    path = write(tmp_path / "tickets.csv", tickets())
    config = make_config(train_file=path)
    assert (config.task, config.train_file) == (str(path), None)
    assert find_task_of(config).name == "tickets"
    assert make_config(**config.model_dump()) == config
    assert make_config(task="sample", train_file=path).train_file == path


def test_the_split_counts_in_a_fingerprint_only_where_it_is_given() -> None:
    record = make_config().record()
    del record["split"]
    assert fingerprint_of(record) == make_config().fingerprint()
    assert make_config(split="80/10/10").fingerprint() != make_config().fingerprint()
    assert make_config(split="80/10/10").fingerprint() == make_config(split="80.0/10/10").fingerprint()


def test_scores_are_divided_by_rank(tmp_path: Path) -> None:
    columns = {"text": messages(200), "score": [f"{number / 40:.3f}" for number in range(200)]}
    data = load_task(find_task(str(write(tmp_path / "t.csv", columns))))
    assert (data.spec.kind, data.rows) == ("regression", {"train": 160, "dev": 20, "test": 20})
    for rows in (data.dev, data.tests["test"]):
        assert Counter(int(score * 2) for score in rows["label"][:]) == dict.fromkeys(range(10), 2)


def test_a_class_with_one_row_stays_in_train(tmp_path: Path) -> None:
    columns = {"text": messages(100), "label": ["rare" if row == 50 else QUEUES[row % 2] for row in range(100)]}
    tables = read_tables(find_task(str(write(tmp_path / "t.csv", columns))))
    assert "rare" in tables["train"].columns["label"]
    assert {split: len(table) for split, table in tables.items()} == {"train": 80, "dev": 10, "test": 10}


def test_few_rows_are_divided_down_to_ten(tmp_path: Path) -> None:
    columns = {"text": messages(12), "label": [QUEUES[row % 2] for row in range(12)]}
    assert load_task(find_task(str(write(tmp_path / "t.csv", columns)))).rows == {"train": 8, "dev": 2, "test": 2}
    few = {name: cells[:9] for name, cells in columns.items()}
    with pytest.raises(DataError, match=r"t\.csv has 9 rows; expected 10 or more.*dev_file= and test_file="):
        load_task(find_task(str(write(tmp_path / "t.csv", few))))
    same = {"text": ["one and the same text"] * 40, "label": list("ab" * 20)}
    with pytest.raises(DataError, match=r"t\.csv cannot be divided: dev and test would have fewer than 2 rows"):
        load_task(find_task(str(write(tmp_path / "t.csv", same))))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"subject": messages(20), "body": messages(20), "queue": list("ab" * 10)},
            r"several could be the text \(subject, body\)\. Name it with text=.* 'body': 'printer|several could be",
        ),
        (
            {"message": messages(20), "queue": list("ab" * 10), "priority": list("aabb" * 5)},
            r"several could be the label \(queue, priority\)\. Name it with label=.*'queue': 'a'; 'priority': 'a'",
        ),
        ({"message": messages(20), "id": list(range(20))}, r"none is known to be the label.*'id': '0'"),
        ({"code": list("abcd" * 5), "queue": list("ab" * 10)}, r"none is known to be the text"),
    ],
)
def test_columns_that_are_not_clear_are_listed_with_examples(
    tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        find_task(str(write(tmp_path / "t.csv", columns)))


def test_numbers_of_stars_are_classes(tmp_path: Path) -> None:
    columns = {
        "key": [f"r{row}" for row in range(50)],
        "opinion": messages(50),
        "stars": [row % 5 for row in range(50)],
    }
    spec = find_task(str(write(tmp_path / "t.jsonl", columns)))
    assert (spec.kind, spec.text, spec.label) == ("classification", "opinion", "stars")


def test_compare_and_tasks_take_a_file(
    tmp_path: Path,
    tiny_model: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    draw_only: Callable[..., None],
) -> None:
    draw_only()
    path = write(tmp_path / "tickets.csv", tickets(90))
    monkeypatch.chdir(tmp_path)
    short = ["--steps", "2", "--batch-size", "4", "--max-length", "16", "--seeds", "1", "--quiet"]
    arms = ["--model", str(tiny_model), "-m", "full", "-m", "head"]
    said = command("compare", *arms, *short, "--train-file", path.name, "--split", "70/15/15", "--out", "study")
    assert said.code == 0, said.err
    study = json.loads((tmp_path / "study" / "study.json").read_text())
    note = "tickets.csv: 62 rows to train, 14 dev, 14 test (stratified by queue, data seed 0)"
    assert study["task"]["split"] == note
    assert study["task"]["rows"] == {"train": 62, "dev": 14, "test": 14}
    runs = [json.loads(file.read_text()) for file in (tmp_path / "study").rglob("run.json")]
    assert [run["task"]["split"] for run in runs] == [note, note]
    assert command("report", "study").code == 0
    assert note in (tmp_path / "study" / "report.html").read_text()
    shown = command("tasks", "tickets.csv").out
    assert "tickets.csv: 72 rows to train, 9 dev, 9 test (stratified by queue, data seed 0)" in shown
    assert "labels: account 24, billing 24, technical 24" in shown
