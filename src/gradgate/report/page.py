"""The page: one HTML file that carries its style, its figures and a few lines of script."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gradgate.report.drawing import Drawing
from gradgate.report.findings import Findings, find
from gradgate.report.formats import count, counted, visible
from gradgate.report.sections import find_answer
from gradgate.report.sections.base import Section
from gradgate.report.table import Table
from gradgate.report.verdict import cautions, verdict
from gradgate.runs.state import RunState
from gradgate.study.results import RunResult, StudyResults

PAGE = "report.html"
TEMPLATES = Environment(
    loader=PackageLoader("gradgate.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render_page(
    findings: Findings, sections: Sequence[Section], tables: Sequence[Table], drawings: Sequence[Drawing]
) -> str:
    """The report as HTML; the first table leads.

    Figures are inline SVG rather than a plotting library's script: the page then has kilobytes instead of megabytes,
    prints as sharp as it looks, needs no script to be read, and may forbid all others.

    Args:
        tables: of all sections.
        drawings: of all sections.
    """
    results = findings.results
    script = _source("sort.js")
    answer, remarks = find_answer(findings, list(sections))
    page = TEMPLATES.get_template("report.html.j2").render(
        study=results.study,
        answer=answer,
        remarks=remarks,
        cautions=[*cautions(findings), *(caution for section in sections for caution in section.cautions())],
        planned=_planned(findings),
        main=tables[0],
        others=tables[1:],
        titles={table.name: table.title for table in tables},
        drawings=[(drawing, Markup(drawing.inline)) for drawing in drawings],
        failed=[(cell, _place(cell, findings)) for cell in results.runs if cell.state == "failed"],
        missing=[cell for cell in results.runs if cell.state == "missing"],
        paused=[(cell, cell.paused) for cell in results.runs if cell.paused],
        settings=_readable(results.study.settings),
        versions=_readable(results.study.versions),
        method_notes=[note for section in sections for note in section.notes()],
        style=Markup(_source("report.css")),
        script=Markup(script),
        parts=[(name, _page_of(part, findings), verdict(find(part))) for name, part in results.parts],
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
    )
    return visible(page)


def _breakable(name: str) -> Markup:
    """A method's name that may break behind its colons and commas rather than inside a word."""
    return Markup(re.sub("([:,/])", r"\1<wbr>", str(escape(name))))


def _glued(text: str) -> str:
    """Text whose signs and units stay with their numbers at the end of a line."""
    return re.sub(r"(?<=[±=<×]) | (?=[±=<×])|(?<=\d) (?=[kMB]\b)", "\u00a0", text)


def _source(name: str) -> str:
    """A file of this package as it stands; never anything that a study holds."""
    assert TEMPLATES.loader is not None
    return TEMPLATES.loader.get_source(TEMPLATES, name)[0]


def _planned(findings: Findings) -> str:
    results = findings.results
    study = results.study
    methods, seeds = counted(len(study.methods), "method"), counted(len(study.seeds), "seed")
    if len(study.adapters) > 1 and len(study.arms) == len(study.adapters) * len(study.methods):
        methods = f"{counted(len(study.adapters), 'form')} of the model × {methods}"
    elif len(study.arms) > len(study.methods):
        methods = counted(len(study.arms), "method")
    parts = f"{counted(len(results.parts), results.split_unit)} × " if results.parts else ""
    finished = results.count(RunState.FINISHED)
    return f"{parts}{methods} × {seeds}: {finished} of {counted(len(results.runs), 'run')} finished"


def _place(cell: RunResult, findings: Findings) -> str:
    return "" if cell.folder is None else str(cell.folder.relative_to(findings.results.folder))


def _page_of(part: StudyResults, findings: Findings) -> str:
    return f"{part.folder.relative_to(findings.results.folder).as_posix()}/{PAGE}"


def _readable(values: dict[str, Any]) -> dict[str, str]:
    """Values as text; what is None is named in one line at the end."""
    given = {name: value for name, value in values.items() if value is not None}
    shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    return (
        {**shown, "not set": ", ".join(name for name in values if name not in given)}
        if len(given) < len(values)
        else shown
    )


TEMPLATES.filters.update(count=count, breakable=_breakable, glued=_glued)
