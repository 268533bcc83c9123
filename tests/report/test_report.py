"""A study folder turned into tables, figures and a page."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import yaml
from rich.console import Console

from gradgate.errors import RunError
from gradgate.methods.plan_file import read_timeline
from gradgate.report import render_table, write_report
from gradgate.report.sections import find_sections
from gradgate.report.sections.curves import draw_curves, find_curves
from gradgate.report.sections.timeline import TimelineSection
from gradgate.report.study_summary import summarize_study
from gradgate.report.table import Entry, ranked, significance
from gradgate.study.results import read_study
from support.study_folder import fail, write_study

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL}
HOSTILE = "<script>alert(1)</script>:x_y=$5%,a&b"


class Page(HTMLParser):
    """What a browser would see: tags with attributes, ids, and text outside style and script."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.ids, self.text, self._hidden = [], [], "", 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data):
        self.text += "" if self._hidden else data


def report(folder, **study):
    written = write_report(write_study(folder, **study))
    return written, written.html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The whole report of a study of two methods: its folder, its files and its page. Not to be changed."""
    folder = tmp_path_factory.mktemp("plain")
    return folder, *report(folder, scores=SCORES)


@pytest.fixture
def no_figures(draw_only):
    draw_only()


def tables_of(folder, **study):
    sections = find_sections(summarize_study(read_study(write_study(folder, **study))))
    return {table.name: table for section in sections for table in section.tables()}


def rows(folder, name):
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_is_written_and_named(plain):
    folder, written, _ = plain
    assert written.html == folder / "report.html"
    expected = {
        f"{table}.{kind}"
        for table in (
            "main",
            "verdicts",
            "statistics",
            "seeds",
            "metrics",
            "evaluations",
            "curves",
            "losses",
            "timeline",
        )
        for kind in ("csv", "md", "tex")
    }
    assert {path.name for path in written.tables} == expected
    figures = {
        f"{name}.{kind}"
        for name in ("scores", "cost", "curves", "losses", "evaluations", "timeline")
        for kind in ("svg", "pdf")
    }
    assert {path.name for path in written.figures} == figures
    assert all(path.read_bytes().startswith(b"%PDF") for path in written.figures if path.suffix == ".pdf")
    assert all(path.is_file() for path in (written.html, *written.tables, *written.figures))


def test_equal_studies_give_equal_bytes_and_matplotlib_is_left_alone(plain, tmp_path):
    before = dict(mpl.rcParams)
    _, first, _ = plain
    second, _ = report(tmp_path, scores=SCORES)
    for here, there in zip((first.html, *first.figures), (second.html, *second.figures), strict=True):
        assert here.read_bytes() == there.read_bytes()
    assert dict(mpl.rcParams) == before


def test_the_csv_has_full_precision_and_the_others_are_rounded(plain):
    folder = plain[0]
    full, gradual = rows(folder, "main")
    assert float(gradual["mean"]) == pytest.approx(np.mean(GRADUAL), rel=1e-15)
    assert float(gradual["difference"]) == pytest.approx(0.07 / 3, rel=1e-12)
    assert float(gradual["seconds_per_step_ratio"]) == 0.5
    assert (full["difference"], full["p_holm"], full["finished"]) == ("", "", "3")
    markdown = (folder / "tables" / "main.md").read_text()
    assert "| gradual:every=40 | **72.3 ± 2.1** | +2.3\\* \\[+0.9 to +3.8\\] | 0.020 | 3 of 3 |" in markdown
    assert "| 25 % | 200 | 10.0 ms (0.50×) | 412 MB | 1.00 s (0.50×) |" in markdown


@pytest.mark.usefixtures("no_figures")
def test_every_run_is_in_the_table_of_seeds(tmp_path):
    write_study(tmp_path, scores={"full": FULL[:1]})
    fail(tmp_path, "full", 1, "too hot")
    write_report(tmp_path)
    found = {(row["method"], row["seed"]): row for row in rows(tmp_path, "seeds")}
    assert len(found) == 6
    assert (found["full", "0"]["status"], float(found["full", "0"]["test_score"])) == ("finished", 0.68)
    assert (found["full", "1"]["status"], found["full", "1"]["error"]) == ("failed", "NonFiniteError: too hot")
    assert found["gradual:every=40", "2"]["status"] == "missing"


@pytest.mark.usefixtures("no_figures")
def test_several_test_splits_get_a_table_with_their_average(tmp_path):
    report(tmp_path, scores=SCORES, tests=("en", "de", "zh"))
    found = {(row["method"], row["split"]): float(row["mean"]) for row in rows(tmp_path, "splits")}
    assert found["full", "de"] == pytest.approx(0.6)
    assert found["full", "average"] == pytest.approx(0.6)
    assert found["gradual:every=40", "zh"] == pytest.approx(np.mean(GRADUAL) - 0.2)


@pytest.mark.usefixtures("no_figures")
def test_latex_escapes_every_special_sign(tmp_path):
    name = r"a_b:c=5%,$x&y#{z}~^\<>|" + '"[1]'
    report(tmp_path, methods=("full", name), scores={"full": FULL})
    source = (tmp_path / "tables" / "main.tex").read_text()
    assert (
        r"a\_b:c=5\%,\$x\&y\#\{z\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
        r"\textless{}\textgreater{}\textbar{}\char34{}{[}1]"
    ) in source
    body = source.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert [line.endswith(r" \\") for line in body] == [True, True]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {10}
    assert all(sign.isascii() for sign in source)


@pytest.mark.usefixtures("no_figures")
def test_markdown_escapes_what_would_break_the_table(tmp_path):
    report(tmp_path, methods=("full", "a|b*c_d`<i>"), scores={"full": FULL})
    assert r"| a\|b\*c\_d\`\<i\> |" in (tmp_path / "tables" / "main.md").read_text()


@pytest.mark.usefixtures("no_figures")
def test_the_best_and_the_second_best_are_marked_in_every_form(tmp_path):
    methods = {"full": FULL, "gradual:every=40": GRADUAL, "head": [0.5, 0.6, 0.55]}
    _, html = report(tmp_path, methods=tuple(methods), scores=methods)
    markdown, latex = ((tmp_path / "tables" / f"main.{kind}").read_text() for kind in ("md", "tex"))
    assert "| **72.3 ± 2.1** |" in markdown
    assert "| *70.0 ± 2.0* |" in markdown
    assert "| 55.0 ± 5.0 |" in markdown
    assert "Bold: best. Italic: second best." in markdown
    assert r"\textbf{72.3 $\pm$ 2.1}" in latex
    assert r"\underline{70.0 $\pm$ 2.0}" in latex
    text = " ".join(Page(html).text.split())
    assert "72.3 ± 2.1 (best)" in text
    assert "70.0 ± 2.0 (second best)" in text


def test_level_methods_share_their_rank_and_two_have_no_second(tmp_path):
    entries = [Entry("a", 0.5), Entry("b", 0.5), Entry("–"), Entry("c", 0.4)]
    assert [entry.rank for entry in ranked(entries, higher_is_better=True)] == ["best", "best", "", ""]
    assert [entry.rank for entry in ranked(entries, higher_is_better=False)] == ["", "", "", "best"]
    assert not any(entry.rank for entry in ranked(entries[:3], higher_is_better=True))


@pytest.mark.parametrize(
    ("p", "stars"), [(None, ""), (0.05, ""), (0.049, "*"), (0.01, "*"), (0.009, "**"), (0.0, "***")]
)
def test_stars_are_for_p_below_their_level(p, stars):
    assert significance(p) == stars


def test_curves_are_told_by_step_and_epoch(tmp_path):
    curves = tables_of(tmp_path, scores=SCORES)["curves"]
    assert [[entry.text for entry in row] for row in curves.rows] == [
        ["40", "1", "61.0 ± 2.0", "63.3 ± 2.1"],
        ["80", "2", "71.0 ± 2.0", "73.3 ± 2.1"],
    ]
    assert [(record["method"], record["step"], record["n"]) for record in curves.records][-1] == (
        "gradual:every=40",
        80,
        3,
    )


@pytest.mark.parametrize("noted", [True, False])
def test_curves_run_over_epochs_or_else_over_steps(tmp_path, noted):
    write_study(tmp_path, methods=("full",), seeds=(0,), scores={"full": [0.7]})
    file = next(tmp_path.glob("runs/*/*/history.jsonl"))
    file.write_text(file.read_text() if noted else file.read_text().replace('"epoch"', '"unknown"'))
    findings = summarize_study(read_study(tmp_path))
    drawing = draw_curves(findings, find_curves(findings))
    assert ("epochs" in drawing.svg, "optimizer steps" in drawing.svg) == (noted, True)


def test_the_timeline_is_a_table_too(tmp_path):
    timeline = tables_of(tmp_path, scores=SCORES)["timeline"]
    # Of the bottom layer 0.8 learns from step 41 of 80 on; the embeddings never do.
    assert [[entry.line for entry in row] for row in timeline.rows] == [
        ["head", "100 %", "100 %"],
        ["layers.1", "100 %", "50 % (from step 41)"],
        ["layers.0", "100 %", "40 % (from step 41)"],
        ["embeddings", "100 %", "0 %"],
    ]


def test_names_from_outside_are_text_in_the_page(tmp_path):
    write_study(tmp_path, methods=("full", HOSTILE), scores={"full": FULL, HOSTILE: GRADUAL}, labels=[HOSTILE, "b"])
    fail(tmp_path, "full", 2, HOSTILE)
    (tmp_path / "runs" / "method-0" / "seed-2" / "scores.json").unlink()
    page = Page(write_report(tmp_path).html.read_text(encoding="utf-8"))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert page.text.count(HOSTILE) >= 4
    for figure in (tmp_path / "figures").glob("*.svg"):
        assert not list(ElementTree.parse(figure).iter("{http://www.w3.org/2000/svg}script"))


def test_the_page_loads_nothing(plain):
    html = plain[2]
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "base")]
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("href", "src")]
    assert all(re.match(r"(tables|figures|runs)/|#|data:image/png;base64,", address) for address in addresses)
    assert "http://" not in html
    assert "https://" not in html
    assert "url(http" not in html
    policy = next(attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'")


def test_links_of_the_page_lead_to_files(tmp_path):
    _, html = report(tmp_path, scores=SCORES, tests=("en", "de"))
    links = [attrs["href"] for tag, attrs in Page(html).tags if tag == "a"]
    inside = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert inside == {"table-main", "table-curves", "table-timeline"}
    assert inside <= set(Page(html).ids)
    files = [link for link in links if link.startswith(("tables/", "figures/"))]
    assert len(files) == 8 * 3 + 4 * 2 + 4  # of four more tables, the CSV files
    assert all((tmp_path / link).is_file() for link in files)
    runs = [link for link in links if link.startswith("runs/")]
    assert {*links} == {*files, *runs, *(f"#{name}" for name in inside)}
    assert all((tmp_path / unquote(link)).exists() for link in runs)
    assert len(runs) == 2 * 2, "folder and settings of each arm; there is no log"


def test_figures_have_a_text_alternative_with_the_numbers_and_ids_of_their_own(plain):
    folder, _, html = plain
    page = Page(html)
    labels = {attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"}
    assert "Scores. macro-F1 × 100 on test: full 70.0 ± 2.0 (3 seeds); gradual:every=40 72.3 ± 2.1 (3 seeds)." in labels
    assert (
        "What was open when. full keeps 4 of 4 groups open throughout; "
        "gradual:every=40 starts with 1 of 4 groups open and has 3 open from step 40."
    ) in labels
    assert len(labels) == 4
    assert len(page.ids) == len(set(page.ids))
    root = ElementTree.parse(folder / "figures" / "cost.svg").getroot()
    described = root.find("{http://www.w3.org/2000/svg}desc").text
    assert "gradual:every=40 72.3 at 10.0 ms a step with 25 % of the parameters learning" in described


def test_references_inside_figures_lead_to_ids(plain):
    html = plain[2]
    ids = set(Page(html).ids)
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert used
    assert used <= ids


@pytest.mark.usefixtures("no_figures")
def test_what_failed_and_what_is_missing_is_on_the_page(tmp_path):
    write_study(tmp_path, scores={"full": FULL})
    fail(tmp_path, "gradual:every=40", 0, "The loss became nan.\nLower --lr.", step=7)
    text = Page(write_report(tmp_path).html.read_text(encoding="utf-8")).text
    assert "NonFiniteError after step 7 in runs/method-1/seed-0" in text
    assert "The loss became nan.\nLower --lr." in text
    assert "gradual:every=40, seed 2" in text


@pytest.mark.parametrize(
    "study",
    [
        {"methods": ("full",), "seeds": (0,), "scores": {"full": [0.7]}},
        {"methods": ("full",), "scores": {"full": [0.7, 0.7, 0.7]}, "tests": ()},
        {"scores": {"gradual:every=40": [0.0]}},
        {"scores": {"full": [0.5, 0.9], "gradual:every=40": [0.6, 0.6]}, "metric": "mse", "labels": None},
        {"methods": [f"gradual:every={n}" for n in range(1, 20)], "scores": {"gradual:every=1": FULL}},
    ],
    ids=["one run", "no spread, no test split", "no reference", "errors", "many methods"],
)
def test_odd_studies_still_give_a_report(tmp_path, study, recwarn):
    written, html = report(tmp_path, **study)
    assert len(written.figures) == 2 * 6
    assert "How the numbers are made" in html
    assert not recwarn.list


def test_a_study_with_nothing_finished_says_so(tmp_path):
    written, html = report(tmp_path)
    assert written.figures == ()
    assert "Nothing has finished yet." in html
    assert len(rows(tmp_path, "main")) == 2


def test_a_damaged_plan_costs_its_timeline_only(tmp_path, draw_only):
    draw_only(TimelineSection)
    write_study(tmp_path, scores=SCORES)
    (tmp_path / "runs" / "method-1" / "seed-0" / "plan.yaml").write_text("groups: [")
    written = write_report(tmp_path)
    assert "No timeline for gradual:every=40" in written.html.read_text()
    assert tmp_path / "figures" / "timeline.svg" in written.figures
    assert [row["finished"] for row in rows(tmp_path, "main")] == ["3", "3"]


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(("metric", "left"), [("macro_f1", "2"), ("loss", "3")])
def test_a_number_that_is_not_finite_costs_no_more_than_what_it_belongs_to(tmp_path, metric, left):
    write_study(tmp_path, scores=SCORES, tests=("test", "hard"))
    file = tmp_path / "runs" / "method-1" / "seed-0" / "scores.json"
    record = json.loads(file.read_text())
    record["tests"]["hard"][metric] = float("nan")
    file.write_text(json.dumps(record))
    write_report(tmp_path)
    assert [row["finished"] for row in rows(tmp_path, "main")] == ["3", left]
    found = {(row["method"], row["split"], row["metric"]): row["n"] for row in rows(tmp_path, "metrics")}
    assert found["gradual:every=40", "hard", metric] == "2"


def test_no_study_no_report(tmp_path):
    with pytest.raises(RunError, match="holds no study"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_plans_become_shares_of_each_group(tmp_path):
    write_study(tmp_path, scores=SCORES)
    plan = read_timeline(tmp_path / "runs" / "method-1" / "seed-0" / "plan.yaml")
    # Embeddings closed, layer 0 with 0.8 from step 40 of 80, layer 1 open from then, head open from the start.
    np.testing.assert_allclose(plan.shares(4), [[0, 0, 0, 0], [0, 0, 0.8, 0.8], [0, 0, 1, 1], [1, 1, 1, 1]], rtol=1e-6)
    np.testing.assert_allclose(plan.shares(1)[:, 0], [0, 0.4, 0.5, 1], rtol=1e-6)
    assert plan.shares(1000).shape == (4, 80)


def test_a_plan_that_changes_at_every_step_stays_a_small_figure(tmp_path, draw_only):
    draw_only(TimelineSection)
    write_study(tmp_path, methods=("full",), scores={"full": FULL})
    phases = [{"step": step, "open": ["head"] if step % 2 else ["layers.0"]} for step in range(3000)]
    plan = {"groups": ["layers.0", "head"], "steps": 3000, "phases": phases}
    (tmp_path / "runs" / "method-0" / "seed-0" / "plan.yaml").write_text(yaml.safe_dump(plan))
    write_report(tmp_path)
    assert (tmp_path / "figures" / "timeline.svg").stat().st_size < 30_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phases": [{"step": 0, "open": ["tail"]}]}, r"groups that the plan does not list: \['tail'\]"),
        ({"phases": []}, "expected phases in order"),
        ({"phases": [{"step": 5, "open": []}, {"step": 0, "open": []}]}, "expected phases in order"),
        ({"phases": [{"step": 80, "open": []}]}, "before step 80"),
        ({"steps": "many"}, "steps is 'many': expected a whole number"),
    ],
)
def test_damaged_plans_are_refused(tmp_path, change, reason):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({"groups": ["head"], "steps": 80, "phases": [{"step": 0, "open": []}], **change}))
    with pytest.raises(RunError, match=reason):
        read_timeline(path)


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_terminal_shows_the_same_numbers_in_whatever_width(tmp_path, width):
    write_study(tmp_path, methods=("full", "[red]x[/red]"), scores={"full": FULL, "[red]x[/red]": GRADUAL})
    console = Console(width=width, record=True, file=io.StringIO())
    render_table(tmp_path, console)
    text = console.export_text()
    assert "72.3 ± 2.1" in text
    assert "[red]x[/red] scored highest on test" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width
    assert ("10.0 ms (0.50×)" in text) == (width == 140)
