"""Make every page and table of the evidence that follows from the committed numbers."""

from __future__ import annotations

from pathlib import Path

from evidence import advice, authors_page, page
from evidence.studies import read_studies
from evidence.verdicts import check_all


def written() -> dict[Path, str]:
    """Return each generated file with its text."""
    studies, found = read_studies(), check_all()
    return {
        page.PAGE: page.page(found, studies),
        authors_page.PAGE: authors_page.authors_page(),
        advice.ADVICE: advice.advice(studies, found),
    }
