"""Several test splits: the t statistic of each, and of all together."""

from __future__ import annotations

import json

import pytest
from scipy import stats

from gradgate.report.sections.from_papers.t_statistics import draw_t, t_table
from gradgate.report.split_tests import find_split_tests
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import finish, write_study

SPLITS = ("test.en", "test.de", "test.sw")
# Seed to the scores of the splits.
FULL = [(0.80, 0.70, 0.60), (0.82, 0.71, 0.64), (0.81, 0.75, 0.61)]
HEAD = [(0.81, 0.70, 0.66), (0.84, 0.75, 0.69), (0.80, 0.79, 0.68)]


def study(folder, scores, splits=SPLITS):
    spoken = {split: split.removeprefix("test.") for split in splits}
    write_study(folder, methods=tuple(scores), tests=splits, languages=spoken)
    for method, seeds in scores.items():
        for seed, row in enumerate(seeds):
            file = finish(folder, method, seed, 0.5, splits) / "scores.json"
            record = json.loads(file.read_text())
            record["tests"] = {split: {"macro_f1": score} for split, score in zip(splits, row, strict=False)}
            file.write_text(json.dumps(record))
    return summarize_study(read_study(folder))


def test_each_split_has_its_t_over_seeds_and_all_have_one_over_languages(tmp_path):
    findings = study(tmp_path, {"full": FULL, "head": HEAD})
    together, *single = find_split_tests(findings)
    means = [[sum(column) / 3 for column in zip(*scores, strict=True)] for scores in (HEAD, FULL)]
    assert together.unit == "language"
    assert together.tests[0].t == pytest.approx(stats.ttest_rel(*means).statistic)
    assert [line.name for line in single] == ["en (source)", "de", "sw"]
    for place, line in enumerate(single):
        expected = stats.ttest_rel([row[place] for row in HEAD], [row[place] for row in FULL])
        assert line.tests[0].t == pytest.approx(expected.statistic)
        assert line.tests[0].p == pytest.approx(expected.pvalue)
        assert line.limit == pytest.approx(4.302653, abs=1e-6)  # of 2 degrees of freedom
    raw = [line.tests[0].p for line in single]
    assert min(line.p[0] for line in single) == pytest.approx(3 * min(raw))


def test_the_table_and_the_figure_have_the_same_numbers(tmp_path):
    findings = study(tmp_path, {"full": FULL, "head": HEAD})
    lines = find_split_tests(findings)
    table, drawing = t_table(findings, lines), draw_t(findings, lines)
    assert [row[0].text for row in table.rows] == ["over languages", "en (source)", "de", "sw"]
    for row in table.rows:
        assert f"{row[0].text} {row[2].text.rstrip('*')}" in drawing.text
    assert (drawing.table, len(table.records)) == (table.name, 4)


@pytest.mark.parametrize(
    ("scores", "splits"),
    [({"full": FULL}, SPLITS), ({"full": FULL, "head": []}, SPLITS), ({"full": FULL, "head": HEAD}, ("test.en",))],
    ids=["one method", "nothing to pair", "one split"],
)
def test_without_a_test_there_is_nothing_to_show(tmp_path, scores, splits):
    assert find_split_tests(study(tmp_path, scores, splits)) == []
