"""Make every page and table that follows from the committed numbers."""

from __future__ import annotations

from pathlib import Path

from evidence import authors_page, front_pages, page, scoreboard, what_to_use
from evidence.gaps import gaps
from evidence.spreads import spreads
from evidence.studies import read_studies
from evidence.verdicts import check_all
from gradgate.papers.scoreboard import FILE, SCOREBOARD
from gradgate.study.recommend.evidence import FILE as GAPS_FILE
from gradgate.study.recommend.evidence import GAPS
from gradgate.study.spreads import FILE as SPREADS_FILE
from gradgate.study.spreads import SPREADS


def written() -> dict[Path, str]:
    """Return each generated file with its text.

    Three are in the package: the scoreboard, for ``gradgate papers``, the gaps of arms, for ``gradgate recommend``, and
    the spreads of differences, for ``gradgate compare --dry-run``.
    """
    studies, found = read_studies(), check_all()
    cells = scoreboard.scoreboard_cells(found, studies)
    table = SCOREBOARD.text([cell.row for cell in cells])
    return {
        scoreboard.TABLE: table,
        FILE: table,
        GAPS_FILE: GAPS.text(gaps()),
        SPREADS_FILE: SPREADS.text(spreads()),
        scoreboard.PAGE: scoreboard.scoreboard_page(found, cells),
        page.PAGE: page.page(found, studies),
        authors_page.PAGE: authors_page.authors_page(),
        **what_to_use.written(),
        **front_pages.written(),
    }
