"""The report's page in headless Chromium: nothing complains, tables sort, nothing overflows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradgate.report import write_report
from support.browser import CHROMIUM, Browser
from support.study_folder import fail, write_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH; on Debian: apt-get install chromium"),
]
HOSTILE = "<script>document.title='broken'</script>:x=1"
LONG = "gradual:" + "order=bottom-up-and-then-some-more," * 3 + "every=40"
SCORES = {"full": [0.68, 0.70, 0.72], HOSTILE: [0.70, 0.73, 0.74], LONG: [0.5, 0.6, 0.55], "head": [0.6]}
COLUMN = "[...document.querySelectorAll('#table-main tbody tr')].map(row => row.cells[{}].innerText.split(' ')[0])"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder, methods=tuple(SCORES), scores=SCORES, tests=("test", "hard"))
    fail(folder, "head", 1, HOSTILE)
    return write_report(folder).html


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose tables are long enough to be filtered."""
    scores = {"full": [0.7, 0.71], **{f"gradual:every={steps}": [0.6, 0.62 + steps / 1000] for steps in range(1, 10)}}
    folder = tmp_path_factory.mktemp("crowded")
    return write_report(write_study(folder, methods=tuple(scores), seeds=(0, 1), scores=scores)).html


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_overflows_and_nothing_complains(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.title") == "toy with toy-bert: gradgate study"
    assert browser.run("document.scripts.length") == 1
    assert browser.errors == []


def test_columns_sort_by_click_both_ways_with_missing_values_last(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    click = "document.querySelectorAll('#table-main th button')[1].click()"
    browser.run(click)
    assert browser.run(COLUMN.format(1)) == ["55.0", "60.0", "70.0", "72.3"]
    browser.run(click)
    assert browser.run(COLUMN.format(1)) == ["72.3", "70.0", "60.0", "55.0"]
    assert browser.run("document.querySelectorAll('#table-main th')[1].ariaSort") == "descending"
    browser.run("document.querySelectorAll('#table-main th button')[3].click()")
    assert browser.run(COLUMN.format(3))[-1] == "–"


def test_columns_sort_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    browser.run("document.querySelector('#table-main th button').focus()")
    browser.press("Tab")
    browser.press("Enter")
    assert browser.run(COLUMN.format(1)) == ["55.0", "60.0", "70.0", "72.3"]


def test_a_figure_leads_to_its_numbers(browser: Browser, page: Path) -> None:
    browser.open(page, 390)
    is_open = "document.querySelector('#table-timeline').closest('details').open"
    assert browser.run(is_open) is False
    click = "document.querySelector('a[href=\"#table-timeline\"]').click()"
    # The page's own listener was added first, so it has done its work when this one is called.
    followed = f"new Promise(done => {{ addEventListener('hashchange', () => done({is_open})); {click} }})"
    assert browser.run(followed) is True


def test_long_tables_can_be_filtered_by_several_words(browser: Browser, page: Path, crowded: Path) -> None:
    browser.open(page, 1280)
    assert browser.run("document.querySelector('#table-main').previousElementSibling.className") != "filter"
    browser.open(crowded, 1280)
    kept = """(words => {
        const input = document.querySelector('.filter');
        input.value = words;
        input.dispatchEvent(new Event('input'));
        return [...document.querySelectorAll('#table-main tbody tr')].filter(row => !row.hidden)
            .map(row => `${row.cells[0].firstChild.data}${row.cells[0].childNodes[2]?.data}`.trim());
    })"""
    assert len(browser.run(f"{kept}('')")) == 10
    assert browser.run(f"{kept}('EVERY=3 gradual')") == ["gradual:every=3"]
    assert browser.run(f"{kept}('nothing of it')") == []


def test_the_page_prints(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    assert browser.print().startswith(b"%PDF")
