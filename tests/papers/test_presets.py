"""The papers' tables as data: whole, as printed; every row of a preset can be run, and has its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.methods import method as read_method
from gradgate.papers import Preset, TableEntry, find_preset, papers, presets, read_table, stated_settings
from gradgate.papers.preset import read_presets
from gradgate.papers.published import FOLDER, TABLES
from gradgate.settings.arms.adapter import AdapterSetting, read_adapter
from gradgate.settings.run import RunConfig
from gradgate.tasks.catalog import entries

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
def test_every_cell_of_a_table_has_a_published_number_and_none_of_a_figure(preset: Preset) -> None:
    printed = {bool(cell.published()) for cell in preset.cells()}
    assert printed == {not preset.is_figure} == {not preset.table.startswith("Fig.")}


@ALL
def test_no_published_number_belongs_to_two_cells(preset: Preset) -> None:
    numbers = [id(number) for c in preset.cells() for number in c.published()]
    assert len(numbers) == len(set(numbers))


@ALL
def test_every_cell_can_be_typed(preset: Preset) -> None:
    for each in preset.cells():
        read_method(each.method)
        if each.adapter is not None:
            assert isinstance(read_adapter(each.adapter), AdapterSetting)
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
    setting = read_adapter(adapter)
    assert setting is not None
    assert setting.lr == float(_hyperparameters(f"Table 10: {kind} adapter")["learning_rate"])


def test_pretraining_on_the_tasks_texts_is_that_of_the_cited_work() -> None:
    whole = cell("adaptereff-table1", "RoBERTa-base", "rct", "full", "Fine-tune+TAPT").settings
    assert (whole["tapt_epochs"], whole["tapt_batch"]) == (100, 256)
    adapter = cell("adaptereff-table1", "RoBERTa-base", "rct", "full", "Adapter-256+TAPT").adapter
    setting = read_adapter(adapter)
    assert setting is not None
    assert (setting.tapt_epochs, setting.tapt_batch) == (100, 256)


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
    rows = [stated for paper in papers() for stated in stated_settings(paper)]
    return {row.name: row.value for row in rows if row.setting.partition(" (")[0] == setting}


BY_LANGUAGE = {
    ("graddrop", "XNLI"): "graddrop_table01",
    ("graddrop", "NC"): "graddrop_table02",
    ("graddrop", "QAM"): "graddrop_table03",
    ("graddrop", "QADSM"): "graddrop_table04",
    ("graddrop", "PAWSX"): "graddrop_table05",
    ("graddrop", "NER"): "graddrop_table06",
    ("graddrop", "POS"): "graddrop_table07",
    ("graddrop", "WPR"): "graddrop_table08",
    ("graddrop", "MLQA"): "graddrop_table09",
    ("fun", "MLQA"): "fun_table08",
    ("fun", "XQuAD"): "fun_table08",
    ("fun", "XCOPA"): "fun_table09",
    ("fun", "XNLI"): "fun_table10",
    ("adaptereff", "POS"): "adaptereff_table12",
    ("adaptereff", "NER"): "adaptereff_table13",
    ("adaptereff", "XNLI"): "adaptereff_table14",
}
"""The table that prints every language behind an average of a paper."""


@ALL
def test_averages_run_over_the_languages_that_are_printed(preset: Preset) -> None:
    for label, task in preset.tasks.items():
        table = BY_LANGUAGE.get((preset.paper, label))
        if table is None:
            assert len(task.languages) <= 1, label
            continue
        printed = {row.language for row in read_table(table) if row.task == label} - {"avg"}
        assert set(task.languages) == printed, label
        assert {c.settings["languages"] for c in preset.cells() if c.task == label} == {",".join(task.languages)}


@pytest.mark.parametrize(
    ("paper", "task", "count"),
    [
        ("graddrop", "PAWSX", 4),
        ("graddrop", "POS", 18),
        ("fun", "XNLI", 12),
        ("fun", "XQuAD", 11),
        ("adaptereff", "POS", 33),
        ("adaptereff", "NER", 40),
    ],
)
def test_as_many_languages_are_scored_as_are_known_to_be_printed(paper: str, task: str, count: int) -> None:
    tasks = [preset.tasks[task] for preset in presets().values() if preset.paper == paper and task in preset.tasks]
    assert {len(each.languages) for each in tasks} == {count}  # with English


@ALL
def test_languages_are_those_of_the_catalogue(preset: Preset) -> None:
    for task in preset.tasks.values():
        known = entries().get(task.task)
        if known is not None:
            unknown = set(task.languages) - set(known.spec.languages) - {known.spec.source}
            assert not unknown, (task.task, unknown)


GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


@ALL
def test_glue_is_scored_on_the_dev_sets_that_the_papers_print(preset: Preset) -> None:
    own = "original_dev" if preset.settings.get("dev_size") else "dev"
    for label, task in preset.tasks.items():
        if task.task in GLUE:
            assert task.split == ("mismatched" if "mm" in label else own), label
        else:
            assert task.split is None, label


def test_glue_with_few_examples_is_selected_on_1000_others_of_train() -> None:
    small = {name for name, preset in presets().items() if preset.paper == "adaptereff" and "1000" in preset.sizes}
    assert small == {"adaptereff-table2", "adaptereff-table7", "adaptereff-figure4"}
    cells = [each for name in small for each in find_preset(name).cells()]
    assert all(each.settings["train_size"] + each.settings["dev_size"] <= each.paper_task.rows for each in cells)
    fewer = {(each.task, each.size): each.settings["dev_size"] for each in cells if each.settings["dev_size"] != 1000}
    assert fewer == {("sts-b", "5000"): 749}


OURS = {
    "MCC": {"matthews"},
    "accuracy": {"accuracy"},
    "F1": {"f1", "entity_f1"},
    "EM": {"exact_match"},
    "micro-F1": {"micro_f1"},
    "macro-F1": {"macro_f1"},
    "nDCG": {"ndcg"},
    "spearman": {"spearman"},
    "spearman_or_pearson_rho": {"spearman", "pearson"},
    "mean": {"accuracy"},  # of Table 5, over languages of XNLI
}


@ALL
def test_the_metric_is_the_printed_one(preset: Preset) -> None:
    for each in preset.cells():
        for number in each.published():
            known = entries().get(each.paper_task.task)
            if preset.metrics or known is None:
                continue
            ours = each.metric_of(number) or known.spec.metric
            if (preset.paper, each.task, number.metric) == ("graddrop", "POS", "F1"):
                assert ours == "accuracy"  # the micro-averaged F1 of tags, one for each word
            else:
                assert ours in OURS[number.metric], (each.task, number.metric)


@ALL
def test_warm_up_and_its_source_are_said(preset: Preset) -> None:
    assert {each.settings["warmup"] for each in preset.cells()} == {0.0}
    stated = {row.name: row.value for row in stated_settings(preset.paper)}
    said = any("arm-up" in note for note in preset.notes)
    assert said or stated.get("warmup_steps") == "0"
