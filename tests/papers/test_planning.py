"""From a preset to runs: what is translated, what is refused, what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.errors import RunError, UsageError
from gradgate.papers import find_preset
from gradgate.papers.planning import ReproduceRequest, ReproductionPlan, plan_full
from gradgate.papers.resources import find_resources, given_models


def on_sample(preset: str, **settings: object) -> ReproductionPlan:
    """The plan of a preset on the embedded sample."""
    return ReproduceRequest(preset, "sample", None, [], None, False, settings).plan()


def test_adapters_learn_faster_than_the_whole_model_on_the_sample() -> None:
    plan = on_sample("adaptereff-table7", lr=1e-3)
    assert {(run.config.adapter is None, run.config.peak_lr) for run in plan.runs} == {(True, 1e-3), (False, 5e-3)}


def test_the_frozen_model_runs_as_in_the_code_of_fun() -> None:
    runs = on_sample("fun-table1").runs
    assert {run.config.frozen_dropout for run in runs} == {True}
    assert {run.config.adapter and run.config.adapter.pooler for run in runs} == {"frozen"}
    assert {run.cell.adapter for run in runs} == {"pfeiffer:reduction=16"}
    wide = on_sample("adaptereff-table7").runs
    assert {run.config.adapter.pooler for run in wide if run.config.adapter} == {"trained"}


def test_pretraining_of_the_whole_model_has_a_study_of_its_own() -> None:
    plan = on_sample("adaptereff-table1")
    assert not plan.left_out
    by_study = {name: {run.cell.label for run in runs} for name, runs in plan.studies().items()}
    assert sorted(by_study.values(), key=len) == [{"Fine-tune+TAPT"}, {"Fine-tune", "Adapter-256", "Adapter-256+TAPT"}]
    whole = next(run.config for run in plan.runs if run.cell.label == "Fine-tune+TAPT")
    assert whole.tapt == {"steps": None, "epochs": 2.0}


def test_cells_with_equal_settings_share_a_study() -> None:
    plan = on_sample("graddrop-table1")
    by_dropout = {run.study: run.config.dropout for run in plan.runs}
    assert sorted(by_dropout.values(), key=str) == [0.0, 0.2]
    assert plan.count == 2 * 8
    assert all(run.config.model == "sample" and not run.config.keep_model for run in plan.runs)


def test_the_sample_stands_in_for_one_model_and_says_so() -> None:
    plan = on_sample("elsa-tableA3-base")
    assert {run.cell.model for run in plan.runs} == {"BERT-base"}
    assert any("other models are left out" in note for note in plan.notes)
    assert any("4 layers here, 12 in the paper" in note for note in plan.notes)


def test_points_that_become_the_same_run_are_run_once() -> None:
    plan = on_sample("elsa-tableB1-base")
    assert len(plan.runs) == 8
    assert plan.count < 2 * 8


def test_sizes_of_training_sets_stay_in_proportion() -> None:
    sizes = {run.cell.size: run.config.train_size for run in on_sample("adaptereff-table7").runs}
    small = {run.cell.size: run.config.train_size for run in on_sample("fun-table1").runs}
    assert sizes["1000"] is not None
    assert small["1000"] == pytest.approx(small["10000"] / 10, abs=1)  # type: ignore[operator]


def test_held_out_dev_rows_stay_in_proportion_and_leave_what_is_trained_on() -> None:
    """Of the sample's 1,600 rows and of the 1,500 of its pairs of sentences, as of 5,000 and another 1,000."""
    runs = on_sample("adaptereff-table2").runs
    sizes = {(run.config.task, run.cell.size): (run.config.train_size, run.config.dev_size) for run in runs}
    assert sizes == {
        ("sample", "1000"): (267, 266),
        ("sample", "5000"): (1333, 266),
        ("sample-nli", "1000"): (250, 250),
        ("sample-nli", "5000"): (1250, 250),
    }
    given = on_sample("adaptereff-table2", dev_size=10).runs
    assert {run.config.dev_size for run in given} == {10}


def test_a_search_has_the_seeds_of_the_runs_and_rates_in_proportion_on_the_sample() -> None:
    plan = on_sample("adaptereff-figure4")
    assert plan.search is not None
    # The sample learns at 1e-3 where the paper does at 2e-5.
    assert [setting["lr"] for setting in plan.search.settings] == [0.001, 0.002, 0.003, 0.004, 0.005]
    assert len(plan.search.seeds) == len(plan.seeds) == 2
    assert (plan.count, plan.searches) == (4 * 2 * 2, 4 * 2 * 5 * 2)  # tasks and sizes, arms, rates, seeds
    assert {run.config.adapter and str(run.config.adapter) for run in plan.runs} == {
        None,
        "houlsby:size=13",
    }  # no rate of its own


def test_a_rate_is_refused_where_rates_are_searched() -> None:
    with pytest.raises(UsageError, match=r"searches the learning rate \(lr=2e-5.*leave lr= out"):
        on_sample("adaptereff-figure4", lr=1e-3)


def test_given_settings_win() -> None:
    plan = on_sample("elsa-table4", steps=7, batch_size=4)
    assert {(run.config.steps, run.config.epochs, run.config.batch_size) for run in plan.runs} == {(7, None, 4)}


def test_what_cannot_be_had_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    preset = find_preset("elsa-table2")
    with pytest.raises(RunError) as refused:
        plan_full(preset, find_resources(preset, {}, None), [0], {}, partial=False)
    text = str(refused.value)
    assert "nothing has been started" in text
    assert "model MT-RoBERTa-base: it was never published" in text
    assert "task CoLA: " in text
    assert "scale='sample'" in text


def test_given_models_and_data_replace_those_of_the_paper(tiny_model: Path, tiny_task: Path) -> None:
    preset = find_preset("elsa-table4")
    models = given_models(preset, [f"XLM-R-base={tiny_model}"])
    folder = tiny_task.parent / "sets"
    if not folder.exists():
        folder.mkdir()
        (folder / "conll2002-nl").symlink_to(tiny_task, target_is_directory=True)
    resources = find_resources(preset, models, folder)
    assert list(resources.tasks) == ["NER nl"]
    plan = plan_full(preset, resources, [0], {"steps": 2}, partial=True)
    assert {(run.config.steps, run.config.epochs) for run in plan.runs} == {(2, None)}
    assert [run.config.method.text for run in plan.runs] == ["full", "freeze:layers=1", "freeze:layers=2"]
    assert {run.config.task for run in plan.runs} == {str(folder / "conll2002-nl")}
    assert any("NER de" in what for what in plan.left_out)
    assert any("2 here" in note for note in plan.notes)


def test_languages_without_data_are_refused_or_left_out_and_named(tmp_path: Path) -> None:
    for language in ("en", "de", "fr"):
        for split in ("train", "dev", "test") if language == "en" else ("dev", "test"):
            file = tmp_path / "paws-x" / language / f"{split}.tsv"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("a cat\ta cat\t1\na cat\ta dog\t0\n" * 4)
    preset = find_preset("graddrop-table5")
    assert find_resources(preset, {"XLM-R-Large": "sample"}, tmp_path).lacking == {
        "task PAWSX": "it has no test data in es, which partial=True leaves out"
    }
    resources = find_resources(preset, {"XLM-R-Large": "sample"}, tmp_path, partial=True)
    plan = plan_full(preset, resources, [0], {"steps": 2}, partial=True)
    assert {run.config.languages for run in plan.runs} == {"en,de,fr"}
    assert "PAWSX has no test data in es here: averages leave these languages out." in plan.notes


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (ReproduceRequest("elsa-table4", "sampel", None, [], None, False, {}), "full or sample. Did you mean 'sample'"),
        (ReproduceRequest("elsa-table4", "sample", None, ["x"], None, False, {}), "leave model= and data= out"),
        (
            ReproduceRequest("elsa-table4", "full", None, ["XLM-R-bas=x"], None, False, {}),
            "no model 'XLM-R-bas'.*'XLM-R-base'",
        ),
        (ReproduceRequest("elsa-table4", "full", None, [], Path("nowhere"), False, {}), "nowhere is not a folder"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(wish: ReproduceRequest, message: str) -> None:
    with pytest.raises((UsageError, RunError), match=message):
        wish.plan()
