"""What is trained can be reported, whatever its names and numbers are."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from html import unescape
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from gradgate.report import write_report
from gradgate.report.export import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.formats import visible
from gradgate.report.page import render_page
from gradgate.report.sections import find_sections
from gradgate.report.sections.curves import draw_curves, find_curves
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.crossed import some_fast
from support.study_folder import fail, write_study
from support.written_report import printed

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FULL, OTHER = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
NAMES = {
    "closing markup": "[/x]",
    "markup and an emoji code": "[red]x[/red] :smile:",
    "an escape sequence": "\x1b[31mred\x1b[0m",
    "an operating system command": "\x1b]0;title\x07",
    "C1 controls": "a\x9b31mb",
    "a null byte": "a\x00b",
    "line breaks": "a\r\nb\nc",
    "300 characters": "x" * 300,
    "a formula": "=cmd()|' /C calc'!A0",
    "a minus sign": "-1+1",
    "an at sign": "@SUM(1)",
    "table signs": "a|b\\c_d%e$f&g#h~i^j{k}",
    "an underscore first": "_x",
    "a script": "<script>alert(1)</script>",
    "an attribute": "\" onload='x' <b>",
    "an entity": "&lt;b&gt; &#0;",
    "right to left": "שלום مرحبا",
    "an override of the direction": "a\u202egpj.exe",
    "emoji": "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "Chinese": "完整训练",
    "a lone surrogate": "a\ud800b",
    "a noncharacter": "a\uffffb",
    "nothing but space": "   ",
    "a mathematical formula": r"$\frac{1}{0$",
}
# One for each way in which a table, a page or a terminal could be misled.
FAST_NAMES = {
    *("closing markup", "an escape sequence", "C1 controls", "a null byte", "line breaks", "300 characters"),
    *("a formula", "table signs", "a script", "an override of the direction", "a lone surrogate", "nothing but space"),
}


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def no_figures(draw_only: Callable[..., None]) -> None:
    draw_only()


def shown(folder: Path) -> str:
    return printed(folder)


def check_files(folder: Path) -> None:
    """Every file can be parsed, none contains a control character, and a page has one script."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1
    for path in (folder / "report.html", *(folder / "tables").iterdir()):
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
        assert not CONTROLS.search(text), path.name
    for path in (folder / "tables").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        assert len({len(line) for line in lines}) == 1
        cells = [cell for line in lines for cell in line]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@") and not _is_number(cell)]
    for path in folder.glob("figures/*.svg"):
        ElementTree.parse(path)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def every_name(name: str) -> dict[str, Any]:
    """A study that has it wherever names are."""
    tests = (name, f"{name}2")
    scores = {"full": FULL, name: OTHER}
    own = {"name": name, "kind": name, "labels": [name, "b"], "fingerprint": name}
    return {"methods": ("full", name), "scores": scores, "tests": tests, **own}


@pytest.mark.usefixtures("no_figures")
@some_fast("case", list(NAMES), FAST_NAMES)
def test_any_name_is_text_everywhere(case: str, tmp_path: Path) -> None:
    name = NAMES[case]
    write_study(tmp_path, **every_name(name))
    fail(tmp_path, "full", 2, name)
    (tmp_path / "runs" / "method-0" / "seed-2" / "scores.json").unlink()
    write_report(tmp_path)
    check_files(tmp_path)
    text = shown(tmp_path)
    assert not CONTROLS.search(text)
    assert " ".join(visible(name).split())[:15] in " ".join(text.split())
    assert visible(name) in unescape((tmp_path / "report.html").read_text(encoding="utf-8")) or "\r" in name


@pytest.mark.slow
def test_all_names_at_once_are_in_the_figures(tmp_path: Path) -> None:
    write_study(tmp_path, methods=("full", *NAMES.values()), scores=dict.fromkeys(("full", *NAMES.values()), FULL))
    written = write_report(tmp_path)
    check_files(tmp_path)
    assert {path.stem for path in written.figures} == {"scores", "cost", "losses", "curves", "evaluations", "timeline"}
    assert "שלום مرحبا" in (tmp_path / "figures" / "scores.svg").read_text(encoding="utf-8")
    assert " _x" in (tmp_path / "figures" / "curves.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_figures")
def test_names_that_differ_by_case_alone_are_two(tmp_path: Path) -> None:
    write_study(tmp_path, methods=("Full", "full"), scores={"Full": FULL, "full": OTHER})
    write_report(tmp_path)
    with (tmp_path / "tables" / "main.csv").open(encoding="utf-8") as file:
        assert [(row["method"], row["finished"]) for row in csv.DictReader(file)] == [("Full", "3"), ("full", "3")]


NUMBERS = {
    "not a number": float("nan"),
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "too large for its square": 1e308,
    "large": 1e90,
    "tiny": 1e-320,
    "minus zero": -0.0,
    "zero": 0.0,
    "below zero": -0.5,
}


@pytest.mark.usefixtures("no_figures")
@some_fast("case", list(NUMBERS), ["not a number", "infinite", "too large for its square", "tiny", "below zero"])
@pytest.mark.parametrize("place", ["score", "loss", "cost", "history"])
def test_any_number_costs_no_more_than_what_it_belongs_to(place: str, case: str, tmp_path: Path) -> None:
    number = NUMBERS[case]
    write_study(tmp_path, scores={"full": FULL, "gradual:every=40": OTHER})
    _spoil(tmp_path / "runs" / "method-1" / "seed-1", place, number)
    write_report(tmp_path)
    check_files(tmp_path)
    with (tmp_path / "tables" / "main.csv").open(encoding="utf-8") as file:
        full, other = csv.DictReader(file)
    assert full["finished"] == "3"
    # A loss that is no number selects nothing and is left out; one too large to compute with counts as damage.
    lost = place != "history" and not abs(number) <= 1e100 and (place != "loss" or isfinite(number))
    assert other["finished"] == ("2" if lost else "3")
    if lost:
        page = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
        assert f"is {number:g}, expected a" in page


def _spoil(run: Path, place: str, number: float) -> None:
    if place == "history":
        line = {"step": 60, "epoch": number, "split": "dev", "loss": number, "macro_f1": number}
        with (run / "history.jsonl").open("a") as file:
            file.write(f"{json.dumps(line)}\n")
        return
    record = json.loads((run / "scores.json").read_text())
    if place == "score":
        record["tests"]["test"]["macro_f1"] = number
    elif place == "loss":
        record["tests"]["test"]["loss"] = record["dev"]["loss"] = number
    else:
        record["cost"] |= dict.fromkeys(("seconds_per_step", "seconds_total", "trainable_share"), number)
    (run / "scores.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("scores", "steps"),
    [
        # tests/report/test_report.py has studies like those that are slow here.
        pytest.param({"full": [0.7, 0.7, 0.7], "head": [0.7, 0.7, 0.7]}, 80, marks=pytest.mark.slow),
        pytest.param({"full": [0.7, 0.7 + 1e-16, 0.7 - 1e-16], "head": [0.0, 0.0, 0.0]}, 80, marks=pytest.mark.slow),
        pytest.param({"full": [1e90, -1e90, 1e90], "head": [1e-320, 0.0, -0.0]}, 80, marks=pytest.mark.slow),
        ({"full": [1e90, -1e90, 1e90], "head": [1e-320, 0.0, -0.0], "bitfit": [0.7, 0.7 + 1e-16, 0.7 - 1e-16]}, 80),
        pytest.param({"full": [0.7]}, 80, marks=pytest.mark.slow),
        pytest.param({"head": [0.7, 0.8]}, 80, marks=pytest.mark.slow),
        pytest.param({"full": FULL, "head": OTHER}, 0, marks=pytest.mark.slow),
    ],
    ids=["all equal", "equal but for rounding", "far apart", "both", "one seed", "no reference", "no steps"],
)
def test_odd_studies_are_reported(scores: dict[str, list[float]], steps: int, tmp_path: Path) -> None:
    write_study(tmp_path, methods=("full", "head", "bitfit"), scores=scores)
    for path in tmp_path.glob("runs/*/*/scores.json"):
        record = json.loads(path.read_text())
        if not steps:
            record["cost"] |= {"steps": 0, "seconds_per_step": 0.0, "seconds_total": 0.0, "trainable_share": 0.0}
        path.write_text(json.dumps(record | {"best_step": steps}))
    write_report(tmp_path)
    check_files(tmp_path)
    assert "full" in shown(tmp_path)


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "change", [{"cost": None}, {"cost": {}}, {"tests": None}, {"metric": "other"}, {"dev": {}}], ids=str
)
def test_a_run_that_lacks_what_is_needed_is_reported_as_failed(change: dict[str, Any], tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": FULL, "head": OTHER}, methods=("full", "head"))
    file = tmp_path / "runs" / "method-1" / "seed-0" / "scores.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    write_report(tmp_path)
    with (tmp_path / "tables" / "main.csv").open(encoding="utf-8") as table:
        assert [row["failed"] for row in csv.DictReader(table)] == ["0", "1"]


@some_fast("number", [float("nan"), 1e308, 1e90], [1e308])
def test_curves_leave_out_what_is_no_number(number: float, tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": FULL})
    _spoil(tmp_path / "runs" / "method-0" / "seed-1", "history", number)
    findings = summarize_study(read_study(tmp_path))
    ElementTree.fromstring(draw_curves(findings, find_curves(findings)).svg)


NAME = st.text(min_size=1, max_size=30)
SCORE = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=NAME.filter(lambda name: name != "full"),
    split=NAME,
    ours=st.lists(SCORE, max_size=3),
    theirs=st.lists(SCORE, max_size=3),
    cost=SCORE,
    metric=st.sampled_from(["macro_f1", "mse", "perplexity"]),
)
def test_tables_and_the_page_take_any_name_and_number(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    split: str,
    ours: list[float],
    theirs: list[float],
    cost: float,
    metric: str,
) -> None:
    folder = tmp_path_factory.mktemp("study")
    scores = {"full": theirs, name: ours}
    write_study(folder, methods=("full", name), scores=scores, tests=(split, "hard"), metric=metric)
    for path in folder.glob("runs/*/seed-0/scores.json"):
        record = json.loads(path.read_text())
        record["cost"]["seconds_total"] = cost
        path.write_text(json.dumps(record))
    findings = summarize_study(read_study(folder))
    sections = find_sections(findings)
    tables = [table for section in sections for table in section.tables()]
    page = render_page(findings, sections, tables, [])
    console = Console(width=80, record=True, file=io.StringIO())
    for table in tables:
        console.print(to_terminal(table, tuple(column.key for column in table.columns[:5]), console.width))
        for text in (to_csv(table), to_markdown(table), to_latex(table), page, console.export_text()):
            assert not CONTROLS.search(text.replace("\r\n", "\n"))
            text.encode()


@pytest.mark.usefixtures("no_figures")
def test_commands_on_the_page_are_quoted_for_the_shell_and_escaped_for_the_page(tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": FULL, "gradual:every=40": OTHER})
    file = tmp_path / "study.json"
    record = json.loads(file.read_text())
    model = "</pre><script>alert(1)</script>; rm -rf 'x'"
    record["settings"]["model"] = model
    file.write_text(json.dumps(record))
    write_report(tmp_path)
    check_files(tmp_path)
    lines = unescape((tmp_path / "report.html").read_text(encoding="utf-8")).splitlines()
    commands = [line for line in lines if "gradgate train" in line or "gradgate compare" in line]
    assert len(commands) == 2
    assert all(model in shlex.split(line[line.index("gradgate ") :].removesuffix("</pre>")) for line in commands)
