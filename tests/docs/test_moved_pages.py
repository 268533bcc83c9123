"""Earlier addresses of the site lead to the pages that replaced them."""

from __future__ import annotations

from pathlib import Path

from gradgate_site.check_links import faults
from gradgate_site.moved_pages import MOVED, write_moved


def test_each_earlier_address_links_to_a_page_that_is_there(tmp_path: Path) -> None:
    for new in MOVED.values():
        (tmp_path / f"{new}.html").parent.mkdir(exist_ok=True)
        (tmp_path / f"{new}.html").write_text("<p>here</p>", encoding="utf-8")
    write_moved(tmp_path)
    assert 'url=../evidence/what-to-use.html"' in (tmp_path / "guides" / "choose.html").read_text(encoding="utf-8")
    assert 'url=what-to-use.html"' in (tmp_path / "evidence" / "advice.html").read_text(encoding="utf-8")
    assert faults(tmp_path) == []
