"""Pages that are made from the code: they are rewritten only where they differ, so that Sphinx reads few again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def tell(kind: str, name: str) -> None:
    """Say which page is being made."""
    from sphinx.util import logging  # tests of the pages need no Sphinx

    logging.getLogger(__name__).info("making the page of the %s %s", kind, name)


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write the pages of a folder next to its index.md, and remove those that are no longer made."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in {*pages, "index.md"}:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
