"""Render the page: one HTML file that carries its style, its figures and a few lines of script."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gradgate.errors import counted
from gradgate.places import short_name
from gradgate.printable import visible
from gradgate.report.advice import Advice, advise
from gradgate.report.drawing import Drawing
from gradgate.report.formats import count
from gradgate.report.next_steps import Lines, lines_of_repeating, lines_of_use
from gradgate.report.sections import find_answer, find_cautions
from gradgate.report.sections.base import Section
from gradgate.report.sections.gains_figure import gains_name
from gradgate.report.sections.main_table import MAIN, best_first
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Table
from gradgate.report.verdict import verdict
from gradgate.runs.state import RunState
from gradgate.study.imported import subject
from gradgate.study.results import StudyResults
from gradgate.study.run_result import RunResult

PAGE = "report.html"
_MOST_NAMED = 4
TEMPLATES = Environment(
    loader=PackageLoader("gradgate.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render_page(
    study: StudySummary,
    sections: Sequence[Section],
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    further: Sequence[Table] = (),
    parts: Sequence[tuple[str, StudySummary]] = (),
    lead: Drawing | None = None,
) -> str:
    """Return the report as HTML; the first table leads.

    Figures are inline SVG rather than a plotting library's script: the page then has kilobytes instead of megabytes,
    prints as sharp as it looks, needs no script to be read, and may forbid all others.

    Args:
        tables: those on the page.
        drawings: those on the page.
        further: tables that are files only.
        parts: those of a study of several tasks or models that have a page of their own.
        lead: of the drawings, the one that stands above the first table.
    """
    answer, remarks = find_answer(study, sections)
    advice = advise(study)
    page = TEMPLATES.get_template("report.html.j2").render(
        **_heading(study),
        answer=answer,
        advice=advice,
        remarks=remarks,
        uses=_uses(study, sections, advice),
        repeats=lines_of_repeating(study),
        cautions=find_cautions(study, sections),
        **_tables(study, tables, further),
        lead=None if lead is None else (lead, Markup(lead.inline)),
        drawings=[(each, Markup(each.inline)) for each in drawings if each is not lead],
        **_unfinished(study),
        parts=[(name, _page_of(part.results, study), _in_short(part)) for name, part in parts],
        method_notes=[note for section in sections for note in section.notes()],
        settings=_readable(study.record.settings),
        versions=_readable(study.record.versions),
        **_embedded(),
    )
    return visible(page)


def _heading(study: StudySummary) -> dict[str, Any]:
    """Return what was compared, and how many runs were planned."""
    record, parts = study.record, [part.record for _, part in study.parts]
    tasks = _some(record.task.name, [part.task.name for part in parts], "task")
    models = _some(record.model.label, [part.model.label for part in parts], "model")
    return {
        "study": record,
        "subject": subject(tasks, models),
        "part_unit": study.results.split_unit,
        "planned": _planned(study),
    }


def _tables(study: StudySummary, tables: Sequence[Table], further: Sequence[Table]) -> dict[str, Any]:
    """Return the table that leads, those in the details, of which that of the gains is open, and those in files."""
    main, *others = (best_first(study, table) if table.name == MAIN else table for table in tables)
    return {
        "main": main,
        "others": others,
        "gains": gains_name(study),
        "further": further,
        "titles": {table.name: table.title for table in tables},
    }


def _embedded() -> dict[str, Any]:
    """Return the style and the script that the page carries, and the hash that its policy allows."""
    script = _source("tables.js")
    return {
        "style": Markup(_source("report.css")),
        "script": Markup(script),
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }


def _uses(study: StudySummary, sections: Sequence[Section], advice: Advice | None) -> list[Lines]:
    """Return the lines of a section that leads, else those for the arm to use, or for the best one so far."""
    if any(section.leads for section in sections):
        return [lines for section in sections for lines in section.commands()]
    arm = advice.arm if advice is not None else next(iter(study.best), None)
    return [] if arm is None else lines_of_use(study, arm)


def _in_short(study: StudySummary) -> str:
    advice = advise(study)
    return verdict(study) if advice is None else advice.headline


def _unfinished(study: StudySummary) -> dict[str, Any]:
    """Return the runs that failed, never began, or are paused."""
    runs, imported = study.results.runs, study.record.imported
    left = imported is None and not study.is_race  # which a budget does not mean to finish
    return {
        "failed": [(cell, _place(cell, study)) for cell in runs if cell.state == "failed"],
        "missing": [cell for cell in runs if cell.state == "missing" and left],
        "paused": [(cell, cell.paused) for cell in runs if cell.paused and left],
    }


def _some(name: str, names: Sequence[str], what: str) -> str:
    """Return the name of tasks or models for the heading: the number of them if there are many."""
    number = len(set(names))
    return name if number <= _MOST_NAMED else counted(number, what)


def _breakable(name: str) -> Markup:
    """Return a method's name that may break behind its colons and commas rather than inside a word."""
    return Markup(re.sub("([:,/])", r"\1<wbr>", str(escape(name))))


def _whole_flags(lines: str) -> Markup:
    """Return commands whose lines do not break inside a flag, such as behind the hyphens of ``--train-size``."""
    return Markup(re.sub(r"(?<!\S)--[\w-]+", r"<span>\g<0></span>", str(escape(lines))))


def _glued(text: str) -> str:
    """Return text whose signs and units stay with their numbers at the end of a line."""
    return re.sub(r"(?<=[±=<×]) | (?=[±=<×])|(?<=\d) (?=[kMB]\b)", "\u00a0", text)


def _source(name: str) -> str:
    """Return a file of this package as it is; never anything from a study."""
    assert TEMPLATES.loader is not None
    return TEMPLATES.loader.get_source(TEMPLATES, name)[0]


def _planned(study: StudySummary) -> str:
    results, record = study.results, study.record
    methods, seeds = counted(len(record.methods), "method"), counted(len(record.seeds), "seed")
    if len(record.adapters) > 1 and len(record.arms) == len(record.adapters) * len(record.methods):
        methods = f"{counted(len(record.adapters), 'form')} of the model × {methods}"
    elif len(record.arms) > len(record.methods):
        methods = counted(len(record.arms), "method")
    parts = f"{counted(len(results.parts), results.split_unit)} × " if results.parts else ""
    finished = results.count(RunState.FINISHED)
    if record.imported is not None:
        conditions = [part.cells for _, part in results.parts] or [results.cells]
        runs = sum(cell.state is RunState.FINISHED for cells in conditions for cell in cells)
        return f"{parts}{methods}: {counted(runs, 'run')}, imported"
    return f"{parts}{methods} × {seeds}: {finished} of {counted(len(results.runs), 'run')} finished"


def _place(cell: RunResult, study: StudySummary) -> str:
    return "" if cell.folder is None else str(cell.folder.relative_to(study.results.folder))


def _page_of(part: StudyResults, study: StudySummary) -> str:
    return f"{part.folder.relative_to(study.results.folder).as_posix()}/{PAGE}"


def _short(value: Any) -> Any:
    """Return a value without the folders of absolute paths, which belong to one machine."""
    if isinstance(value, dict):
        return {name: _short(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_short(own) for own in value]
    return short_name(value) if isinstance(value, str) else value


def _readable(values: dict[str, Any]) -> dict[str, str]:
    """Return the values that are set as text."""
    shown = {name: _short(value) for name, value in values.items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in shown.items()}


TEMPLATES.filters.update(count=count, breakable=_breakable, glued=_glued, whole_flags=_whole_flags)
