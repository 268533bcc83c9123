"""The page: what it shows of names from outside, what it loads, and where its links lead."""

from __future__ import annotations

import re
from urllib.parse import unquote
from xml.etree import ElementTree

from gradgate.report import write_report
from gradgate.report.drawing import style_of
from support.study_folder import fail, write_study
from support.written_report import Page

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
HOSTILE = "<script>alert(1)</script>:x_y=$5%,a&b"


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


def test_links_of_the_page_lead_to_files(plain):
    folder, _, html = plain
    links = Page(html).links
    inside = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert inside == {"table-main", "table-curves", "table-timeline"}
    assert inside <= set(Page(html).ids)
    files = [link for link in links if link.startswith(("tables/", "figures/"))]
    assert len(files) == 6 * 3 + 4 * 2 + 3  # of three more tables, the CSV files
    assert all((folder / link).is_file() for link in files)
    runs = [link for link in links if link.startswith("runs/")]
    assert {*links} == {*files, *runs, *(f"#{name}" for name in inside)}
    assert all((folder / unquote(link)).exists() for link in runs)
    assert len(runs) == 2 * 2, "folder and settings of each arm; there is no log"


def test_figures_have_a_text_alternative_with_the_numbers_and_ids_of_their_own(plain):
    folder, _, html = plain
    page = Page(html)
    labels = {attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"}
    assert "Scores. macro-F1 × 100 on test: full 70.0 ± 2.0 (3 seeds); gradual:every=40 72.3 ± 2.1 (3 seeds)." in labels
    assert (
        "What was trained when. full trains 4 of 4 groups throughout; gradual:every=40 starts with 1 of 4 groups "
        "and trains 3 from step 41."
    ) in labels
    assert len(labels) == 4
    assert len(page.ids) == len(set(page.ids))
    root = ElementTree.parse(folder / "figures" / "cost.svg").getroot()
    described = root.find("{http://www.w3.org/2000/svg}desc").text
    assert "gradual:every=40 72.3 at 10.0 ms per step with 25 % of the parameters trained" in described


def test_the_dark_page_lightens_the_colours_of_methods_and_files_keep_them(plain):
    folder, _, page = plain
    colour = style_of(1).colour
    assert f"stroke: {colour}; stroke: oklch(from {colour} max(l, var(--least, 0)) c h)" in page
    drawn = (folder / "figures/scores.svg").read_text(encoding="utf-8")
    assert colour in drawn
    assert "oklch" not in drawn


def test_the_table_says_that_its_intervals_are_corrected(plain):
    _, _, page = plain
    assert "In brackets: 95% intervals of the differences, corrected" in page


def test_references_inside_figures_lead_to_ids(plain):
    html = plain[2]
    ids = set(Page(html).ids)
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert used
    assert used <= ids


def test_what_failed_and_what_is_missing_is_on_the_page(tmp_path, draw_only):
    draw_only()
    write_study(tmp_path, scores={"full": FULL})
    fail(tmp_path, "gradual:every=40", 0, "The loss became nan.\nLower --lr.", step=7)
    text = Page(write_report(tmp_path).html.read_text(encoding="utf-8")).text
    assert "NonFiniteError after step 7 in runs/method-1/seed-0" in text
    assert "The loss became nan.\nLower --lr." in text
    assert "gradual:every=40, seed 2" in text
