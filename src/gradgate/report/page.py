"""The page: one HTML file that carries its style, its figures and a few lines of script."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gradgate.report.drawing import Drawing
from gradgate.report.findings import Findings, find
from gradgate.report.formats import count, counted, listed
from gradgate.report.sections import Contents, freezing
from gradgate.report.sections.search import search_notes
from gradgate.report.table import Table
from gradgate.report.verdict import cautions, over_parts, untested_parts, verdict
from gradgate.study.study_file import DEV, Cell, StudyResults

PAGE = "report.html"
_TEMPLATES = Environment(
    loader=PackageLoader("gradgate.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render_page(
    contents: Contents,
    tables: list[Table],
    drawings: list[Drawing],
) -> str:
    """The report as HTML; the first table leads.

    Figures are inline SVG rather than a plotting library's script: the page then has kilobytes instead of megabytes,
    prints as sharp as it looks, needs no script to be read, and may forbid all others.
    """
    findings, curve = contents.findings, contents.freezing
    results = findings.results
    script = _source("sort.js")
    return _TEMPLATES.get_template("report.html.j2").render(
        study=results.study,
        answer=verdict(findings),
        remarks=[text for text in (over_parts(findings), freezing.answer(curve) if curve else None) if text],
        cautions=[*cautions(findings), *contents.problems],
        planned=_planned(findings),
        main=tables[0],
        others=tables[1:],
        titles={table.name: table.title for table in tables},
        drawings=[(drawing, Markup(drawing.inline)) for drawing in drawings],
        failed=[(cell, _place(cell, findings)) for cell in results.runs if cell.status == "failed"],
        missing=[cell for cell in results.runs if cell.status == "missing"],
        settings=_readable(results.study.settings),
        versions=_readable(results.study.versions),
        method_notes=[*_how_made(findings), *search_notes(results.study), *(freezing.notes(curve) if curve else [])],
        style=Markup(_source("report.css")),
        script=Markup(script),
        parts=[(name, _page_of(part, findings), verdict(find(part))) for name, part in results.parts],
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
    )


def _breakable(name: str) -> Markup:
    """A method's name that may break behind its colons and commas rather than inside a word."""
    return Markup(re.sub("([:,/])", r"\1<wbr>", str(escape(name))))


def _glued(text: str) -> str:
    """Text whose signs and units stay with their numbers at the end of a line."""
    return re.sub(r"(?<=[±=<×]) | (?=[±=<×])|(?<=\d) (?=[kMB]\b)", "\u00a0", text)


def _source(name: str) -> str:
    """A file of this package as it stands; never anything that a study holds."""
    assert _TEMPLATES.loader is not None
    return _TEMPLATES.loader.get_source(_TEMPLATES, name)[0]


def _how_joined(findings: Findings) -> list[str]:
    unit = findings.results.split_unit
    searched = any(part.study.search for _, part in findings.results.parts)
    return [
        f"Methods are compared on the unweighted mean over {unit}s of what each run scored on the main split of "
        f"its {unit}, for seeds that have finished on all of them. The page of a {unit} has what was measured there.",
        f"Training time is the sum over the {unit}s; time per step, trainable share and bytes stored are means.",
        f"Learning curves, timelines and sweeps are on the page of each {unit}.",
        *([f"Settings were searched for each {unit} by itself; its page says what was chosen."] if searched else []),
    ]


def _planned(findings: Findings) -> str:
    results = findings.results
    methods, seeds = counted(len(results.study.methods), "method"), counted(len(results.study.seeds), "seed")
    if len(results.study.adapters) > 1:
        methods = f"{counted(len(results.study.adapters), 'form')} of the model × {methods}"
    parts = f"{counted(len(results.parts), results.split_unit)} × " if results.parts else ""
    return f"{parts}{methods} × {seeds}: {results.count('finished')} of {counted(len(results.runs), 'run')} finished"


def _place(cell: Cell, findings: Findings) -> str:
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


def _how_made(findings: Findings) -> list[str]:
    """How the numbers come about, for a reader who was not there."""
    metric, first = findings.format.name, findings.reference.name
    higher = findings.results.study.task.metric_higher_is_better
    notes = [f"Each run keeps the checkpoint with the {'highest' if higher else 'lowest'} {metric} on dev."]
    untested = untested_parts(findings)
    if findings.split == DEV:
        notes.append("There is no test split; the same dev score also ranks the methods.")
    elif untested:
        where = "" if len(untested) == len(findings.results.parts) else f" of {listed(untested)}"
        notes.append(f"Where there is no test split, the dev score{where} also ranks the methods.")
    else:
        notes.append("That checkpoint is scored once on each test split; no choice is made on test.")
    if findings.results.parts:
        notes += _how_joined(findings)
    elif findings.results.averages:
        source = findings.results.study.task.source
        notes.append(
            f"Methods are compared on the zero-shot average: the unweighted mean over the languages other than "
            f"{source}, in which each run was trained and its checkpoint selected. Distant languages are those outside "
            f"of the Indo-European family."
        )
    if findings.format.factor == 100:
        notes.append(
            "Shares such as accuracy and F1, and correlations, are shown × 100; losses and errors as they are."
        )
    notes.append(
        "± is the sample standard deviation over seeds (n − 1). A seed sets the head's initial weights, the order of "
        "the data, dropout and masks."
    )
    if len(findings.methods) > 1:
        notes += [
            f"Differences to {first} are paired by seed, with a 95% t-interval of the mean paired difference and a "
            "two-sided paired t-test. Intervals are not corrected; p is, by Holm's method over the methods compared. "
            "The t-test takes paired differences as roughly normal, which few seeds cannot confirm.",
            "Wilcoxon's signed-rank test takes no normality. It is exact, leaves out differences of 0, and is "
            "corrected by Holm's method among its own kind. Where all paired differences are the same, t is not "
            "defined and is not given. Bootstrap intervals (BCa, 9999 resamples) cannot leave the range of what was "
            "seen.",
            "The best of several methods looks better than it is, because it was picked for its score.",
        ]
    return [
        *notes,
        "Time per step is the median step, the median over seeds; memory is the highest peak; both hold for the "
        "machine that ran the study.",
        "Failed and unfinished runs are left out of means, not counted as zero.",
    ]


_TEMPLATES.filters.update(count=count, breakable=_breakable, glued=_glued)
