"""Check that every link inside a built site leads to a file that exists and an anchor that the file has.

It takes the folder of the site. It reads files only; addresses elsewhere are not opened.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value and (key in ("href", "src")):
                self.links.add(value)
            elif value and key in ("id", "name"):
                self.anchors.add(value)


def faults(site: Path) -> list[str]:
    """One line for each link that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                found.append(f"{path.relative_to(site.resolve())}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                found.append(f"{path.relative_to(site.resolve())}: {link} leads to no anchor")
    return found


if __name__ == "__main__":
    found = faults(Path(sys.argv[1]))
    print("\n".join(found) or "Every link inside the site leads somewhere.")
    sys.exit(bool(found))
