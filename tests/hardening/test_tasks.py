"""Data files and task files with bad content: an error that names the place and the remedy, whatever they hold."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradgate.errors import DataError, GradgateError, UsageError
from gradgate.settings.run import make_config
from gradgate.tasks import count_rows, find_task, load_task
from gradgate.tasks.data import load_to_train
from gradgate.tasks.multitask import find_multitask, is_multitask
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.tables import read_tables
from gradgate.tasks.types import FileFormat
from gradgate.training.named_tasks import check_tasks

ROWS = "text,label\n" + "".join(f"words of row {row},{'ab'[row % 2]}\n" for row in range(20))
SCORES = "text,score\n" + "".join(f"words of row {row},{row / 7:.2f}\n" for row in range(30))
SPLITS = "files: {train: train.csv, dev: dev.csv"
Files = dict[str, str | bytes]


def task_file(entries: str) -> Files:
    return {"train.csv": ROWS, "dev.csv": ROWS, "test.csv": ROWS, "task.yaml": entries}


def labelled(fifth: object, *others: object) -> str:
    """JSON lines, of which the fifth has a label of its own."""
    labels = [fifth if row == 4 else others[row % 2] for row in range(20)]
    return "".join(json.dumps({"text": f"a b {row}", "label": label}) + "\n" for row, label in enumerate(labels))


NAMES = {
    "an absolute path": ('"/elsewhere/x": test.csv', r"'/elsewhere/x' cannot be part of a file name"),
    "a path upwards": ('"test/../../../x": test.csv', r"'test/\.\./\.\./\.\./x' cannot be part of"),
    "a null byte": ('"te\\0st": test.csv', r"'te\\x00st' cannot be part of"),
    "300 characters": (f"{'x' * 300}: test.csv", r"'xxx.* cannot be part of"),
    "markup": ('"[/x]": test.csv', r"'\[/x\]' cannot be part of"),
    "a control sequence": ('"\\e[31mtest": test.csv', r"'\\x1b\[31mtest' cannot be part of"),
    "a formula": ('"=cmd()": test.csv', r"'=cmd\(\)' cannot be part of"),
    "a dot first": ("..: test.csv", r"'\.\.' cannot be part of"),
    "a file name of 300 characters": (f"test: {'x' * 300}", r"cannot be the path of a file"),
    "a file name with a null byte": ('test: "a\\0b"', r"'a\\x00b' cannot be the path"),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_of_splits_stay_inside_of_a_run(case: str, tmp_path: Path) -> None:
    entry, message = NAMES[case]
    with pytest.raises(DataError, match=message):
        load_task(find_task(put(tmp_path, task_file(f"{SPLITS}, {entry}}}\n"))))


DESCRIPTIONS: dict[str, tuple[Files, str]] = {
    "kind is a list": (task_file("kind: [a]\n"), r"unknown kind \['a'\]; expected one of classification"),
    "kind is a mapping": (task_file("kind: {a: b}\n"), r"unknown kind \{'a': 'b'\}"),
    "metric is a list": (task_file("metric: [a]\n"), r"unknown metric \['a'\] for classification"),
    "5,000 levels": (
        task_file("a: " + "[" * 5000 + "]" * 5000),
        r"task\.yaml:1 cannot be read as YAML.*nested too deeply",
    ),
    "a key twice": (task_file("label: a\nlabel: b\n"), r"task\.yaml:2 .*'label' is given twice"),
    "a tag of Python": (task_file("a: !!python/object/apply:os.system [ls]\n"), r"task\.yaml:1 cannot be read as YAML"),
    "a control character": (task_file("a: \x1b\n"), r"cannot be read as YAML"),
    "one file for train and dev": (
        task_file("files: {train: train.csv, dev: train.csv}\n"),
        r"train\.csv is both train and dev of the task .*Pass another file for dev, or split=",
    ),
    "one file for dev and test": (task_file(f"{SPLITS}, test: ./dev.csv}}\n"), r"dev\.csv is both dev and test"),
    "languages without a place": (
        task_file(f"languages: [de, fr]\n{SPLITS}, test: test.csv}}\n"),
        r"`languages` has de, fr, but no path in `files` contains \{language\}",
    ),
    "a split that is none": (task_file("split: 80/30\n"), r"split='80/30': expected percent"),
}
CONTENTS: dict[str, tuple[Files, str]] = {
    "gzip": ({"t.csv": gzip.compress(ROWS.encode())}, r"t\.csv is compressed by gzip.*gunzip"),
    "a spreadsheet": ({"t.csv": b"PK\x03\x04rest"}, r"t\.csv is a zip archive; unpack it"),
    "UTF-16 without a mark": ({"t.csv": ROWS.encode("utf-16-le")}, r"t\.csv is a binary file, or UTF-16 without"),
    "null bytes": ({"t.csv": ROWS.replace("row 3", "row\x003")}, r"t\.csv:5.*(contains a null character|contains NUL)"),
    "null characters": (
        {"t.jsonl": "".join(json.dumps({"text": f"row\0{n}", "label": n % 2}) + "\n" for n in range(20))},
        r"t\.jsonl:\d+: 'text' contains a null character",
    ),
    "a label that is NaN": ({"t.jsonl": labelled(math.nan, 0, 1)}, r"t\.jsonl:5: 'label' is 'nan', and 19 of 20 rows"),
    "a class that is NaN": (
        {"t.jsonl": labelled(math.nan, "x", "y")},
        r"t\.jsonl:5: the label is nan, which stands for a missing number",
    ),
    "a huge score": ({"t.csv": SCORES + "more words,1e300\n"}, r"t\.csv:32: the score '1e300' is too large"),
    "objects as labels": (
        {"t.jsonl": labelled({"a": 1}, {"a": 1}, {"a": 2})},
        r"t\.jsonl:\d+: the label is dict .*expected text or a number",
    ),
    **{
        f"{cell} among scores": (
            {"t.csv": SCORES + f'more words,"{cell}"\n'},
            rf"t\.csv:32: 'score' is '{cell}', and 30 of 31 rows have numbers there\. Expected a finite number",
        )
        for cell in ("nan", "inf", "1e400", "abc", "n/a")
    },
}


def put(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder if len(files) > 1 else folder / next(iter(files))


@pytest.mark.parametrize("case", [*DESCRIPTIONS, *CONTENTS])
def test_a_fault_is_named_with_its_place(case: str, tmp_path: Path) -> None:
    files, message = (DESCRIPTIONS | CONTENTS)[case]
    with pytest.raises(DataError, match=message):
        load_task(find_task(put(tmp_path, files)))


def test_a_link_to_nothing_is_not_an_absent_split(tmp_path: Path) -> None:
    put(tmp_path, {"train.csv": ROWS, "test.csv": ROWS})
    (tmp_path / "dev.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(DataError, match=r"dev\.csv is a link to .*gone\.csv, which does not exist"):
        find_task(tmp_path)


ONE_ROW = {
    "classification": ("text,label", ["good,a", "bad,b"], ""),
    "regression": ("text,label", ["good,1", "bad,2"], ""),
    "ranking": ("query,text,grade", ["q,good,1", "q,bad,0"], "text: [query, text]\nlabel: grade\n"),
    "generation": ("prompt,response", ["a,good", "b,bad"], ""),
}


@pytest.mark.parametrize("kind", ONE_ROW)
def test_one_row_of_dev_is_refused(tmp_path: Path, kind: str) -> None:
    header, rows, described = ONE_ROW[kind]
    whole, one = ("\n".join([header, *some, ""]) for some in (rows, rows[:1]))
    splits = "files: {train: train.csv, dev: dev.csv, test: test.csv}\n"
    described = f"kind: {kind}\n{described}{splits}"
    put(tmp_path, {"train.csv": whole, "dev.csv": one, "test.csv": one, "task.yaml": described})
    with pytest.raises(DataError, match=r"dev split of the task .* has one row\. Expected 2 or more"):
        load_to_train(find_task(tmp_path))
    (tmp_path / "dev.csv").write_text(whole)
    assert load_to_train(find_task(tmp_path)).rows["test"] == 1


def test_one_row_held_out_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {"train.csv": ROWS, "dev.csv": ROWS})
    with pytest.raises(UsageError, match=r"dev_size=1: one row selects by chance\. Expected 2 or more"):
        check_tasks(make_config(task=str(tmp_path), dev_size=1))


def test_several_tasks_cannot_hold_themselves(tmp_path: Path) -> None:
    (tmp_path / "mt.yaml").write_text("kind: multitask\ntasks: [mt.yaml, cola]\n")
    assert is_multitask(str(tmp_path / "mt.yaml"))
    with pytest.raises(DataError, match=r"mt\.yaml describes several tasks, and one is expected for each entry"):
        find_multitask(str(tmp_path / "mt.yaml"))


@pytest.mark.parametrize(
    ("task", "source", "message"),
    [
        (
            "one file",
            "de",
            r"source=de: the task .* is trained in en only\. Leave source= out",
        ),
        ("one file", "zh", r"source=zh: the task .* is in en, de; pass one of these"),
        ("xnli", "xx", r"source=xx: the task xnli is in en, .*zh; pass one of these"),
        ("cola", "de", r"source=de: the task cola is in en; pass one of these"),
        ("own", "a/b", r"source=a/b: nothing in .* says that its rows are in a/b"),
        ("own", "zh", r"source=zh: nothing in .*t\.csv says that its rows are in zh\. Name its files train\.zh\.csv"),
        ("folder", "zh", r"source=zh: nothing in .* says that its rows are in zh\."),
    ],
)
def test_a_source_without_data_of_its_own_is_refused(task: str, source: str, message: str, tmp_path: Path) -> None:
    name: str | Path = task
    if task == "one file":
        name = put(tmp_path, task_file(f'languages: [en, de]\n{SPLITS}, test: "{{language}}.csv"}}\n'))
    elif task == "own":
        name = put(tmp_path, {"t.csv": ROWS})
    elif task == "folder":
        put(tmp_path, {"train.csv": ROWS, "dev.csv": ROWS})
        name = tmp_path
    with pytest.raises(GradgateError, match=message):
        find_task(name, source=source)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/" + "y" * 5000, "x" * 300 + ".yaml", "a+" + "b" * 300])
def test_words_that_cannot_be_paths_are_no_tasks(name: str) -> None:
    with pytest.raises(GradgateError):
        find_multitask(name) if is_multitask(name) else find_task(name)


# Whatever a file holds, it is read or refused by name.

FUZZ = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
WORDS = ("", "text", "label", "1", "0.5", "nan", "a b c", '"', "\r", "\\0")
CELL = st.one_of(st.text(max_size=8), st.sampled_from(WORDS))
ENDINGS = st.sampled_from(["csv", "jsonl", "json", "parquet", "conllu", "txt", "yaml"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = ("kind", "text", "label", "metric", "files", "format", "languages", "source", "split", "label_map", "choices")


def only_said(read: Callable[[], object]) -> None:
    with suppress(GradgateError):
        read()


@FUZZ
@given(
    rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=14),
    ending=st.sampled_from(["csv", "tsv", "txt"]),
    joint=st.sampled_from([",", ";", "\t"]),
)
def test_any_cells_are_read_or_refused(rows: list[list[str]], ending: str, joint: str, tmp_path: Path) -> None:
    text = "\n".join(joint.join(row) for row in [["text", "label"], *rows])
    path = put(tmp_path, {f"t.{ending}": text.encode("utf-8", "surrogatepass")})
    only_said(lambda: (load_task(find_task(path)), count_rows(find_task(path))))


@FUZZ
@given(content=st.binary(max_size=80), ending=ENDINGS)
def test_any_bytes_are_read_or_refused(content: bytes, ending: str, tmp_path: Path) -> None:
    path = put(tmp_path, {f"t.{ending}": content})
    only_said(lambda: read_tables(find_task(path)))
    only_said(lambda: read_table(path, FileFormat()))


@FUZZ
@given(rows=st.lists(st.dictionaries(st.sampled_from(["text", "label", "x"]), VALUES, max_size=3), max_size=14))
def test_any_json_is_read_or_refused(rows: list[dict[str, object]], tmp_path: Path) -> None:
    path = put(tmp_path, {"t.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    only_said(lambda: load_task(find_task(path)))
    only_said(lambda: load_task(find_task(path, text="text", label="label", kind="regression")))


@FUZZ
@given(values=st.dictionaries(st.sampled_from(ENTRIES), VALUES, max_size=5))
def test_any_task_file_is_read_or_refused(values: dict[str, object], tmp_path: Path) -> None:
    def plain(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    finite = {name: plain(value) for name, value in values.items()}
    folder = put(tmp_path, task_file(json.dumps(finite)))
    only_said(lambda: load_task(find_task(folder)))
