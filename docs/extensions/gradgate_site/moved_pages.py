"""Lead from addresses of earlier versions of the site to the pages that replaced them."""

from __future__ import annotations

import os.path
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MOVED = {"guides/choose": "evidence/what-to-use", "evidence/advice": "evidence/what-to-use"}
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={to}"><link rel="canonical" href="{to}"></head>
<body><p>This page is now <a href="{to}">{to}</a>.</p></body></html>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages after the site."""
    app.connect("build-finished", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx, error: Exception | None) -> None:
    """Write a page at each earlier address of an HTML site."""
    if error is None and app.builder.name == "html":
        write_moved(Path(app.outdir))


def write_moved(site: Path) -> None:
    """Write a page at each earlier address that opens the new one."""
    for old, new in MOVED.items():
        file = site / f"{old}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        to = Path(os.path.relpath(site / f"{new}.html", file.parent)).as_posix()
        file.write_text(_PAGE.format(to=escape(to, quote=True)), encoding="utf-8")
