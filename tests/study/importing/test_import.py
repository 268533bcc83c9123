"""Results of other programs become a study: what is read, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.analysis.runs import find_runs
from gradgate.errors import DataError, RunError, UsageError
from gradgate.report.sections import find_cautions, find_sections
from gradgate.report.study_summary import summarize_study
from gradgate.settings.base import checked_settings
from gradgate.settings.imports import ImportSettings
from gradgate.study.best_run import best_run
from gradgate.study.export import records
from gradgate.study.imported import refuse_training
from gradgate.study.importing.judgeable import read_judgeable
from gradgate.study.results import read_study
from gradgate.study.row_noise import row_verdicts, with_row_noise
from gradgate.study.verdicts import verdicts_of
from support.imported_tables import LONG, imported, scores_of, write_csv


def as_json_lines(path: Path) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in LONG))
    return path


def as_json(path: Path) -> Path:
    path.write_text(json.dumps(LONG))
    return path


def as_gzip(path: Path) -> Path:
    plain = write_csv(path.with_suffix(""), LONG)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


def as_parquet(path: Path) -> Path:
    from pyarrow import Table
    from pyarrow.parquet import write_table

    write_table(Table.from_pylist(LONG), path)
    return path


def as_wide(path: Path) -> Path:
    rows: dict[str, dict[str, Any]] = {}
    for row in LONG:
        rows.setdefault(row["arm"], {"method": row["arm"]})[f"seed_{row['seed']}"] = row["score"]
    return write_csv(path, list(rows.values()))


def as_metrics(path: Path) -> Path:
    renamed = [{"method": row["arm"], "seed": row["seed"], "test_accuracy": row["score"], "lr": 0.1} for row in LONG]
    return write_csv(path, renamed)


def as_wandb(path: Path) -> Path:
    rows = [
        {"Name": f"{row['arm']}-seed{row['seed']}", "State": "finished", "Runtime": 9, "test/accuracy": row["score"]}
        for row in LONG
    ]
    return write_csv(path, [*rows, {"Name": "full-seed9", "State": "crashed", "Runtime": 1, "test/accuracy": 0.1}])


def as_trackio(path: Path) -> Path:
    rows = [
        {"run_name": f"{row['arm']}-seed{row['seed']}", "timestamp": "t", "step": step, "eval/accuracy": value}
        for row in LONG
        for step, value in ((1, 0.1), (2, row["score"]))
    ]
    return write_csv(path, rows)


def as_typed(path: Path, header: str, line: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("\r\n".join([header, *(line.format(**row) for row in LONG), ""]).encode(encoding))
    return path


def as_spreadsheet(path: Path, header: str, delimiter: str) -> Path:
    lines = [f"{row['arm']}{delimiter}{row['seed']}{delimiter}{row['score']:.2f}" for row in LONG]
    path.write_text("\r\n".join([header, *lines, 2 * delimiter]).replace(".", ","), newline="")
    return path


def as_pivot(path: Path) -> Path:
    rows: dict[str, dict[str, Any]] = {}
    for row in LONG:
        rows.setdefault(row["arm"], {"method": row["arm"]})[str(row["seed"])] = row["score"]
    return write_csv(path, list(rows.values()))


FORMS = {
    "sep.csv": lambda path: as_spreadsheet(path, "sep=;\r\narm;seed;accuracy", ";"),
    "decimal_commas.tsv": lambda path: as_spreadsheet(path, "\r\narm\tseed\taccuracy", "\t"),
    "percent.csv": lambda path: as_typed(path, "arm,seed,accuracy", "{arm},{seed},{score:.1%}"),
    "utf_16.csv": lambda path: as_typed(path, "arm,seed,accuracy", "{arm},{seed},{score}", "utf-16"),
    "unnamed_columns.csv": lambda path: as_typed(path, ",arm,seed,accuracy,,", "7,{arm},{seed},{score},,"),
    "pivot.csv": as_pivot,
    "r.csv": lambda path: write_csv(path, LONG),
    "r.tsv": lambda path: write_csv(path, LONG, "\t"),
    "semicolons.csv": lambda path: write_csv(path, LONG, ";"),
    "r.csv.gz": as_gzip,
    "r.jsonl": as_json_lines,
    "r.json": as_json,
    "r.parquet": as_parquet,
    "a_column_per_seed.csv": as_wide,
    "a_column_per_metric.csv": as_metrics,
    "wandb.csv": as_wandb,
    "trackio.csv": as_trackio,
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_give_the_same_scores(tmp_path: Path, name: str) -> None:
    found = imported(FORMS[name](tmp_path / name), tmp_path / "study")
    assert found.arms == ("full", "lora:r=8", "ours (v2) + tricks")
    assert scores_of(tmp_path / "study") == {
        "full": [0.7, 0.71, 0.72, 0.73],
        "lora:r=8": [0.75, 0.76, 0.77, 0.78],
        "ours (v2) + tricks": [0.6, 0.61, 0.62, 0.63],
    }


def test_own_exports_come_back(tmp_path: Path) -> None:
    write_csv(tmp_path / "r.csv", [{**row, "task": "toy", "model": "tiny", "split": "test"} for row in LONG])
    imported(tmp_path / "r.csv", tmp_path / "first")
    (tmp_path / "export.json").write_text(json.dumps(records(tmp_path / "first")))
    imported(tmp_path / "export.json", tmp_path / "second")
    assert scores_of(tmp_path / "first") == scores_of(tmp_path / "second")


def test_trainer_states_are_curves(tmp_path: Path) -> None:
    for seed in range(2):
        folder = tmp_path / "runs" / f"lora-seed{seed}" / "checkpoint-20"
        folder.mkdir(parents=True)
        history = [{"eval_accuracy": value, "step": step} for step, value in ((10, 0.5), (20, 0.6 + seed / 10))]
        state = {"global_step": 20, "log_history": history}
        (folder / "trainer_state.json").write_text(json.dumps(state))
        (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
        (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": []}))
    imported(tmp_path / "runs", tmp_path / "study")
    runs = read_study(tmp_path / "study").cells
    assert [(run.arm.name, run.seed, run.score("dev")) for run in runs] == [("lora", 0, 0.6), ("lora", 1, 0.7)]
    assert [record.step for record in runs[0].history] == [10, 20]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(DataError, match=r"config\.json is JSON of an unknown form"):
        imported(tmp_path / "model", tmp_path / "study")
    write_csv(tmp_path / "r.csv", LONG)
    imported(tmp_path / "r.csv", tmp_path / "study")
    with pytest.raises(DataError, match=r"is a study of gradgate and needs no import.*study verdicts"):
        imported(tmp_path / "study", tmp_path / "again")


def test_the_last_checkpoint_of_a_run_has_its_whole_history(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "lora-seed0"
    for last in (100, 90, 20):
        folder = run / f"checkpoint-{last}"
        folder.mkdir(parents=True)
        history = [{"eval_accuracy": step / 200, "step": step} for step in range(10, last + 1, 10)]
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": last, "log_history": history}))
    imported(tmp_path / "runs", tmp_path / "study")
    (found,) = read_study(tmp_path / "study").cells
    assert [record.step for record in found.history] == list(range(10, 101, 10))


def test_harness_scores_are_per_task(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for model, value in (("base", 0.4), ("tuned", 0.5)):
        content = {
            "results": {"arc": {"acc,none": value, "acc_stderr,none": 0.01}, "gsm": {"exact_match,strict": value}},
            "config": {"model_args": f"pretrained={model}"},
            "n-samples": {"arc": {"effective": 100}},
        }
        (tmp_path / "results" / f"{model}.json").write_text(json.dumps(content))
    found = imported(tmp_path / "results", tmp_path / "study", reference="base")
    assert (found.arms, found.tasks) == (("base", "tuned"), ("arc", "gsm"))
    assert scores_of(tmp_path / "study")["tuned"] == [0.5, 0.5]


@pytest.mark.parametrize("metric", ["bits_per_byte", "mystery"])
def test_the_harness_says_which_scores_are_better(metric: str, tmp_path: Path) -> None:
    for arm, seed, value in (("full", 0, 0.70), ("full", 1, 0.71), ("lora", 0, 0.65), ("lora", 1, 0.66)):
        content = {
            "results": {"wikitext": {f"{metric},none": value}},
            "higher_is_better": {"wikitext": {metric: False}},
            "config": {"random_seed": seed},
            "model_name": arm,
        }
        (tmp_path / f"{arm}{seed}.json").write_text(json.dumps(content))
    found = imported(tmp_path, tmp_path / "study")
    task = read_study(tmp_path / "study").study.task
    assert (task.metric, task.metric_higher_is_better) == (metric, False)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("metric", "higher", "says"),
    [
        ("cross_entropy", False, False), ("brier_score", False, False), ("latency", False, False),
        ("eval_loss", False, False), ("macro f1", True, False), ("quality", True, True),
    ],
)  # fmt: skip
def test_the_name_of_a_metric_says_which_scores_are_better_or_a_note_does(
    metric: str, higher: bool, says: bool, tmp_path: Path
) -> None:
    rows = [{**row, "metric": metric} for row in LONG]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert read_study(tmp_path / "study").study.task.metric_higher_is_better == higher
    note = f"Higher scores are taken to be better for {metric}, as the name does not say."
    assert any(each.startswith(note) for each in found.notes) == says
    stated = imported(tmp_path / "r.csv", tmp_path / "stated", lower_is_better=True)
    assert stated.notes == ()


def test_percent_is_stored_as_shares(tmp_path: Path) -> None:
    rows = [{"arm": row["arm"], "seed": row["seed"], "accuracy": row["score"] * 100} for row in LONG]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study")["full"] == pytest.approx([0.7, 0.71, 0.72, 0.73])


def test_an_arm_that_failed_has_low_scores_in_percent(tmp_path: Path) -> None:
    rows = [{"arm": row["arm"], "seed": row["seed"], "accuracy": row["score"] * 100} for row in LONG]
    failed = [
        {"arm": "failed", "seed": row["seed"], "accuracy": score}
        for row, score in zip(LONG[:3], [0.0, 0.1, 0.2], strict=True)
    ]
    imported(write_csv(tmp_path / "r.csv", [*rows, *failed]), tmp_path / "study")
    assert scores_of(tmp_path / "study")["failed"] == pytest.approx([0.0, 0.001, 0.002])


def test_scores_in_shares_and_in_percent_are_refused(tmp_path: Path) -> None:
    shares = [{"arm": "full", "seed": seed, "accuracy": 0.8 + seed / 100} for seed in range(3)]
    percent = [{"arm": "lora", "seed": seed, "accuracy": 78.0 + seed} for seed in range(4)]
    files = [write_csv(tmp_path / "a.csv", shares), write_csv(tmp_path / "b.csv", percent)]
    with pytest.raises(DataError, match=r"partly percent: 0.8 in a.csv line 2, and 78 in b.csv line 2"):
        imported(files, tmp_path / "study")
    typo = [*shares, {"arm": "full", "seed": 3, "accuracy": 8.2}]
    with pytest.raises(DataError, match=r"and 8.2 in .*line 5. Correct the one that is wrong"):
        imported(write_csv(tmp_path / "c.csv", typo), tmp_path / "study")


def test_numbers_between_semicolons_may_have_a_decimal_comma(tmp_path: Path) -> None:
    rows = [f"{row['arm']};{row['seed']};{row['score']}".replace(".", ",") for row in LONG]
    (tmp_path / "r.csv").write_text("\n".join(["arm;seed;accuracy", *rows]))
    imported(tmp_path / "r.csv", tmp_path / "study")
    assert scores_of(tmp_path / "study")["full"] == [0.7, 0.71, 0.72, 0.73]


def test_losses_are_lower_better(tmp_path: Path) -> None:
    rows = [{"arm": row["arm"], "seed": row["seed"], "test_loss": 10 * row["score"]} for row in LONG]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    task = read_study(tmp_path / "study").study.task
    assert (task.metric, task.metric_higher_is_better) == ("loss", False)


REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "two scores of one run": ([*LONG, {**LONG[0], "score": 0.9}], {}, "line 2 and .* line 14 both have .* full"),
    "what two scores differ in": (
        [{**row, "family": family} for family in "ab" for row in LONG], {}, r"They differ in family \(a, b\)"
    ),
    "no column of scores": ([{"arm": "a", "seed": 1}], {}, "no column has scores; the columns are arm, seed"),
    "no column of arms": ([{"x": "a", "score": 1}], {}, "no column names what to compare; the columns are x, score"),
    "a column that is not there": (LONG, {"arm": "metod"}, "arm='metod': r.csv has no such column"),
    "a reference that is not there": (LONG, {"reference": "ful"}, "reference='ful' is not an arm. Did you mean 'full'"),
    "two columns of one metric": (
        [{"arm": "a", "accuracy": 1, "Accuracy": 0}], {}, r"two columns with the accuracy of a .* Name the one to read"
    ),
    "one column": ([{"arm seed": "a 0"}], {}, "separate them with commas"),
    "no score in any row": ([{"arm": "a", "score": ""}, {"arm": "b", "score": "x"}], {}, "No row has a usable score"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(tmp_path: Path, what: str) -> None:
    rows, columns, message = REFUSED[what]
    with pytest.raises((UsageError, DataError), match=message):
        imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study", **columns)
    assert not (tmp_path / "study").exists()


DAMAGED = {
    "r.csv": ("arm,score\na,1,2\n", "line 2: 3 cells in 2 columns"),
    "twice.csv": ("arm,arm\na,1\n", "two columns named 'arm'"),
    "empty.csv": ("", "no header"),
    "header.csv": ("arm,accuracy\n", "It has no rows"),
    "book.xlsx": ("PK\x03\x04", "Save the sheet with the results as CSV"),
    "r.jsonl": ('{"arm": "a", "score": 1}\n{"arm": \n', "line 2"),
    "r.json": ('{"what": 1}', "JSON of an unknown form"),
    "broken.json": ("{", "cannot be read as JSON"),
    "r.parquet": ("no parquet", "cannot be read as Parquet"),
    "r.csv.gz": ("no gzip", "cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    content, message = DAMAGED[name]
    (tmp_path / name).write_text(content)
    with pytest.raises((DataError, UsageError), match=f"{name}.*{message}"):
        imported(tmp_path / name, tmp_path / "study")


def test_other_files_are_refused_later(tmp_path: Path) -> None:
    first = imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study")
    assert imported(tmp_path / "r.csv", tmp_path / "study") == first
    write_csv(tmp_path / "r.csv", LONG[:4])
    with pytest.raises(RunError, match="holds an import of other files"):
        imported(tmp_path / "r.csv", tmp_path / "study")


def test_other_columns_are_refused_later(tmp_path: Path) -> None:
    rows = [{**row, "family": "a"} for row in LONG]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    with pytest.raises(RunError, match="an import of these files with other columns"):
        imported(tmp_path / "r.csv", tmp_path / "study", task="family")


SEVERAL = [
    {**row, "task": task, "split": split, "epoch": epoch, "seconds": 3, "accuracy": row["score"] + epoch / 1000}
    for row in LONG
    for task in ("sst2", "cola")
    for split in ("dev", "test")
    for epoch in (1, 2)
]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (LONG, {}),
        (LONG, {"pair": "none", "reference": "lora:r=8"}),
        (SEVERAL, {"score": ("accuracy",), "cost": ("seconds",)}),
        ([{**row, "train_size": 10 + row["seed"] % 2} for row in LONG], {}),
    ],
    ids=["one condition", "unpaired", "several tasks", "training sizes"],
)
def test_results_are_judged_unwritten_as_the_written_study_is(
    tmp_path: Path, rows: list[dict[str, Any]], columns: dict[str, Any]
) -> None:
    file = write_csv(tmp_path / "r.csv", rows)
    found = read_judgeable(file, checked_settings(ImportSettings, columns))
    judged = [each for part in found.conditions for each in with_row_noise(part, verdicts_of(part))]
    assert not (tmp_path / "study").exists()
    written = imported(file, tmp_path / "study", **columns)
    assert found.imported == written
    by_place = sorted((each.record() for each in judged), key=json.dumps)
    assert by_place == sorted((each.record() for each in row_verdicts(tmp_path / "study")), key=json.dumps)
    again = read_judgeable(tmp_path / "study", ImportSettings())
    assert (again.arms, again.warnings) == (found.arms, found.warnings)


@pytest.mark.parametrize("metric", ["acc", "f1"])
def test_a_metric_that_no_score_has_is_refused(tmp_path: Path, metric: str) -> None:
    rows = [{"arm": row["arm"], "seed": row["seed"], "accuracy": row["score"]} for row in LONG]
    with pytest.raises(UsageError, match=f"metric='{metric}': no score has this metric.* Metrics: accuracy"):
        imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study", metric=metric)
    assert imported(tmp_path / "r.csv", tmp_path / "study", metric="accuracy").arms[0] == "full"


def test_a_metric_names_scores_without_one(tmp_path: Path) -> None:
    imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study", metric="bleu")
    assert read_study(tmp_path / "study").study.task.metric == "bleu"


def test_a_study_has_its_own_columns(tmp_path: Path) -> None:
    imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study")
    with pytest.raises(UsageError, match=r"needs no columns\. Leave out arm="):
        read_judgeable(tmp_path / "study", ImportSettings(arm=("arm",)))


def test_an_import_that_was_cut_off_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RunError("no space")

    write_csv(tmp_path / "r.csv", LONG)
    with monkeypatch.context() as patch:
        patch.setattr("gradgate.study.importing.condition.write_imported", fail)
        with pytest.raises(RunError, match="no space"):
            imported(tmp_path / "r.csv", tmp_path / "study")
    imported(tmp_path / "r.csv", tmp_path / "study")
    assert scores_of(tmp_path / "study")["full"] == [0.7, 0.71, 0.72, 0.73]


def test_a_cost_without_a_place_is_said(tmp_path: Path) -> None:
    rows = [{**row, "seconds": 3, "kilowatts": 2} for row in LONG]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study", cost=("seconds", "kilowatts"))
    assert [note for note in found.notes if note.startswith("kilowatts: left out")]
    run = read_study(tmp_path / "study").cells[0]
    assert run.scores is not None
    assert run.scores.cost.seconds_total == 3


def test_left_out_rows_have_reasons(tmp_path: Path) -> None:
    rows = [*LONG, {"arm": "", "seed": 0, "score": 1}, {"arm": "a", "seed": 0, "score": ""}]
    found = imported(write_csv(tmp_path / "r.csv", [*rows, {"arm": "b", "seed": 0, "score": "inf"}]), tmp_path / "s")
    assert (found.rows_read, found.rows_kept) == (15, 12)
    assert found.left_out == {"no arm": 1, "no score": 1, "score is not finite": 1}


def test_blank_lines_and_repeated_headers_are_no_rows(tmp_path: Path) -> None:
    header = {name: name for name in LONG[0]}
    found = imported(write_csv(tmp_path / "r.csv", [*LONG[:5], header, *LONG[5:], {}]), tmp_path / "study")
    assert (found.rows_read, found.left_out, found.warnings) == (12, {}, ())


def test_rows_that_summarize_runs_are_left_out(tmp_path: Path) -> None:
    means = [{"arm": "full", "seed": "mean", "score": 0.7}, {"arm": "Average", "seed": "", "score": 0.7}]
    found = imported(write_csv(tmp_path / "r.csv", [*LONG, *means]), tmp_path / "study")
    assert found.left_out == {"mean summarizes other rows": 1, "Average summarizes other rows": 1}
    assert (found.seeds, found.warnings) == ((0, 1, 2, 3), ())


def test_one_number_of_rows_for_each_split_is_what_it_was_scored_on(tmp_path: Path) -> None:
    rows = [{**row, "split": split, "rows": n} for row in LONG for split, n in (("dev", 277), ("test", 1000))]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    results = read_study(tmp_path / "study")
    assert results.study.task.rows == {"dev": 277, "test": 1000}
    assert results.main_split == "test"
    assert results.cells[0].score("dev") is not None


WIDE = [
    {"method": "full", "seed_0": 0.8, "seed_1": 0.82, "seed_2": 0.81},
    {"method": "lora", "seed_0": 0.84, "seed_1": 0.85, "seed_2": "diverged"},
]


@pytest.mark.parametrize("columns", [{}, {"score": ("seed_0", "seed_1", "seed_2")}])
def test_a_run_that_failed_leaves_the_others_of_its_column(tmp_path: Path, columns: dict[str, Any]) -> None:
    found = imported(write_csv(tmp_path / "r.csv", WIDE), tmp_path / "study", **columns)
    assert (found.seeds, found.rows_kept, found.left_out) == ((0, 1, 2), 2, {})
    assert "1 score not used: seed_2 is not a number." in found.notes
    assert [warning.kind for warning in found.warnings] == ["unequal_seeds"]
    assert {arm: len(scores) for arm, scores in scores_of(tmp_path / "study").items()} == {"full": 3, "lora": 2}


def test_a_metric_with_one_word_is_kept(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"method": row["arm"], "seed": row["seed"], "test_accuracy": row["score"], "test_f1": 0.5} for row in LONG
    ]
    rows[0]["test_accuracy"] = "OOM"
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert {run.scores.metric for run in read_study(tmp_path / "study").cells if run.scores} == {"accuracy"}


def test_columns_without_numbers_are_named_with_what_they_have(tmp_path: Path) -> None:
    rows = [{"method": row["arm"], "seed": row["seed"], "test_accuracy": "80.1 ± 0.3"} for row in LONG]
    message = r"no column has scores \(test_accuracy has '80\.1 ± 0\.3', which is not a n.* pass the score of each run"
    with pytest.raises(UsageError, match=message):
        imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")


def test_a_seed_is_one_however_it_is_written(tmp_path: Path) -> None:
    one = write_csv(tmp_path / "a.csv", [{"arm": "full", "seed": f"{seed}.0", "score": 0.5} for seed in range(3)])
    other = write_csv(tmp_path / "b.csv", [{"arm": "lora", "seed": f"0{seed}", "score": 0.6} for seed in range(3)])
    found = imported([one, other], tmp_path / "study")
    assert (found.seeds, found.warnings) == ((0, 1, 2), ())
    twice = write_csv(tmp_path / "c.csv", [{"arm": "full", "seed": seed, "score": 0.5} for seed in ("1", "01")])
    with pytest.raises(DataError, match=r"both have the score of full with seed 1"):
        imported(twice, tmp_path / "twice")


def test_epochs_may_be_fractions(tmp_path: Path) -> None:
    rows = [
        {"method": arm, "seed": 0, "epoch": epoch, "dev_accuracy": epoch / 4}
        for arm in ("full", "lora")
        for epoch in (0.5, 1.0, 1.5, 2.0)
    ]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert [record.step for record in read_study(tmp_path / "study").cells[0].history] == [1, 2, 3, 4]


def test_runs_of_weights_and_biases_may_have_a_column_of_methods(tmp_path: Path) -> None:
    rows = [
        {"Name": f"sweet-sunset-{number}", "State": "finished", "method": row["arm"], "seed": row["seed"],
         "test/accuracy": row["score"]}
        for number, row in enumerate(LONG)
    ]  # fmt: skip
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert (set(found.arms), found.seeds) == ({row["arm"] for row in LONG}, (0, 1, 2, 3))


def test_nothing_is_trained_in_an_import(tmp_path: Path) -> None:
    imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study")
    with pytest.raises(UsageError, match="nothing can be trained"):
        refuse_training(tmp_path / "study")
    with pytest.raises(UsageError, match="nothing can be trained"):
        gg.compare("sample", "sample", ["full"], out=tmp_path / "study", steps=1)


@pytest.mark.parametrize("use", [best_run, lambda folder: find_runs([folder], print)], ids=["export", "analyze"])
def test_an_import_has_no_models(use: Callable[[Path], object], tmp_path: Path) -> None:
    imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study")
    with pytest.raises(UsageError, match="holds imported results, which have scores and no models"):
        use(tmp_path / "study")


def test_data_frames_and_names_that_open_nothing(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{**row, "arm": f"plan:{tmp_path}/{row['arm']}"} for row in LONG])
    study = gg.import_results(frame, tmp_path / "study")
    assert study.best == f"plan:{tmp_path}/lora:r=8"
    assert "inconclusive" in study.answer
    assert study.report().is_file()


def test_unpaired_results_have_a_test(tmp_path: Path) -> None:
    from scipy import stats

    imported(write_csv(tmp_path / "r.csv", LONG), tmp_path / "study", pair="none")
    from gradgate.study.verdicts import study_verdicts

    found = {each.arm: each.verdict for each in study_verdicts(tmp_path / "study")}["lora:r=8"]
    ours, theirs = ([row["score"] for row in LONG if row["arm"] == arm] for arm in ("lora:r=8", "full"))
    assert found.comparison.p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)


@pytest.mark.parametrize("columns", [{}, {"pair": "fold"}], ids=["found", "named"])
def test_folds_are_not_called_seeds(tmp_path: Path, columns: dict[str, Any]) -> None:
    rows = [
        {"method": arm, "fold": fold, "accuracy": base + 0.01 * fold + 0.003 * fold * (arm == "lora")}
        for arm, base in (("full", 0.7), ("lora", 0.73))
        for fold in range(1, 6)
    ]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study", **columns)
    (found,) = verdicts_of(read_study(tmp_path / "study"))
    assert found.verdict.comparison.unit == "fold"
    summary = summarize_study(read_study(tmp_path / "study"))
    assert summary.pairing.full_test == "two-sided paired t-test over folds"
    (caution,) = (text for text in find_cautions(summary, find_sections(summary)) if "paired by fold" in text)
    assert "If folds share training data, as folds of one data set do, intervals and p are too small." in caution
