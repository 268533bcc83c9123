"""`gradgate reproduce` and `gradgate papers`: what is run, joined, shown and written."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from gradgate.errors import RunError
from gradgate.papers.check import check_study
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import Place
from gradgate.papers.claims.quantities import quality
from gradgate.papers.comparison import derived_table, pairs, summary_table, write_tables
from gradgate.papers.measured import averages, numbers_of_study, seed_spreads
from gradgate.papers.planning import ReproduceRequest
from gradgate.papers.reproduce import read_reproduction, run_plan
from gradgate.report.sections.rates import searched_runs
from gradgate.study.parts import Parts, TaskChoice
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.search import read_space
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


def test_what_the_paper_derives_is_derived_alike(elsa: Path) -> None:
    table = derived_table(read_reproduction(elsa))
    assert table is not None
    rows = {(record["method"], record["what"]): record for record in table.records}
    quality = rows["frozen 8/12", "relative quality"]
    assert (quality["published"], quality["measured"]) == (0.96, pytest.approx(0.855 / 0.9))
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
    verdicts = {verdict.claim.id: verdict for verdict in check_study(elsa)}
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
    assert check(find_claim("G1"), numbers).state == "holds"
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
        check_study(tmp_path)
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
    assert (code, "--scale sample" in err, (tmp_path / "x").exists()) == (1, True, False)


def test_a_dry_run_starts_nothing(command: Command, tmp_path: Path) -> None:
    code, out, _ = command(
        "reproduce", "graddrop-table1", "--scale", "sample", "--dry-run", "--out", str(tmp_path / "x")
    )
    assert (code, (tmp_path / "x").exists()) == (0, False)
    assert "16 runs in 2 studies, 2 seeds each, about" in out


ADAPTER = "houlsby:size=64"


def searched(folder: Path, own: str | None, rate: float, seed: int, score: float, **other: float) -> None:
    """A finished run of a search."""
    path = folder / "search" / f"{own}" / f"lr={rate}, {other}" / f"seed-{1000 + seed}"
    path.mkdir(parents=True)
    config = {"method": "full", "adapter": own, "lr": rate, "seed": 1000 + seed, **other}
    (path / "run.json").write_text(json.dumps({"config": config}))
    (path / "scores.json").write_text(json.dumps({"dev": {"macro_f1": score}}))


def rates_study(folder: Path) -> Path:
    write_study(folder, methods=("full",), seeds=(0, 1))
    study = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**study, "adapters": [None, ADAPTER]}))
    return folder


def test_what_a_search_found_says_how_much_seeds_matter_at_each_rate(tmp_path: Path) -> None:
    rates_study(tmp_path)
    dev = {None: {1e-5: (0.5, 0.6), 1e-4: (0.1, 0.9)}, ADAPTER: {1e-5: (0.7, 0.7), 1e-4: (0.72, 0.74)}}
    for own, rates in dev.items():
        for rate, scores in rates.items():
            for seed, score in enumerate(scores):
                searched(tmp_path, own, rate, seed, score)
    verdict = next(v for v in check_study(tmp_path, "adaptereff") if v.claim.id == "A8")
    assert len(verdict.outcome.findings) == 1
    wanted = fmean(stdev(dev[None][rate]) - stdev(dev[ADAPTER][rate]) for rate in (1e-5, 1e-4))
    assert f"= {100 * wanted:.2f} [" in verdict.outcome.findings[0].text
    assert "2 rates" in verdict.outcome.findings[0].text


def figure4(folder: Path, runs: list[dict[str, Any]]) -> Path:
    """A reproduction of a figure that searches rates, whose runs are in the study ``cola``."""
    record: dict[str, Any] = {"preset": "adaptereff-figure4", "scale": "sample", "runs": runs, "left_out": {}}
    (folder / "reproduction.json").write_text(json.dumps({**record, "notes": []}))
    return folder


def test_the_search_of_a_reproduction_says_so_too(tmp_path: Path) -> None:
    rates_study(tmp_path / "cola")
    for rate in (1e-5, 1e-4):
        for seed in (0, 1):
            searched(tmp_path / "cola", None, rate, seed, 0.5 + 0.1 * seed)
            searched(tmp_path / "cola", ADAPTER, rate, seed, 0.5)
    runs = [
        {"labels": ["BERT-base", "cola", "1000", label], "method": "full", "adapter": adapter, "study": "cola"}
        for label, adapter in (("Fine-tune", None), ("Adapter-64", ADAPTER))
    ]
    verdict = next(v for v in check_study(figure4(tmp_path, runs), "adaptereff") if v.claim.id == "A8")
    (finding,) = verdict.outcome.findings
    what = "cola, BERT-base, 1000 examples: deviation over seeds at a rate, Fine-tune - Adapter-64"
    assert finding.text.startswith(f"{what} = {5 * 2**0.5:.2f}")


def test_a_figure_without_printed_numbers_has_a_table_of_what_was_measured(tmp_path: Path) -> None:
    write_study(tmp_path / "cola", ("full",), (0, 1), {"full": [0.4, 0.6]})
    run = {"labels": ["BERT-base", "cola", "1000", "Fine-tune"], "method": "full", "adapter": None, "study": "cola"}
    (table,) = write_tables(read_reproduction(figure4(tmp_path, [run])), tmp_path)
    (record,) = table.records
    assert (record["method"], record["ours"], record["metric"], record["seeds"]) == ("Fine-tune", "full", METRIC, 2)
    assert (record["measured"], record["measured_sd"]) == (pytest.approx(50.0), pytest.approx(stdev((40, 60))))
    assert [file.name for file in sorted((tmp_path / "tables").iterdir())] == ["measured.csv", "measured.md"]


def test_a_reproduction_searches_before_it_runs_and_goes_on_with_more_seeds(tmp_path: Path) -> None:
    small = {"steps": 2, "train_size": 16, "dev_size": 16, "batch_size": 8, "max_length": 16, "threads": 1}
    plan = ReproduceRequest("adaptereff-figure4", "sample", [0], [], None, False, small).plan()
    plan = replace(plan, runs=plan.runs[:1], search=read_space(["lr=1e-3,2e-3"]))
    out = tmp_path / "out"
    assert run_plan(plan, out, lambda title: nullcontext(SilentStudy())).finished == 1
    more = replace(plan, seeds=(0, 1), search=read_space(["lr=1e-3,2e-3"], seeds=2))
    assert run_plan(more, out, lambda title: nullcontext(SilentStudy())).finished == 2
    (row,) = read_reproduction(out).rows
    results = row.measured.results
    runs = searched_runs(results, results.study.task.metric)
    assert [(run.config["lr"], run.config["seed"]) for run in runs] == [(1e-3, 1000), (2e-3, 1000)]


def test_rates_that_seeds_agree_on_do_not_vary(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate, score in ((1e-5, 0.5), (1e-4, 0.9)):
        for seed in (0, 1):
            searched(tmp_path, None, rate, seed, score)
    assert seed_spreads(read_study(tmp_path)) == {"full": {0: 0.0, 1: 0.0}}


def test_other_settings_of_a_search_are_no_seeds(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for batch_size, low in ((8, 0.5), (16, 0.7)):
        searched(tmp_path, None, 1e-5, 0, low, batch_size=batch_size)
        searched(tmp_path, None, 1e-5, 1, 0.9, batch_size=batch_size)
    spread = 100 * fmean((stdev((0.5, 0.9)), stdev((0.7, 0.9))))
    assert seed_spreads(read_study(tmp_path)) == {"full": {0: pytest.approx(spread)}}


def test_a_search_with_one_seed_says_nothing_of_seeds(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate in (1e-5, 1e-4):
        searched(tmp_path, None, rate, 0, 0.5)
    assert seed_spreads(read_study(tmp_path)) == {}


def test_a_seed_that_failed_narrows_nothing(tmp_path: Path) -> None:
    rates_study(tmp_path)
    for rate in (1e-5, 1e-4):
        for seed in (0, 1, 2):
            searched(tmp_path, ADAPTER, rate, seed, 0.7 + rate * seed)
            if (rate, seed) != (1e-4, 2):  # this one has failed
                searched(tmp_path, None, rate, seed, 0.8 + 0.01 * seed)
    searched(tmp_path, "pfeiffer", 1e-5, 0, 0.8)  # no part of the study
    results = read_study(tmp_path)
    spreads = seed_spreads(results)
    assert {label: sorted(by_rate) for label, by_rate in spreads.items()} == {
        results.study.labels[0]: [0],
        results.study.labels[1]: [0, 1],
    }
    assert check_study(tmp_path, "adaptereff")


def test_a_study_of_several_tasks_is_checked_on_those_that_are_the_papers(tmp_path: Path) -> None:
    names = ("xnli", "toy", "pawsx")
    record = {"tasks": [{"task": name, "data": None} for name in names], "models": ["m"]}
    (tmp_path / "parts.json").write_text(json.dumps(record))
    parts = Parts(tuple(TaskChoice(name) for name in names), ("m",))
    scores = {"full": (0.7, 0.71, 0.72), "graddrop:p=0.2": (0.8, 0.8, 0.83)}
    for name, part in zip(names, parts.paths(tmp_path), strict=True):
        write_study(part, tuple(scores), scores=scores, name=name)
    verdicts = {verdict.claim.id: verdict for verdict in check_study(tmp_path, "graddrop")}
    assert [finding.state for finding in verdicts["G1"].outcome.findings] == ["holds"]
    assert "XNLI" in verdicts["G1"].outcome.findings[0].text
    assert not verdicts["G1"].notes  # the toy task stands in for none where the paper's own are there
