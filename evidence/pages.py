"""Make every page and table of the evidence that follows from the committed numbers."""

from __future__ import annotations

from pathlib import Path

from evidence import authors_page, front_pages, page, scoreboard, what_to_use
from evidence.studies import read_studies
from evidence.verdicts import check_all
from gradgate.papers.scoreboard import FILE, SCOREBOARD


def written() -> dict[Path, str]:
    """Return each generated file with its text; the scoreboard is also in the package, for ``gradgate papers``."""
    studies, found = read_studies(), check_all()
    cells = scoreboard.scoreboard_cells(found, studies)
    table = SCOREBOARD.text([cell.row for cell in cells])
    return {
        scoreboard.TABLE: table,
        FILE: table,
        scoreboard.PAGE: scoreboard.scoreboard_page(found, cells),
        page.PAGE: page.page(found, studies),
        authors_page.PAGE: authors_page.authors_page(),
        **what_to_use.written(),
        **front_pages.written(),
    }
