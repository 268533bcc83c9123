"""The papers' tables as data: whole, as printed, and every row of a preset can be run and has its number."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from gradgate.adapters.config import adapter_config
from gradgate.errors import UsageError
from gradgate.methods import method as read_method
from gradgate.papers import Preset, TableEntry, find_preset, papers, presets, read_table
from gradgate.papers.preset import read_presets
from gradgate.papers.published import FOLDER, TABLES
from gradgate.training.adapter_setting import read_choice
from gradgate.training.config import RunConfig

ALL = pytest.mark.parametrize("preset", presets().values(), ids=list(presets()))


def cell(name: str, *labels: str) -> TableEntry:
    """A cell by model, task, size and method."""
    found = [c for c in find_preset(name).cells() if (c.model, c.task, c.size, c.label) == labels]
    assert len(found) == 1
    return found[0]


def test_the_tables_are_the_shared_ones_byte_by_byte(shared: Path) -> None:
    for file in [FOLDER / "hyperparameters.csv", *TABLES.glob("*.csv")]:
        there = shared / "papers" / file.relative_to(FOLDER)
        assert file.read_bytes() == there.read_bytes(), file.name


def test_every_paper_has_the_table_that_its_issue_names() -> None:
    assert set(papers()) == {preset.paper for preset in presets().values()}
    assert {"elsa-table4", "graddrop-table1", "fun-table2", "adaptereff-table1"} <= set(presets())


@ALL
def test_every_cell_has_a_published_number(preset: Preset) -> None:
    lacking = [(c.model, c.task, c.size, c.label) for c in preset.cells() if not c.published()]
    assert not lacking


@ALL
def test_no_published_number_belongs_to_two_cells(preset: Preset) -> None:
    numbers = [id(number) for c in preset.cells() for number in c.published()]
    assert len(numbers) == len(set(numbers))


@ALL
def test_every_cell_can_be_typed(preset: Preset) -> None:
    for each in preset.cells():
        read_method(each.method)
        if each.adapter is not None:
            adapter_config(read_choice(each.adapter).kind)
        assert each.steps() > 0
        assert set(each.settings) <= set(RunConfig.model_fields)


def test_a_cell_has_the_settings_and_the_number_of_the_paper() -> None:
    one = cell("fun-table2", "XLM-R", "XQuAD", "full", "Ada+FUN")
    assert (one.method, one.adapter) == ("fun:every=100,batches=40", "pfeiffer:reduction=16")
    assert (one.settings["epochs"], one.settings["lr"], one.settings["schedule"]) == (15, 5e-4, "constant")
    assert {(n.language, n.metric): n.value for n in one.published()}["avg", "F1"] == 72.34
    assert cell("fun-table2", "XLM-R", "XQuAD", "full", "Ada").settings["lr"] == 2e-4
    assert cell("elsa-table4", "XLM-R-base", "NER en", "full", "frozen 8/12").published()[0].value == 0.87
    assert cell("elsa-tableA3-base", "RoBERTa-base", "CoLA", "full", "baseline").settings["epochs"] == 10
    assert cell("fun-table1", "mBERT", "XNLI", "5000", "Ada+GU").settings["train_size"] == 5000
    assert cell("graddrop-table1", "XLM-R-Large", "XNLI", "full", "GradDrop").settings["dropout"] == 0.0


@pytest.mark.parametrize(
    ("setting", "preset", "labels"),
    [
        ("Table 3: SQuAD/mBERT", "fun-table2", ("mBERT", "MLQA", "full", "Ada+FUN")),
        ("Table 3: SQuAD/XLM-R", "fun-table2", ("XLM-R", "MLQA", "full", "Ada+FUN")),
        ("Table 3: MultiNLI/mBERT", "fun-table2", ("mBERT", "XNLI", "full", "Ada+FUN")),
        ("Table 3: MultiNLI/XLM-R", "fun-table2", ("XLM-R", "XNLI", "full", "Ada+FUN")),
        ("Table 3: COPA/mBERT", "fun-table2", ("mBERT", "XCOPA", "full", "Ada+FUN")),
        ("Table 3: COPA/XLM-R", "fun-table2", ("XLM-R", "XCOPA", "full", "Ada+FUN")),
        ("Table 10: TAE fine-tune", "adaptereff-table1", ("RoBERTa-base", "rct", "full", "Fine-tune")),
        ("Table 10: GLUE fine-tune", "adaptereff-table2", ("BERT-base", "cola", "1000", "Fine-tune")),
        ("Table 11: POS fine-tune", "adaptereff-table3", ("XLM-R-large", "POS", "full", "Fine-tune")),
        ("Table 11: XNLI fine-tune", "adaptereff-table3", ("XLM-R-large", "XNLI", "full", "Fine-tune")),
        ("NER", "elsa-table4", ("XLM-R-base", "NER de", "full", "baseline")),
    ],
)
def test_settings_agree_with_the_list_of_hyperparameters(setting: str, preset: str, labels: tuple[str, ...]) -> None:
    listed = _hyperparameters(setting)
    one = cell(preset, *labels)
    checked = 0
    for name, ours in (
        ("epochs", "epochs"),
        ("batch_size", "batch_size"),
        ("learning_rate", "lr"),
        ("dropout", "dropout"),
    ):
        if name in listed and ours in one.settings:
            assert float(listed[name].split(" ")[0]) == one.settings[ours], name
            checked += 1
    if "k_FUN" in listed:
        assert f"every={listed['k_FUN']}," in one.method
    assert checked >= 1


@pytest.mark.parametrize("kind", ["TAE", "GLUE"])
def test_rates_of_adapters_agree_with_the_list(kind: str) -> None:
    adapter = cell(
        *{
            "TAE": ("adaptereff-table1", "RoBERTa-base", "rct", "full", "Adapter-256"),
            "GLUE": ("adaptereff-table2", "BERT-base", "cola", "1000", "Adapter-64"),
        }[kind]
    ).adapter
    assert adapter is not None
    assert read_choice(adapter).lr == float(_hyperparameters(f"Table 10: {kind} adapter")["learning_rate"])


def test_flaws_of_print_stay_as_they_are() -> None:
    epoch = [row for row in read_table("graddrop_table01") if (row.method, row.language) == ("GradDrop-Epoch", "avg")]
    assert [row.value for row in epoch] == [79.94]
    assert "80.60" in epoch[0].note


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no preset 'elsa-tabel4'.*'elsa-table4'"):
        find_preset("elsa-tabel4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds"),
        ({"data": ["elsa_table99"]}, "elsa_table99"),
        ({"metod": {}}, "metod"),
        ({"cases": [{"models": ["XLM-R"]}]}, "'XLM-R'"),
    ],
)
def test_a_preset_with_a_fault_is_refused_with_its_place(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    import yaml

    entry: dict[str, Any] = {
        "title": "a table",
        "table": "4",
        "data": ["elsa_table04"],
        "models": {"XLM-R-base": {"layers": 12}},
        "tasks": {"NER": {"task": "conll2003", "rows": 100}},
        "methods": {"baseline": "full"},
        "seeds": 1,
    }
    file = tmp_path / "elsa.yaml"
    file.write_text(yaml.safe_dump({"presets": {"elsa-x": entry | change}}))
    with pytest.raises(UsageError, match=message):
        read_presets(file)


def _hyperparameters(setting: str) -> dict[str, str]:
    with (FOLDER / "hyperparameters.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["setting"].partition(" (")[0] == setting]
    return {row["name"]: row["value"] for row in rows}
