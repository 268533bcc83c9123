"""The tables of evidence: what they hold, what they count, and what they say of too few seeds."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy import stats

from gradgate.report import write_report
from gradgate.report.sections.evidence import EvidenceSection, SplitEvidenceSection
from gradgate.report.sections.from_papers.stability import StabilitySection, stability_table
from gradgate.report.study_summary import summarize_study
from gradgate.statistics import holm, pairs_needed
from gradgate.study.results import read_study
from support.study_folder import fail, finish, write_study

FULL, GRADUAL, HEAD = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74], [0.60, 0.66, 0.64]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL, "head": HEAD}


def tables(folder, kind=EvidenceSection):
    section = kind.find(summarize_study(read_study(folder)))
    return {table.name: table for table in section.tables()} if section else {}


def lines(table):
    """The rows as shown: the method's name to the heading's key to the text."""
    keys = [column.key for column in table.columns]
    return {row[0].line: dict(zip(keys, (entry.line for entry in row), strict=True)) for row in table.rows}


def test_every_test_of_a_method_is_shown(tmp_path):
    write_study(tmp_path, methods=tuple(SCORES), scores=SCORES)
    table = tables(tmp_path)["statistics"]
    shown, records = lines(table), {record["method"]: record for record in table.records}
    # Differences 0.02, 0.03, 0.02: t = 7, d_z = 7 / sqrt(3), g = d_z / sqrt(pi).
    gradual = shown["gradual:every=40"]
    assert (gradual["pairs"], gradual["difference"]) == ("3 of 3", "+2.3 [+0.9 to +3.8]")
    assert (gradual["t"], gradual["effect"], gradual["rank_biserial"]) == ("7.00", "4.04 (g 2.28)", "1.00")
    assert (gradual["p"], gradual["wilcoxon"]) == ("0.020 (Holm 0.040)", "0.250 (Holm 0.500)")
    assert gradual["bootstrap"] == "+2.0 to +3.0"
    low, high = (100 * end for end in stats.t.interval(0.95, 2, np.mean(FULL), stats.sem(FULL)))
    assert shown["full"]["score"].endswith(f"[{low:.1f} to {high:.1f}]")
    needed = pairs_needed(7 / 3**0.5), pairs_needed(7 / 3**0.5, level=0.025)
    assert gradual["pairs_needed"] == f"{needed[0]} ({needed[1]} with Holm)"
    assert shown["full"]["difference"] == "reference"
    raw = [stats.ttest_rel(SCORES[name], FULL).pvalue for name in ("gradual:every=40", "head")]
    assert [records[name]["p_holm"] for name in ("gradual:every=40", "head")] == pytest.approx(holm(raw))
    assert records["full"]["mean_bootstrap95_low"] < 0.70 < records["full"]["mean_bootstrap95_high"]


def test_too_few_seeds_are_said_in_a_sentence(tmp_path, draw_only):
    draw_only()
    write_study(tmp_path, scores={name: SCORES[name] for name in ("full", "gradual:every=40")})
    write_report(tmp_path)
    sentence = "With 3 seeds, Wilcoxon's p cannot fall below 0.25: p < 0.05 takes 6 seeds with a difference."
    assert sentence in (tmp_path / "report.html").read_text().replace("&#39;", "'").replace("&lt;", "<")
    assert sentence.replace("<", r"\<") in (tmp_path / "tables" / "statistics.md").read_text()
    assert r"\par{\footnotesize With 3 seeds" in (tmp_path / "tables" / "statistics.tex").read_text()
    with (tmp_path / "tables" / "statistics.csv").open(newline="") as file:
        full, gradual = csv.DictReader(file)
    assert full["remark"] == full["t"] == ""
    assert gradual["remark"].endswith(sentence)
    assert float(gradual["t"]) == pytest.approx(7.0)


def test_failed_and_unfinished_seeds_are_counted(tmp_path):
    write_study(tmp_path, seeds=(0, 1, 2, 3), scores={"full": FULL})
    finish(tmp_path, "gradual:every=40", 0, 0.70)
    fail(tmp_path, "gradual:every=40", 1)
    fail(tmp_path, "full", 3)
    table = tables(tmp_path)["statistics"]
    assert lines(table)["gradual:every=40"]["pairs"] == "1 of 4 (2 failed, 1 not finished)"
    assert lines(table)["full"]["pairs"] == "3 of 4 (1 failed)"
    record = table.records[1]
    assert [record[key] for key in ("planned", "failed", "missing", "pairs", "finished")] == [4, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("splits", "unit"), [(("test.de", "test.en", "test.sw"), "language"), (("test", "hard"), "test split")]
)
def test_several_test_splits_are_pairs_too(tmp_path, splits, unit):
    spoken = {split: split.partition(".")[2] for split in splits if "." in split}
    write_study(tmp_path, seeds=(0, 1), languages=spoken)
    for method, scores in {"full": [(0.7, 0.6, 0.5), (0.8, 0.7, 0.5)], "gradual:every=40": [(0.8, 0.6, 0.6)]}.items():
        for seed, row in enumerate(scores):
            file = finish(tmp_path, method, seed, 0.5, splits) / "scores.json"
            record = json.loads(file.read_text())
            record["tests"] = {split: {"macro_f1": score} for split, score in zip(splits, row, strict=False)}
            file.write_text(json.dumps(record))
    table = tables(tmp_path, SplitEvidenceSection)["statistics-splits"]
    assert table.title == f"Statistics: differences to full, paired by {unit}"
    (record,) = table.records
    # Only seed 0 is common: differences 0.1, 0 and 0.1 for the three languages.
    differences = [0.1, 0.0, 0.1][: len(splits)]
    assert (record["pairs"], record["planned"], record["paired_by"]) == (len(splits), len(splits), unit)
    assert record["difference"] == pytest.approx(sum(differences) / len(splits))
    assert record["p"] == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert "needed" not in lines(table)["gradual:every=40"]


def test_nothing_to_compare_no_table(tmp_path):
    assert tables(write_study(tmp_path / "one", methods=("full",), scores={"full": FULL})) == {}
    assert tables(write_study(tmp_path / "none")) == {}


def test_equal_scores_leave_the_tests_empty(tmp_path):
    write_study(tmp_path, scores={"full": FULL, "gradual:every=40": FULL})
    table = tables(tmp_path)["statistics"]
    shown = lines(table)["gradual:every=40"]
    assert {shown[key] for key in ("t", "p", "wilcoxon", "effect", "rank_biserial", "pairs_needed", "bootstrap")} == {
        "–"
    }
    assert table.notes == ("The same score as the reference for all 3 seeds: no test.",)


def test_what_only_some_methods_cannot_say_is_told_of_them_once(tmp_path):
    write_study(tmp_path, methods=(*SCORES, "bitfit"), scores={**SCORES, "head": [0.6], "bitfit": [0.5]})
    notes = tables(tmp_path)["statistics"].notes
    assert "head and bitfit: 1 common seed: no interval or test." in notes
    assert len(notes) == len(set(notes))


def test_mean_against_best_over_the_dev_evaluations(tmp_path):
    write_study(tmp_path, scores={"full": FULL})
    # Each run of the folder has two evaluations, the second 0.1 higher.
    table = stability_table(summarize_study(read_study(tmp_path)))
    full, gradual = table.records
    assert (full["runs"], full["evaluations"]) == (3, 6)
    assert (full["mean"], full["best"], full["gap"]) == pytest.approx((0.66, 0.71, 0.05))
    assert (gradual["runs"], gradual["mean"]) == (0, None)


def test_an_evaluation_that_is_not_finite_leaves_its_run_out(tmp_path):
    write_study(tmp_path, scores={"full": FULL})
    file = tmp_path / "runs" / "method-0" / "seed-1" / "history.jsonl"
    file.write_text(file.read_text() + '{"step": 90, "split": "dev", "macro_f1": NaN}\n')
    table = stability_table(summarize_study(read_study(tmp_path)))
    assert table.records[0]["runs"] == 2
    assert lines(table)["full"]["runs"] == "2 of 3"


def test_the_figure_of_mean_and_best_says_who_is_steadiest(tmp_path):
    write_study(tmp_path, scores={"full": FULL, "gradual:every=40": FULL})
    for file in tmp_path.glob("runs/method-1/*/history.jsonl"):
        file.write_text(file.read_text().replace('"step": 40, "epoch": 1.0, "split": "dev"', '"split": "train"'))
    section = StabilitySection.find(summarize_study(read_study(tmp_path)))
    (drawing,) = section.drawings()
    assert drawing.caption.startswith("The best evaluation of full is 5.0 from the mean of all.")
    assert "Mean and best: full 66.0 and 71.0." in drawing.text
