"""The tables of the forms that data may have, made from the readers: ``docs/forms/*.inc``, which a guide includes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.tasks.forms import FORMS, Form
from gradgate.tasks.readers.file_forms import FILE_FORMS, FOLDER_FORMS, FileForm
from gradgate_site.files import tell, write_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the tables before Sphinx reads any page."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Write the tables of files, of rows, and of rows that are not read."""
    tell("table", "of forms")
    read = [form for form in FORMS.values() if form.kind is not None]
    named = [form for form in FORMS.values() if form.kind is None]
    write_pages(
        Path(app.srcdir) / "forms",
        {
            "files.inc": file_table([*FILE_FORMS.items(), *FOLDER_FORMS.items()]),
            "rows.inc": row_table(read),
            "not_read.inc": table(("form", "columns", "instead"), ((f.name, f.recognised, f.meaning) for f in named)),
        },
    )


def file_table(forms: Iterable[tuple[str, FileForm]]) -> str:
    """Return a row per form of files."""
    return table(("form", "recognised by", "read as"), ((name, f.recognised, f.meaning) for name, f in forms))


def row_table(forms: Iterable[Form]) -> str:
    """Return a row per form of rows, with an example."""
    cells = (
        (form.name, str(form.kind), form.recognised, form.meaning, f"`{json.dumps(form.example, ensure_ascii=False)}`")
        for form in forms
    )
    return table(("form", "kind", "columns", "read as", "example"), cells)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
