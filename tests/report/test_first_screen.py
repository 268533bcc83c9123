"""The page begins with what to use and how; it reads without its script, and its rows lead to their files."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from gradgate.report import write_report
from support.study_folder import fail, write_study
from support.written_report import Page

SCORES = {
    "full": [0.70, 0.71, 0.72, 0.70, 0.73],
    "head": [0.60, 0.62, 0.61, 0.60, 0.62],
    "gradual:every=40": [0.75, 0.76, 0.77, 0.75, 0.781],
}
METHODS = ("full", "head", "gradual:every=40")


@pytest.fixture
def study(tmp_path: Path, draw_only) -> Path:
    draw_only()
    return write_study(tmp_path / "study", methods=METHODS, seeds=range(5), scores=SCORES)


def page_of(study: Path) -> str:
    page = write_report(study).html.read_text(encoding="utf-8").replace("\u00a0", " ")
    return page.replace("<span>", "").replace("</span>", "")  # which keep flags from breaking


def header(page: str) -> str:
    return unescape(page[page.index("<header>") : page.index("</header>")])


def test_the_first_screen_says_what_to_use_in_few_words(study: Path) -> None:
    for folder in study.glob("runs/*/*"):
        (folder / "model").mkdir()
    first = header(page_of(study))
    assert '<p class="answer">Use gradual:every=40.</p>' in first
    assert "points higher than full (corrected 95% interval:" in first
    assert "gradgate export runs/method-2/seed-4 --out model" in first, "the best on dev"
    assert "gradgate train --model sample --task sample -m gradual:every=40" in first
    assert "model, tokenizer = gg.Run('runs/method-2/seed-4').load()" in first
    assert len(Page(first).text.split()) <= 80


def test_without_a_kept_model_the_lines_train_one(study: Path) -> None:
    first = header(page_of(study))
    assert "gg.train(model='sample', task='sample', method='gradual:every=40'" in first
    assert "gradgate export" not in first


def test_the_table_is_sorted_by_score_and_the_file_as_the_study(study: Path) -> None:
    page = page_of(study)
    main = page[page.index('id="table-main"') :]
    main = main[: main.index("</table>")]
    order = [main.index(f">{name.replace(':', ':<wbr>')}") for name in ("gradual:every=40", "full", "head")]
    assert order == sorted(order)
    assert main.count('class="bar"') == 3
    lines = (study / "tables/main.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == [*METHODS]


def test_the_bars_of_a_table_share_one_scale(study: Path) -> None:
    found = re.findall(r"--low: ([\d.]+)%; --mean: ([\d.]+)%; --high: ([\d.]+)%", page_of(study))
    places = [tuple(map(float, each)) for each in found]
    assert all(0 <= low < mean < high <= 100 for low, mean, high in places)
    assert [mean for _, mean, _ in places] == sorted((mean for _, mean, _ in places), reverse=True)


def test_rows_lead_to_the_runs_settings_and_logs_that_exist(study: Path) -> None:
    (study / "runs/method-0/seed-0.log").write_text("a line")
    links = [link for link in Page(page_of(study)).links if link.startswith("runs/")]
    assert {"runs/method-0/", "runs/method-0/seed-0/run.json", "runs/method-0/seed-0.log"} <= {*links}
    assert "runs/method-1/seed-0.log" not in links
    assert all((study / link).exists() for link in links)


def test_no_row_leads_out_of_the_study(study: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.log"
    outside.write_text("not of this study")
    (study / "runs/method-0/seed-0.log").symlink_to(outside)
    assert "runs/method-0/seed-0.log" not in Page(page_of(study)).links


def test_the_page_says_how_to_repeat_and_to_continue(study: Path) -> None:
    page = unescape(page_of(study))
    again = "gradgate compare --task sample --model sample -m full -m head -m gradual:every=40 --seeds 0,1,2,3,4"
    assert again in page
    assert "study retry" not in page
    fail(study, "head", 4)
    (study / "runs/method-1/seed-4/scores.json").unlink()
    assert "gradgate study retry .\ngradgate worker ." in page_of(study)


def test_nothing_on_the_page_waits_for_its_script(study: Path) -> None:
    """Every arm and score is there, no element is hidden, and no rule of the style hides one on a screen."""
    html = page_of(study)
    page = Page(html)
    assert [tag for tag, attrs in page.tags if "hidden" in attrs or tag == "noscript"] == []
    style = html[html.index("<style>") : html.index("</style>")]
    on_screen, _, printed = style.partition("@media print")
    assert "display: none" in printed, "the print rules come last"
    assert not re.search("display: *none|visibility: *hidden", on_screen)
    assert all(text in page.text for text in (*METHODS, "71.2 ± 1.3", "61.0 ± 1.0", "76.2 ± 1.3"))


def test_the_size_of_a_page_stays_small(study: Path) -> None:
    assert write_report(study).html.stat().st_size < 100_000
