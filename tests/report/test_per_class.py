"""The scores of each class in the report, computed from the prediction files of the runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gradgate.report import ComposedReport, write_report
from gradgate.report.sections.per_class import PerClassSection
from gradgate.study.results import read_study
from support.study_folder import write_study

SCORES = {"full": [0.5, 0.5], "gradual:every=40": [0.7, 0.7]}


def predict(study: Path, labels: list[str], answers: dict[str, dict[int, str]], split: str = "test") -> None:
    """Write what each run predicts: of each label one row; ``answers`` has method -> seed -> predictions."""
    methods = json.loads((study / "study.json").read_text())["methods"]
    for method, seeds in answers.items():
        for seed, found in seeds.items():
            folder = study / "runs" / f"method-{methods.index(method)}" / f"seed-{seed}" / "predictions"
            folder.mkdir(exist_ok=True)
            rows = zip(labels, found.split(), strict=True)
            lines = [json.dumps({"gold": gold, "predicted": own}) for gold, own in rows]
            (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    counts = {"labels": ["no", "yes"], "train_counts": {"no": 90, "yes": 10}}
    folder = write_study(tmp_path / "study", seeds=(0, 1), scores=SCORES, **counts)
    right, wrong = "no no no yes", "no no yes no"
    answers = {"full": {0: "no no no no", 1: "no no no no"}, "gradual:every=40": {0: right, 1: wrong}}
    predict(folder, ["no", "no", "no", "yes"], answers)
    return folder


def read(study: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((study / f"tables/{table}.csv").read_text().splitlines()))


def test_each_class_of_the_best_arm(study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    write_report(study)
    no, yes = read(study, "classes")
    assert (no["method"], no["label"], no["train"], no["support"]) == ("gradual:every=40", "no", "90", "3.0")
    assert float(no["f1"]) == pytest.approx((1 + 2 / 3) / 2)
    assert [float(yes[name]) for name in ("precision", "recall", "f1", "reference_f1")] == [0.5, 0.5, 0.5, 0.0]
    confused = {(row["label"], row["predicted"]): row["rows"] for row in read(study, "confusion")}
    assert confused == {("no", "no"): "5", ("no", "yes"): "1", ("yes", "no"): "1", ("yes", "yes"): "1"}


def test_counts_of_a_train_split_that_was_not_all_used_say_so(study: Path) -> None:
    record = json.loads((study / "study.json").read_text())
    for settings, title in (({}, "In train (rows)"), ({"train_size": 8}, "In all of train (rows)")):
        (study / "study.json").write_text(json.dumps(record | {"settings": record["settings"] | settings}))
        section = PerClassSection.find(ComposedReport.of(read_study(study)).study)
        assert section is not None
        assert title in [column.title for column in section.tables()[0].columns]


def test_the_page_has_it_folded(study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    page = write_report(study).html.read_text(encoding="utf-8")
    title = "Confusion matrix: gradual:every=40, test"
    assert f"<details>\n<summary>{title}</summary>" in page
    assert '<td class="n heat" style="--heat: 83%" data-value="0.8333333333333334"><span>83%</span>' in page


def test_many_labels_show_the_usual_errors(tmp_path: Path) -> None:
    labels = [f"c{number:02}" for number in range(60)]
    folder = write_study(tmp_path / "study", seeds=(0,), methods=("full",), scores={"full": [0.5]}, labels=labels)
    predict(folder, labels, {"full": {0: " ".join(["c00", "c00", *labels[2:]])}})
    section = PerClassSection.find(ComposedReport.of(read_study(folder)).study)
    assert section is not None
    classes, confusion = section.tables()
    assert (len(classes.rows), len(classes.records)) == (50, 60)
    assert [entry.text for entry in confusion.rows[0]] == ["c01", "c00", "100%"]
    assert (len(confusion.rows), len(confusion.records)) == (20, 3600)


def test_several_labels_have_no_confusion(tmp_path: Path) -> None:
    folder = write_study(
        tmp_path / "study", seeds=(0,), methods=("full",), scores={"full": [0.5]}, kind="multi-label", labels=["a", "b"]
    )
    predict(folder, [["a"], ["a", "b"], []], {"full": {0: "a a a"}})  # type: ignore[list-item]
    section = PerClassSection.find(ComposedReport.of(read_study(folder)).study)
    assert section is not None
    assert [table.name for table in section.tables()] == ["classes"]


@pytest.mark.parametrize("content", ["{}\n", "no JSON\n", '{"gold": "no", "predicted": "maybe"}\n', b"\xff\xfe"])
def test_damaged_predictions_are_said(content: str | bytes, study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    for file in study.rglob("test.jsonl"):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    page = write_report(study).html.read_text(encoding="utf-8")
    assert "The scores of each class of full cannot be computed" in page


@pytest.mark.parametrize("task", [{"kind": "regression", "labels": None}, {}])
def test_other_studies_have_no_such_section(task: dict[str, object], tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", scores=SCORES, **task)
    assert PerClassSection.find(ComposedReport.of(read_study(folder)).study) is None
