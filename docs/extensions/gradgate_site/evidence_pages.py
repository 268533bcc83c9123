"""The pages of the evidence: its Markdown files, with the numbers, settings and figures that they point to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate_site.evidence_found import EVIDENCE
from gradgate_site.files import tell

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SUFFIXES = (".md", ".csv", ".yaml", ".svg")
INDEX = "README.md"


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy the pages before Sphinx reads any."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Copy ``evidence/`` to ``docs/evidence``, where its README is the index."""
    tell("evidence", "of all studies")
    target = Path(app.srcdir) / "evidence"
    shutil.rmtree(target, ignore_errors=True)
    copy_pages(EVIDENCE, target)


def copy_pages(source: Path, target: Path) -> None:
    """Copy the files of the pages, with the other pages in the table of contents of the first."""
    for file in sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)
    others = sorted(str(page.relative_to(target).with_suffix("")) for page in target.rglob("*.md"))
    toctree = "\n".join(page for page in others if page != Path(INDEX).stem)
    index = (target / INDEX).read_text(encoding="utf-8")
    (target / INDEX).write_text(f"{index}\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n", encoding="utf-8")
