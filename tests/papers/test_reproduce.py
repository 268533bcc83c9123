"""`gradgate reproduce` and `gradgate papers`: what is run, joined, shown and written."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from gradgate.errors import RunError
from gradgate.papers.check import check_studies
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import Place
from gradgate.papers.claims.quantities import quality
from gradgate.papers.comparison import derived_table, pairs, summary_table
from gradgate.papers.measured import averages, numbers_of_study
from gradgate.papers.reproduce import read_reproduction
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.results import read_study
from support.command_line import Command
from support.study_folder import METRIC, write_study


@pytest.fixture
def elsa(tmp_path: Path) -> Path:
    """A reproduction of elsa-table4 on the sample, written by hand: 90, 85.5 and 9 points over two seeds."""
    scores = {"full": [0.89, 0.91], "freeze:layers=1": [0.85, 0.86], "freeze:layers=2": [0.08, 0.10]}
    write_study(tmp_path / "ner", tuple(scores), (0, 1), scores)
    methods = {"baseline": "full", "frozen 8/12": "freeze:layers=1", "frozen 12/12": "freeze:layers=2"}
    runs = [
        {"labels": ["XLM-R-base", "NER de", "full", label], "method": method, "adapter": None, "study": "ner"}
        for label, method in methods.items()
    ]
    record: dict[str, Any] = {"preset": "elsa-table4", "scale": "sample", "runs": runs, "left_out": {}, "notes": ["so"]}
    (tmp_path / "reproduction.json").write_text(json.dumps(record))
    return tmp_path


def test_published_stands_beside_measured_with_the_distance_to_the_reference(elsa: Path) -> None:
    found = {pair.row.cell.label: pair for pair in pairs(read_reproduction(elsa))}
    assert {label: pair.number.value for label, pair in found.items()} == {
        "baseline": 0.82,
        "frozen 8/12": 0.79,
        "frozen 12/12": 0.06,
    }
    frozen = found["frozen 8/12"]
    assert (frozen.measured.mean, frozen.measured.n) == (pytest.approx(0.855), 2)
    assert (frozen.published_gain, frozen.measured_gain) == (pytest.approx(-0.03), pytest.approx(-0.045))
    assert found["baseline"].measured_gain is None


def test_a_distance_is_over_the_seeds_that_both_have(elsa: Path) -> None:
    (elsa / "ner/runs/method-1/seed-0/scores.json").unlink()
    found = {pair.row.cell.label: pair for pair in pairs(read_reproduction(elsa))}
    assert found["frozen 8/12"].measured_gain == pytest.approx(0.86 - 0.91)


def test_what_the_paper_derives_is_derived_alike(elsa: Path) -> None:
    table = derived_table(read_reproduction(elsa))
    assert table is not None
    rows = {(record["method"], record["what"]): record for record in table.records}
    quality = rows["frozen 8/12", "relative quality"]
    assert (quality["published"], quality["measured"]) == (0.96, pytest.approx(fmean((0.85 / 0.89, 0.86 / 0.91))))
    saved = rows["frozen 8/12", "parameters saved by 4 tasks"]
    # Of 200 parameters: embeddings 100 and one layer of 40 are shared, as 8 of 12 is one of two layers here.
    assert (saved["published"], saved["measured"]) == (0.58, pytest.approx(3 * 140 / (4 * 200)))


def test_relative_quality_is_one_number_in_tables_and_claims(tmp_path: Path) -> None:
    scores = {"NER de": ([0.9, 0.9], [0.6, 0.6]), "NER nl": ([0.5, 0.5], [0.45, 0.45])}
    runs = []
    for task, (full, frozen) in scores.items():
        write_study(tmp_path / task, ("full", "freeze:layers=1"), (0, 1), {"full": full, "freeze:layers=1": frozen})
        for label, method in (("baseline", "full"), ("frozen 8/12", "freeze:layers=1")):
            runs.append(
                {"labels": ["XLM-R-base", task, "full", label], "method": method, "adapter": None, "study": task}
            )
    record = {"preset": "elsa-table4", "scale": "sample", "runs": runs, "left_out": {}, "notes": []}
    (tmp_path / "reproduction.json").write_text(json.dumps(record))
    found = read_reproduction(tmp_path)
    table = derived_table(found)
    assert table is not None
    rows = {(record["method"], record["what"]): record["measured"] for record in table.records}
    wanted = fmean((0.6 / 0.9, 0.45 / 0.5))  # and not (0.6 + 0.45) / (0.9 + 0.5)
    assert rows["frozen 8/12", "relative quality"] == pytest.approx(wanted)
    pairs_of = [(Place("XLM-R-base", "NER"), on) for on in ("de", "nl")]
    by_seed = found.numbers().by_seed(quality(pairs_of, "frozen 8/12", "baseline"))
    assert by_seed == {0: pytest.approx(wanted), 1: pytest.approx(wanted)}


def test_claims_are_checked_on_a_reproduction(elsa: Path) -> None:
    verdicts = {verdict.claim.id: verdict for verdict in check_studies([elsa])}
    assert verdicts["E2"].outcome.state == "cannot tell"
    assert "9.00 [" in verdicts["E2"].outcome.findings[0].text
    assert verdicts["E1"].outcome.state == "cannot tell"
    assert not verdicts["E5"].checked
    assert "embedded sample" in verdicts["E2"].notes[0]


def test_any_study_can_be_checked_under_the_labels_of_a_paper(tmp_path: Path) -> None:
    scores = {
        "full": [0.60, 0.61, 0.62],
        "graddrop": [0.70, 0.715, 0.722],
        "gradfreeze:order=bottom-up": [0.5, 0.5, 0.5],
    }
    numbers = numbers_of_study("graddrop", read_study(write_study(tmp_path, tuple(scores), scores=scores)))
    assert numbers.stand_in
    assert "toy is none of the paper's tasks" in numbers.notes[0]
    outcome = check(find_claim("G1"), numbers)
    assert (outcome.state, outcome.findings[0].compared) == ("cannot tell", True)
    assert outcome.findings[0].text.endswith("not on XNLI, which the claim is about")
    assert {key.method for key in numbers.scores} == {"SFT", "GradDrop", "GradFreeze-BottomUp"}


def test_schedules_on_the_whole_model_are_told_from_adapters(tmp_path: Path) -> None:
    scores = {"full": [0.6, 0.61], "fun": [0.7, 0.72], "gradual": [0.7, 0.71]}
    numbers = numbers_of_study("fun", read_study(write_study(tmp_path, tuple(scores), (0, 1), scores)))
    assert {key.method for key in numbers.scores} == {"Ada", "Ada+FUN", "Ada+GU"}
    assert any("whole model" in note for note in numbers.notes)
    assert check(find_claim("F2"), numbers).state == "cannot tell"  # it is of other languages than the source


@pytest.mark.parametrize(("paper", "avg"), [("graddrop", 70.0), ("elsa", 70.0), ("fun", 60.0), ("adaptereff", 70.0)])
def test_each_paper_averages_over_its_own_languages(paper: str, avg: float) -> None:
    scores = {"en": 90.0, "de": 70.0, "sw": 50.0}
    expected = {"all": 70.0, "target": 60.0, "distant": 50.0, "avg": avg}
    assert averages(paper, "POS", scores) == expected
    assert averages("fun", "XNLI", {"en": 90.0}) == {"all": 90.0}


def test_greek_and_urdu_are_distant_in_the_papers_xnli() -> None:
    scores = {"en": 90.0, "el": 60.0, "ur": 50.0, "de": 80.0}
    assert averages("adaptereff", "XNLI", scores)["distant"] == 55.0
    assert "distant" not in averages("adaptereff", "NER", scores)


def reproduction(folder: Path, preset: str, labels: tuple[str, ...], **scores: dict[str, dict[str, float]]) -> Path:
    """A reproduction of one cell at full scale, over one seed; ``scores``: dev or a test split to metrics."""
    tests = tuple(split for split in scores if split != "dev")
    metric = next(iter(scores["dev"]))
    languages = {split: split.removeprefix("test.") for split in tests if "." in split}
    write_study(folder / "one", ("full",), (0,), {"full": [0.5]}, tests, languages=languages, metric=metric)
    file = next(folder.glob("one/runs/*/seed-0/scores.json"))
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "dev": scores["dev"], "tests": {split: scores[split] for split in tests}}))
    run = {"labels": list(labels), "method": "full", "adapter": None, "study": "one"}
    whole = {"preset": preset, "scale": "full", "runs": [run], "left_out": {}, "notes": []}
    (folder / "reproduction.json").write_text(json.dumps(whole))
    return folder


@pytest.mark.parametrize(
    ("preset", "labels", "metric", "expected"),
    [
        ("elsa-tableA3-base", ("BERT-base", "MRPC", "full", "baseline"), "f1", 90.0),
        ("elsa-tableA3-base", ("BERT-base", "STS-B", "full", "baseline"), "pearson", 90.0),
        ("adaptereff-table2", ("BERT-base", "mrpc", "1000", "Fine-tune"), "f1", 90.0),
        ("adaptereff-table2", ("BERT-base", "sts-b", "1000", "Fine-tune"), "spearman", 90.0),
    ],
)
def test_the_printed_split_and_metric_are_measured(
    tmp_path: Path, preset: str, labels: tuple[str, ...], metric: str, expected: float
) -> None:
    own = "pearson" if metric == "spearman" else metric
    dev = {own: 0.1, "loss": 0.5} | {metric: 0.9}
    found = read_reproduction(reproduction(tmp_path, preset, labels, dev=dev, test=dict.fromkeys(dev, 0.2)))
    assert [pair.measured.mean for pair in pairs(found)] == [pytest.approx(expected)]
    scores = {key.on: by_seed for key, by_seed in found.numbers().scores.items()}
    assert scores["en"] == {0: pytest.approx(expected)}


@pytest.mark.parametrize(
    ("task", "splits", "expected"),
    [
        ("mrpc", {"dev": 0.1, "test": 0.2, "original_dev": 0.9}, 90.0),
        ("mrpc", {"dev": 0.1, "test": 0.9}, 90.0),
        ("mnli_mm", {"dev": 0.1, "test": 0.2, "mismatched": 0.9}, 90.0),
        ("mnli_m", {"dev": 0.1, "test": 0.9, "mismatched": 0.2}, 90.0),
    ],
)
def test_original_dev_rows_are_measured_where_runs_hold_out_others(
    tmp_path: Path, task: str, splits: dict[str, float], expected: float
) -> None:
    labels = ("BERT-base", task, "1000", "Fine-tune")
    metric = "f1" if task == "mrpc" else "accuracy"
    scores = {split: {metric: value, "loss": 0.5} for split, value in splits.items()}
    folder = reproduction(tmp_path, "adaptereff-table2", labels, **scores)
    file = folder / "one" / "study.json"
    study = json.loads(file.read_text())
    file.write_text(json.dumps({**study, "settings": {**study["settings"], "dev_size": 1000}}))
    assert [pair.measured.mean for pair in pairs(read_reproduction(folder))] == [pytest.approx(expected)]


@pytest.mark.parametrize(("task", "metric"), [("PAWSX", "f1"), ("POS", "accuracy")])
def test_what_is_printed_as_f1_is_measured_as_f1(tmp_path: Path, task: str, metric: str) -> None:
    preset = {"PAWSX": "graddrop-table5", "POS": "graddrop-table7"}[task]
    scores = {"accuracy": 0.5, "f1": 0.5} | {metric: 0.9}
    splits = dict.fromkeys(("dev", "test.en", "test.de", "test.fr", "test.es"), scores)
    found = read_reproduction(reproduction(tmp_path, preset, ("XLM-R-Large", task, "full", "SFT"), **splits))
    measured = {pair.number.language: pair.measured.mean for pair in pairs(found)}
    assert (measured["de"], measured["avg"]) == (pytest.approx(90.0), pytest.approx(90.0))


def test_xcopa_has_the_english_score_of_dev_which_no_average_takes(tmp_path: Path) -> None:
    splits = {"dev": {"accuracy": 0.9}, "test.et": {"accuracy": 0.5}, "test.ht": {"accuracy": 0.6}}
    found = read_reproduction(reproduction(tmp_path, "fun-table7", ("mBERT", "XCOPA", "full", "Full-FT"), **splits))
    scores = {key.on: by_seed[0] for key, by_seed in found.numbers().scores.items() if len(key.on) < 7}
    assert (scores["en"], scores["avg"]) == (pytest.approx(90.0), pytest.approx(55.0))
    assert "all" not in scores


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no study"):
        check_studies([tmp_path])
    (tmp_path / "reproduction.json").write_text('{"preset": "elsa-table4"}')
    with pytest.raises(RunError, match="has no scale, runs"):
        read_reproduction(tmp_path)


def test_the_papers_command_lists_and_checks(command: Command, elsa: Path) -> None:
    code, out, _ = command("papers")
    assert code == 0
    assert all(word in out for word in ("elsa-table4", "adaptereff-table1", "G11", "https://arxiv.org/abs/2301.05487"))
    code, out, _ = command("papers", "--printed", "--paper", "fun", "--json")
    assert {record["claim"]: record["state"] for record in json.loads(out)}["F8"] == "holds"
    code, out, _ = command("papers", str(elsa))
    assert code == 0
    assert "measured on the embedded sample" in out
    code, _, err = command("papers", "--paper", "els")
    assert (code, "Did you mean 'elsa'" in err) == (2, True)


@pytest.mark.slow
def test_a_table_is_reproduced_on_the_sample_end_to_end(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "e4"
    words = ("reproduce", "elsa-table4", "--scale", "sample", "--seeds", "0,", "--out", str(out), "--device", "cpu")
    small = ("--steps", "2", "--train-size", "16", "--batch-size", "8", "--max-length", "16", "--json")
    code, printed, _ = command(*words, *small)
    assert code == 0
    records = json.loads(printed)
    assert [record["method"] for record in records] == ["baseline", "frozen 8/12", "frozen 12/12"]
    assert all(record["measured"] is not None and record["seeds"] == 1 for record in records)
    with (out / "tables" / "published.csv").open(encoding="utf-8") as file:
        assert [row["published"] for row in csv.DictReader(file)] == ["0.82", "0.79", "0.06"]
    assert "| XLM-R-base |" in (out / "tables" / "published.md").read_text(encoding="utf-8")
    assert (out / "xlm-r-base-ner-de" / "report.html").is_file()
    assert summary_table(read_reproduction(out)).rows
    code, _, err = command("reproduce", "graddrop-table1", "--scale", "sample", "--out", str(out))
    assert (code, "already holds elsa-table4" in err) == (1, True)


def test_the_refusal_has_exit_code_1_and_leaves_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, _, err = command("reproduce", "fun-table9", "--out", str(tmp_path / "x"))
    assert (code, "--scale 'sample'" in err, (tmp_path / "x").exists()) == (1, True, False)


@pytest.mark.parametrize("flag", ["--train-file", "--label", "--kind"])
def test_the_data_of_one_task_are_not_asked_for(flag: str, command: Command) -> None:
    said = command("reproduce", "elsa-table4", "--scale", "sample", "--dry-run", flag, "x")
    assert (said.code, f"No such option: {flag}" in said.err) == (2, True)


def test_a_dry_run_starts_nothing(command: Command, tmp_path: Path) -> None:
    code, out, _ = command(
        "reproduce", "graddrop-table1", "--scale", "sample", "--dry-run", "--out", str(tmp_path / "x")
    )
    assert (code, (tmp_path / "x").exists()) == (0, False)
    assert "16 runs in 2 studies, 2 seeds each, about" in out
    code, out, _ = command("reproduce", "graddrop-table1", "--scale", "sample", "--dry-run", "--json")
    planned = json.loads(out)
    assert (code, planned["preset"], planned["runs"], planned["seeds"]) == (0, "graddrop-table1", 16, [0, 1])


def test_a_study_of_several_tasks_is_checked_on_those_that_are_the_papers(tmp_path: Path) -> None:
    names = ("xnli", "toy", "pawsx")
    record = {"tasks": [{"task": name, "data": None} for name in names], "models": ["m"]}
    (tmp_path / "parts.json").write_text(json.dumps(record))
    parts = Conditions(tuple(TaskChoice(name) for name in names), ("m",))
    scores = {"full": (0.7, 0.71, 0.72), "graddrop:p=0.2": (0.8, 0.8, 0.83)}
    for name, part in zip(names, parts.paths(tmp_path), strict=True):
        write_study(part, tuple(scores), scores=scores, name=name)
    verdicts = {verdict.claim.id: verdict for verdict in check_studies([tmp_path], "graddrop")}
    assert [finding.state for finding in verdicts["G1"].outcome.findings] == ["holds"]
    assert "XNLI" in verdicts["G1"].outcome.findings[0].text
    assert not verdicts["G1"].notes  # the toy task stands in for none where the paper's own are there


def elsa_on_glue(folder: Path) -> Path:
    """A reproduction of two tasks of GLUE, whose runs are scored on dev and test."""
    runs = []
    for task, full, frozen in (("MRPC", [0.8, 0.5], [0.6, 0.5]), ("RTE", [0.6, 0.7], [0.6, 0.5])):
        arms = {"full": full, "freeze:layers=9": frozen}
        write_study(folder / task, tuple(arms), (0, 1), arms, ("test",), name=task.lower())
        for file in folder.glob(f"{task}/runs/*/seed-*/scores.json"):
            record = json.loads(file.read_text())
            score = record["tests"]["test"][METRIC]
            record["dev"][METRIC], record["tests"]["test"][METRIC] = score, 1.2 - score
            file.write_text(json.dumps(record))
        runs += [
            {"labels": ["BERT-base", task, "full", label], "method": arm, "adapter": None, "study": task}
            for label, arm in (("baseline", "full"), ("frozen 9/12", "freeze:layers=9"))
        ]
    record = {"preset": "elsa-tableA3-base", "scale": "full", "runs": runs, "left_out": {}, "notes": []}
    (folder / "reproduction.json").write_text(json.dumps(record))
    return folder


def test_table_claims_and_studies_measure_one_quality(tmp_path: Path) -> None:
    folder = elsa_on_glue(tmp_path)
    table = derived_table(read_reproduction(folder))
    assert table is not None
    (row,) = (each for each in table.records if (each["method"], each["what"]) == ("frozen 9/12", "relative quality"))
    wanted = fmean((fmean((0.6 / 0.8, 0.6 / 0.6)), fmean((1.0, 0.5 / 0.7))))
    assert row["measured"] == pytest.approx(wanted)
    for source, kept in ((folder, wanted), (folder / "MRPC", fmean((0.6 / 0.8, 1.0)))):
        (claim,) = (verdict for verdict in check_studies([source], "elsa") if verdict.claim.id == "E1")
        assert f"= {kept:.3f} [" in claim.outcome.findings[0].text


def test_a_study_alone_is_scored_as_the_table_is(tmp_path: Path) -> None:
    study = elsa_on_glue(tmp_path) / "MRPC"
    (tmp_path / "reproduction.json").unlink()
    numbers = numbers_of_study("elsa", read_study(study))
    assert numbers.notes == ("scored on dev, as in the paper's table",)
    baseline = {key.on: by_seed for key, by_seed in numbers.scores.items() if key.method == "baseline"}
    assert baseline["en"] == {0: pytest.approx(80.0), 1: pytest.approx(50.0)}


def test_the_dev_split_of_a_table_is_the_tasks_own_where_runs_were_selected_on_rows_of_train(tmp_path: Path) -> None:
    study = elsa_on_glue(tmp_path) / "MRPC"
    (tmp_path / "reproduction.json").unlink()
    record = json.loads((study / "study.json").read_text())
    record["task"]["rows"] = {"train": 100, "dev": 20, "test": 30}  # what was dev is test now
    record["settings"]["dev_size"] = 20
    (study / "study.json").write_text(json.dumps(record))
    numbers = numbers_of_study("elsa", read_study(study))
    baseline = {key.on: by_seed for key, by_seed in numbers.scores.items() if key.method == "baseline"}
    assert baseline["en"] == {0: pytest.approx(40.0), 1: pytest.approx(70.0)}
