"""What a task's name means: the catalogue, YAML files, folders, files and flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError, UsageError
from gradgate.tasks import TaskSpec, find_task, kind_of, load_task, task_names
from gradgate.tasks.types import QuestionAnsweringOptions

TSV = "sentence\tlabel\na\t0\nb\t1\n"


def put(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


FILES_ONLY = ("bc5cdr", "sciie_ner")


@pytest.mark.parametrize("name", [name for name in task_names() if not name.startswith("sample")])
def test_every_catalogue_entry_has_hub_files_metric_and_paper(name: str, tmp_path: Path) -> None:
    spec = find_task(name)
    assert spec.folder is None
    assert name in FILES_ONLY if spec.hub is None else spec.places.keys() >= {"train", "dev"}
    assert spec.metric in kind_of(spec).info.metrics
    assert spec.paper
    assert spec.description
    local = find_task(name, data=tmp_path)
    assert local.folder == tmp_path.resolve()
    cut = isinstance(local.options, QuestionAnsweringOptions) and local.options.articles
    assert set(local.files or {}) == (set() if cut else {"train", "dev"})


def test_metrics_are_those_of_the_papers() -> None:
    metrics = {"citation_intent": "macro_f1", "chemprot": "micro_f1", "cola": "matthews", "stsb": "pearson"}
    assert {name: find_task(name).metric for name in metrics} == metrics


def test_the_hub_has_its_own_columns() -> None:
    spec = find_task("mrpc")
    assert (spec.text_columns, spec.label_column) == (("sentence1", "sentence2"), "label")


def test_a_spec_survives_json(tmp_path: Path) -> None:
    put(tmp_path, train__tsv=TSV, dev__tsv=TSV)
    for spec in (find_task("mrpc"), find_task("stsb", data=tmp_path), find_task(str(tmp_path))):
        assert TaskSpec.model_validate_json(spec.model_dump_json()) == spec


def test_unknown_names_are_told_what_is_near() -> None:
    with pytest.raises(UsageError, match=r"Unknown task 'ssst2'\. Did you mean 'sst2'.*a YAML file"):
        find_task("ssst2")
    with pytest.raises(UsageError, match=r"There is no file or folder \./no/such"):
        find_task("./no/such")
    with pytest.raises(DataError, match=r"data=/no/such is not a folder"):
        find_task("mrpc", data=Path("/no/such"))


def test_the_hub_offline_says_so_and_names_the_way_out() -> None:
    with pytest.raises(DataError, match=r"nyu-mll/glue mrpc cannot be fetched: HF_HUB_OFFLINE is set.*data=DIR"):
        load_task(find_task("mrpc"))


# Folders and files without a task.yaml


@pytest.mark.parametrize("dev", ["dev", "val", "valid", "validation", "dev_matched", "Dev"])
def test_splits_are_recognised_by_stem(tmp_path: Path, dev: str) -> None:
    put(tmp_path, train__txt=TSV, **{f"{dev}.tsv": TSV}, README__txt="x", **{"test-mismatched.tsv": TSV})
    spec = find_task(str(tmp_path))
    assert (spec.files or {}).keys() == {"train", "dev", "test_mismatched"}
    assert (spec.text, spec.label, spec.kind) == ("sentence", "label", "classification")
    assert load_task(spec).rows == {"train": 2, "dev": 2, "test_mismatched": 2}


@pytest.mark.parametrize(
    ("names", "source", "splits"),
    [
        ("train.tsv dev.tsv test.de.tsv test_sw.tsv", None, "train dev test.de test.sw"),
        ("train.tsv dev.tsv test.tsv test-de.tsv", None, "train dev test.de test.en"),
        ("train.de.tsv dev.de.tsv test.en.tsv test.de.tsv", None, "train dev test.de test.en"),
        ("train.tsv dev.tsv dev.sw.tsv", "de", "train dev dev.sw"),
        ("en/train.tsv en/dev.tsv de/test.tsv de/train.tsv", None, "train dev test.de"),
        ("de/train.tsv de/dev.tsv sw/train.tsv en/test.tsv", "de", "train dev test.en"),
    ],
)
def test_languages_are_recognised_by_the_names_of_files_and_folders(
    tmp_path: Path, names: str, source: str | None, splits: str
) -> None:
    put(tmp_path, **dict.fromkeys(names.split(), TSV))
    spec = find_task(str(tmp_path), source=source)
    assert " ".join(spec.files or {}) == splits
    named = set(re.findall(r"(?<![a-z])(en|de|sw)(?=[./])", names))
    own = source or ("de" if "train.de" in names else "en")
    assert (spec.source, set(spec.languages)) == (own, named | {own})
    assert {split: spec.language_of(split) for split in spec.files or {}} == {
        split: split.partition(".")[2] or own for split in splits.split()
    }
    assert load_task(spec).rows == dict.fromkeys(splits.split(), 2)


@pytest.mark.parametrize("name", ["test_v2.tsv", "test.old.tsv", "test_mismatched.tsv", "tested.de.tsv"])
def test_names_that_end_in_no_language_are_in_none(tmp_path: Path, name: str) -> None:
    put(tmp_path, **{"train.tsv": TSV, "dev.tsv": TSV, name: TSV})
    assert find_task(str(tmp_path)).languages == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("train.de.tsv train.sw.tsv", r"has train files in de, sw\. .*source=de"),
        ("train.tsv train.en.tsv test.de.tsv", r"has 2 files for train: train\.tsv, train\.en\.tsv"),
        ("train.tsv test.tsv test_en.tsv", r"has 2 files for test\.en: test\.tsv, test_en\.tsv"),
        ("train.tsv de/test.tsv test.de.tsv", r"has 2 files for test in de: de/test\.tsv, test\.de\.tsv"),
    ],
)
def test_languages_that_cannot_be_taken_in_one_way_are_refused(tmp_path: Path, names: str, message: str) -> None:
    put(tmp_path, **dict.fromkeys(names.split(), TSV))
    with pytest.raises(DataError, match=message):
        find_task(str(tmp_path))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("premise\thypothesis\tgold_label", ("premise", "hypothesis")),
        ("question\tsentence\tlabel", ("question", "sentence")),
        ("Text_A\tText_B\tLabel", ("Text_A", "Text_B")),
    ],
)
def test_pairs_are_recognised_by_column_names(tmp_path: Path, header: str, text: tuple[str, str]) -> None:
    rows = header + "\na\tb\tyes\nc\td\tno\n"
    assert find_task(str(put(tmp_path, train__tsv=rows, dev__tsv=rows))).text == text


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["1", "0"], "classification"), (["x", "2.5"], "classification"), (["1.0", "2.5"], "regression")],
)
def test_the_kind_is_recognised_by_the_labels(tmp_path: Path, labels: list[str], kind: str) -> None:
    rows = "text,label\n" + "".join(f"a,{label}\n" for label in labels)
    assert find_task(str(put(tmp_path, train__csv=rows, dev__csv=rows))).kind == kind


@pytest.mark.parametrize("labels", [["1.0", "0.0"], ["1", "2.5"], [str(i) for i in range(101)]])
def test_numbers_that_could_be_classes_or_scores_are_asked_about(tmp_path: Path, labels: list[str]) -> None:
    rows = "text,label\n" + "".join(f"a,{label}\n" for label in labels)
    put(tmp_path, train__csv=rows, dev__csv=rows)
    with pytest.raises(DataError, match=r"could be classes or scores; pass kind='classification' or kind='regression'"):
        find_task(str(tmp_path))
    assert find_task(str(tmp_path), kind="regression").metric == "pearson"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("premise,hypothesis,text,label", r"several could be the text \(premise, hypothesis\).*text= and text_pair="),
        ("text,sentence,label,x", r"several could be the text \(text, sentence\)"),
        ("a,b,label,x", r"columns 'a', 'b', 'label', 'x': none is known to be the text.*text="),
        ("text,label,score,x", r"several could be the label \(label, score\)\. Name it with label="),
        ("text,b,c,d", r"none is known to be the label"),
    ],
)
def test_ambiguous_columns_are_listed_with_the_flags(tmp_path: Path, header: str, message: str) -> None:
    put(tmp_path, train__csv=f"{header}\n1,2,3,4\n", dev__csv=f"{header}\n1,2,3,4\n")
    with pytest.raises(DataError, match=message):
        find_task(str(tmp_path))


def test_folders_that_cannot_be_taken_in_one_way_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no train file: it holds nothing"):
        find_task(str(tmp_path))
    put(tmp_path, train__tsv=TSV, dev__tsv=TSV, val__csv=TSV)
    with pytest.raises(DataError, match=r"has 2 files for dev: dev\.tsv, val\.csv"):
        find_task(str(tmp_path))


def test_flags_settle_what_is_ambiguous(tmp_path: Path) -> None:
    rows = "a,b,gold,score\nx,y,1,2\nz,w,0,3\n"
    put(tmp_path, train__csv=rows, dev__csv=rows)
    spec = find_task(str(tmp_path), text="a", text_pair="b", label="gold")
    assert load_task(spec).train[0] == {"text": "x", "text_pair": "y", "label": 1}


def test_a_train_file_takes_its_dev_file_from_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, mine__tsv=TSV, other__tsv=TSV)
    monkeypatch.chdir(tmp_path)
    spec = find_task("mine.tsv", dev_file="other.tsv")
    monkeypatch.chdir("/")
    assert load_task(spec).rows == {"train": 2, "dev": 2}
    with pytest.raises(DataError, match=r"mine\.tsv has 2 rows; expected 10 or more to take dev and test from"):
        load_task(find_task(str(tmp_path / "mine.tsv")))
    with pytest.raises(UsageError, match=r"data= is for"):
        find_task(str(tmp_path), data=tmp_path)


def test_a_file_that_is_in_the_folder_of_data_alone_is_named_by_its_whole_path(tmp_path: Path) -> None:
    put(tmp_path, dev__tsv="index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n")
    expected = rf"train_file=dev\.tsv: .*dev\.tsv is missing\. .*, pass train_file={tmp_path}/dev\.tsv"
    with pytest.raises(UsageError, match=expected):
        find_task("qnli", data=tmp_path, train_file="dev.tsv")
    assert find_task("qnli", data=tmp_path, train_file=tmp_path / "dev.tsv").files


def test_a_folder_is_a_catalogue_task_only_if_its_rows_agree(tmp_path: Path) -> None:
    wnli = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n1\tc\td\t0\n"
    for name, expected in (("WNLI", "wnli"), ("wnli_", "wnli"), ("RTE", "RTE"), ("mine", "mine")):
        assert find_task(str(put(tmp_path / name, train__tsv=wnli, dev__tsv=wnli))).name == expected
    other = "text\tlabel\na\tx\nb\ty\n"
    spec = find_task(str(put(tmp_path / "MRPC", train__tsv=other, dev__tsv=other)))
    assert (spec.name, spec.text) == ("MRPC", "text")


def test_a_header_that_only_one_task_has_is_enough(tmp_path: Path) -> None:
    rows = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n0\t1\t2\tc\td\n"
    assert find_task(str(put(tmp_path / "x", train__tsv=rows, dev__tsv=rows))).name == "mrpc"


# YAML files

YAML = """
name: mine
text: [a, b]
label: y
metric: macro_f1
files: {train: data/train.tsv, dev: data/dev.tsv, test_hard: data/hard.csv}
format: {type: tsv, header: false, columns: [a, b, y]}
formats:
  test_hard: {type: csv, header: true, columns: null}
"""


def test_a_yaml_file_describes_everything(tmp_path: Path) -> None:
    rows = "p\tq\tx\nr\ts\tz\n"
    put(tmp_path, task__yaml=YAML, **{"data/train.tsv": rows, "data/dev.tsv": rows, "data/hard.csv": "y,b,a\nz,q,p\n"})
    for name in (tmp_path, tmp_path / "task.yaml"):
        data = load_task(find_task(str(name)))
        assert (data.spec.name, data.spec.metric) == ("mine", "macro_f1")
        assert data.tests["test_hard"][0] == {"text": "p", "text_pair": "q", "label": 1}


def test_data_moves_a_yaml_tasks_files(tmp_path: Path) -> None:
    put(tmp_path / "here", task__yaml="files: {train: t.tsv, dev: u.tsv}\ntext: sentence\n")
    put(tmp_path / "there", t__tsv=TSV, u__tsv=TSV)
    assert load_task(find_task(str(tmp_path / "here"), data=tmp_path / "there")).rows == {"train": 2, "dev": 2}
    put(tmp_path / "here", task__yaml="hub: {path: a/b}\n")
    with pytest.raises(DataError, match=r"names no files to look for"):
        find_task(str(tmp_path / "here"), data=tmp_path / "there")


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("files: {train: ../t.tsv}", r"files\.train: '\.\./t\.tsv' is outside the task's folder.*train_file="),
        ("files: {dev: a/../../t.tsv}", r"files\.dev: .* is outside the task's folder"),
        ("files: {dev: /etc/passwd}", r"files\.dev: '/etc/passwd' is outside"),
        ("files: {dev: 'C:\\t.tsv'}", r"files\.dev: .* is outside"),
        ("folder: /etc", r"`folder` is not an entry"),
        ("notes: [mine]", r"`notes` is not an entry; .* as `description`"),
        ("txt: a", r"is not a valid task: txt: unknown entry"),
        ("kind: clasification", r"unknown kind 'clasification'.*Did you mean 'classification'"),
        ("metric: f2", r"unknown metric 'f2' for classification; expected one of accuracy, .*Did you mean 'f1'"),
        ("kind: regression\nmetric: accuracy", r"unknown metric 'accuracy' for regression; expected one of pearson"),
        ("label_map: {no: x, yes: y}", r"label_map: .*YAML reads the unquoted label as False; put it in quotes"),
        ("format: {header: false}", r"format: .*needs its columns named"),
        ("format: {columns: [a]}", r"columns are for files without a header"),
        ("formats: {test: {header: false}}", r"needs its columns named"),
        ("text: [a, label]", r"'label' is the label and a text, so the model would read the answer"),
        ("hub: {path: ../../x}", r"hub\.path: String should match"),
        ("- a", r"expected `name: value` lines, found list"),
        ("a: [1\nb: 2", r"task\.yaml:2 cannot be read as YAML"),
        ("a: \x00", r"task\.yaml cannot be read as YAML"),
    ],
)
def test_faults_in_a_yaml_file_are_named(tmp_path: Path, yaml: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_task(str(put(tmp_path, task__yaml=yaml)))


def test_a_task_that_names_no_data_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"names no data; add `files:` or `hub:`"):
        load_task(find_task(str(put(tmp_path, task__yaml="text: a"))))


# Flags


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ({"text": "a"}, {"text": "a"}),
        ({"text_pair": "b"}, {"text": ("#1 String", "b")}),
        ({"label": "gold"}, {"label": "gold", "label_map": None}),
        ({"kind": "regression"}, {"kind": "regression", "metric": "pearson", "label_map": None}),
        ({"metric": "accuracy"}, {"metric": "accuracy"}),
    ],
)
def test_flags_change_their_part_and_no_other(tmp_path: Path, flags: dict[str, Any], changed: dict[str, Any]) -> None:
    before, after = find_task("mrpc", data=tmp_path), find_task("mrpc", data=tmp_path, **flags)
    expected = {**before.model_dump(), **changed, "hub": after.model_dump()["hub"]}
    assert after.model_dump() == expected


def test_flags_name_the_hubs_columns_too() -> None:
    spec = find_task("mrpc", text="a", text_pair="b", label="c")
    assert (spec.text_columns, spec.label_column) == (("a", "b"), "c")


def test_a_test_file_replaces_every_test_split(tmp_path: Path) -> None:
    spec = find_task("stsb", data=tmp_path, test_file=tmp_path / "mine.tsv")
    assert spec.files == {"train": "train.tsv", "dev": "dev.tsv", "test": str(tmp_path / "mine.tsv")}
    assert spec.format_of("test").header
    with pytest.raises(UsageError, match=r"metric='f1' is unknown for regression"):
        find_task("stsb", metric="f1")
