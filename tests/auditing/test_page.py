"""The guide has a paragraph on each finding, and the report says where it is."""

from __future__ import annotations

import re
from pathlib import Path

from gradgate.auditing.findings import KINDS
from gradgate.auditing.report import EXPLAINED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "audit.md"


def test_each_finding_is_an_anchor_of_the_page_and_no_other_is() -> None:
    found = re.findall(r"^\((\w+)\)=\n### (\w+)\n(.+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(anchor for anchor, _, _ in found) == KINDS
    assert [anchor for anchor, heading, _ in found if anchor != heading] == []


def test_a_report_names_the_page() -> None:
    title = PAGE.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    assert f'"{title}" ({PAGE.relative_to(ROOT).as_posix()})' in EXPLAINED
