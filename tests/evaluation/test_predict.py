"""What finished runs predict for rows without labels, from files and text, one run and several."""

from __future__ import annotations

import csv
import functools
import io
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertForSequenceClassification

from gradgate.deltas import SharedPrefix
from gradgate.errors import DataError, UsageError
from gradgate.evaluation.predict import predict
from gradgate.settings.run import make_config
from gradgate.tasks.find import find_task
from gradgate.tasks.unlabelled import read_file
from gradgate.training.run import train
from support.command_line import Command
from support.crossed import some_fast
from support.kind_folders import SAVE

TEXTS = ["a good day", "a bad, bad day", "the weather"]


@pytest.fixture(scope="module")
def runs(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for method in ("full", "head"):
        train(make_config(**settings | {"steps": 2, "method": method}), folder / method)
    return [folder / "full", folder / "head"]


def test_a_table_running_text_and_json_lines_are_the_same_rows(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('note,text\nx,a good day\ny,"a bad, bad day"\nz,the weather\n')
    (tmp_path / "rows.txt").write_text("\n".join([TEXTS[0], "", *TEXTS[1:]]))
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    found = [predict(runs[:1], rows).records() for rows in (tmp_path / "rows.csv", tmp_path / "rows.txt", lines)]
    assert found[0] == found[1] == found[2]
    assert [row.keys() for row in found[0]] == [{"index", "predicted", "probability"}] * 3


@some_fast("kind", ["question-answering", "token-classification", "ranking"], ["question-answering"])
def test_runs_that_share_their_lowest_layers_predict_as_each_does_alone(
    kind: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    task = SAVE[kind](tmp_path / "data")
    own = settings | {"task": str(task), "steps": 2}
    for method in ("head", "freeze:layers=1"):
        train(make_config(**own | {"method": method}), tmp_path / method)
    (test,) = (tmp_path / "data").glob("test.*")
    folders = [tmp_path / "head", tmp_path / "freeze:layers=1"]
    alone = [predict([folder], test).records() for folder in folders]
    depths: list[int] = []
    of = SharedPrefix.of
    monkeypatch.setattr(SharedPrefix, "of", lambda models: depths.append((made := of(models)).depth) or made)
    together = predict(folders, test)
    assert depths == [1]
    assert list(together.by_run.values()) == alone


def test_a_run_predicts_where_its_data_is_gone(settings: dict[str, Any], tmp_path: Path) -> None:
    rows = [(f"{mood} day {number}", mood) for number in range(20) for mood in ("good", "bad")]
    data = tmp_path / "days.csv"
    data.write_text("note,mood\n" + "".join(f"{text},{label}\n" for text, label in rows))
    train(make_config(**settings | {"task": str(data), "text": "note", "label": "mood", "steps": 2}), tmp_path / "run")
    (tmp_path / "new.csv").write_text("id,note\n1,a good day\n2,the weather\n")
    before = predict([tmp_path / "run"], tmp_path / "new.csv").records()
    data.unlink()
    assert predict([tmp_path / "run"], tmp_path / "new.csv").records() == before
    assert predict([tmp_path / "run"], "a good day\nthe weather").records() == before
    with pytest.raises(DataError, match=r"has no column 'words'; its columns are 'id', 'note'"):
        predict([tmp_path / "run"], tmp_path / "new.csv", text="words")


def test_several_runs_stand_side_by_side(runs: list[Path], tmp_path: Path) -> None:
    both, first = predict(runs, "\n".join(TEXTS)), predict(runs[:1], "\n".join(TEXTS)).records()
    assert [{"index": row["index"], **row["full"]} for row in both.records()] == first
    both.write(tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert list(rows[0]) == ["index", "full.predicted", "full.probability", "head.predicted", "head.probability"]
    assert [row["full.predicted"] for row in rows] == [row["predicted"] for row in first]


def test_columns_of_the_rows_are_given_back(runs: list[Path], tmp_path: Path) -> None:
    """So that rows of several languages can be told apart."""
    (tmp_path / "rows.csv").write_text("language,text\nde,ein guter Tag\nel,μια καλή μέρα\n")
    plain = predict(runs[:1], tmp_path / "rows.csv").records()
    kept = predict(runs[:1], tmp_path / "rows.csv", keep=["language"])
    assert [row["language"] for row in kept.records()] == ["de", "el"]
    assert [{k: v for k, v in row.items() if k != "language"} for row in kept.records()] == plain
    assert kept.as_csv().splitlines()[0] == "index,predicted,probability,language"
    several = predict(runs, tmp_path / "rows.csv", keep=["language"])
    assert several.as_csv().splitlines()[0].startswith("index,language,full.predicted")
    with pytest.raises(DataError, match=r"no column 'lang'; its columns are 'language', 'text'\. Name one with keep="):
        predict(runs, tmp_path / "rows.csv", keep=["lang"])


def test_sentences_of_token_rows_keep_the_cells_of_their_first_token(settings: dict[str, Any], tmp_path: Path) -> None:
    header, rows = (
        "sentence_id,word,tag\n",
        [f"s{number // 3},good{number},{'OB'[number % 2]}\n" for number in range(90)],
    )
    (tmp_path / "t.csv").write_text(header + "".join(rows))
    train(make_config(**settings | {"task": str(tmp_path / "t.csv"), "steps": 2}), tmp_path / "run")
    (tmp_path / "new.csv").write_text(header + "".join(rows[:12]))
    kept = predict([tmp_path / "run"], tmp_path / "new.csv", keep=["sentence_id"]).records()
    assert [(row["sentence_id"], len(row["predicted"])) for row in kept] == [(f"s{n}", 3) for n in range(4)]


def test_a_column_that_is_called_like_a_prediction_is_refused(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("predicted,label,text\nmine,mine,a good day\n")
    with pytest.raises(UsageError, match=r"keep=predicted: the predictions have a column of that name"):
        predict(runs[:1], tmp_path / "rows.csv", keep=["predicted"]).records()
    kept = predict(runs[:1], tmp_path / "rows.csv", keep=["label"])
    assert kept.records()[0]["label"] == "mine"
    with pytest.raises(UsageError, match=r"keep=label: the predictions have a column of that name"):
        kept.columns()


def test_kept_dates_are_written_as_text(runs: list[Path], tmp_path: Path) -> None:
    rows = {"text": ["a good day"], "when": [datetime(2026, 2, 3, 4, 5)], "price": [Decimal("1.50")]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    found = predict(runs[:1], tmp_path / "rows.parquet", keep=["when", "price"])
    found.write(tmp_path / "out.jsonl")
    written = json.loads((tmp_path / "out.jsonl").read_text())
    assert (written["when"], written["price"]) == ("2026-02-03T04:05:00", "1.50")
    assert found.columns()[0]["when"] == rows["when"][0]


def test_batches_have_the_rows_that_are_asked_for(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    forward = BertForSequenceClassification.forward

    def counted(self: Any, input_ids: Any = None, **inputs: Any) -> Any:
        sizes.append(len(input_ids))
        return forward(self, input_ids, **inputs)

    monkeypatch.setattr(BertForSequenceClassification, "forward", functools.wraps(forward)(counted))
    predict(runs[:1], "\n".join(TEXTS), batch_size=2)
    assert sizes == [2, 1]


def test_lines_end_where_those_of_a_file_do(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_bytes("a\u2028good day\r\na\x0cbad\x85day\nthe weather".encode())
    assert len(predict(runs[:1], tmp_path / "rows.txt").records()) == 3


def test_rows_are_read_as_the_split_that_their_file_is_named_like(shared: Path) -> None:
    """CoLA's dev file has no header, its test file has one."""
    folder = shared / "data" / "glue" / "CoLA"
    assert len(read_file(folder / "dev.tsv", find_task("cola", data=folder)).columns["sentence"]) == 1043


def test_the_command_reads_standard_input_and_prints_json_lines(
    runs: list[Path], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    said = command("predict", str(runs[0]), "--file", "-")
    assert said.code == 0, said.err
    assert [json.loads(line) for line in said.out.splitlines()] == predict(runs[:1], "\n".join(TEXTS)).records()
    (tmp_path / "rows.txt").write_text(TEXTS[0])
    said = command("predict", str(runs[0]), "--file", str(tmp_path / "rows.txt"), "--out", str(tmp_path / "p.jsonl"))
    assert (said.code, said.out.strip()) == (0, f"Predictions: {tmp_path / 'p.jsonl'}")
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "standard input is empty"),
        ('{"body": "x"}\n', "standard input has no column 'text'; its columns are 'body'. Name one with text="),
        ('{"text": "x"}\n{"text": 3}\n', r"standard input:2: 'text' is not text but int"),
        ('{"text": "x"\n', "standard input"),
    ],
)
def test_rows_that_are_no_examples_are_named(runs: list[Path], rows: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predict(runs[:1], rows)


def test_wrong_usage_is_said_before_a_model_is_loaded(runs: list[Path], command: Command, tmp_path: Path) -> None:
    for words, message in (
        ([str(runs[0]), "--file", str(tmp_path / "none.csv")], "there is no such file"),
        ([str(tmp_path), "--file", "-"], "holds no run"),
        ([str(runs[0]), "--file", "-", "--out", "p.txt"], "ends in .jsonl or .csv"),
    ):
        assert message in command("predict", *words).err
    with pytest.raises(UsageError, match=r"is named twice\. Name each run once"):
        predict([runs[0], runs[0]], "x")
    with pytest.raises(UsageError, match=r"full/\.\./full is named twice, also as .*/full\. Name each run once"):
        predict([runs[0], runs[0] / ".." / runs[0].name], "x")
