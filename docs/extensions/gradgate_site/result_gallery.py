"""The gallery of results: studies imported from committed scores of others, with the reports that gradgate writes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.gallery.studies import GalleryStudy, read_gallery
from gradgate_site.files import tell, write_pages
from gradgate_site.form_tables import table

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from gradgate import Study

_LINKED = (".html", ".csv", ".md", ".tex", ".svg", ".pdf")
MOST = 6
"""Rows of a table of arms; the report has all."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Import before Sphinx reads any page, and write the reports after the site."""
    app.connect("builder-inited", make)
    app.connect("build-finished", write_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Import each study again, and write its section of the page."""
    parts = []
    for entry in read_gallery():
        tell("study", entry.name)
        folder = _folder(app, entry)
        shutil.rmtree(folder, ignore_errors=True)
        parts.append(section(entry, entry.imported(folder)))
    write_pages(Path(app.srcdir) / "results", {"gallery.inc": "\n\n".join(parts) + "\n"})


def write_reports(app: Sphinx, error: Exception | None) -> None:
    """Write the report of each study next to the page, of an HTML site."""
    if error is None and app.builder.name == "html":
        from gradgate import Study

        for entry in read_gallery():
            target = Path(app.outdir) / "results" / entry.name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(Study(_folder(app, entry)).report().parent, target, ignore=_unread)


def section(entry: GalleryStudy, study: Study) -> str:
    """Return the part of the page on one study."""
    many = "verdict_counts" in study.tables
    rows = _counts(study) if many else _arms(study)
    more = "" if many else f"These are the {MOST} highest of {len(study.table('main'))} means. "
    return (
        f"## {entry.title}\n\n{entry.of} [Source]({entry.source}), {entry.licence}.\n\n"
        f"**{study.answer}**\n\n{rows}\n\n"
        f'{more}<a href="results/{entry.name}/report.html">The full report</a> has every verdict and interval.\n\n'
        f"```console\n$ {entry.command}\n$ gradgate report {entry.out}\n```"
    )


def _arms(study: Study) -> str:
    """Return the arms with the highest means."""
    words = study.table("verdicts").set_index("method")["word"].to_dict()
    rows = study.table("main").sort_values("mean", ascending=False).head(MOST).to_dict("records")
    return table(
        ("arm", "accuracy", "difference to full [95 %]", "p (Holm)", "verdict", "memory", "time"),
        (
            (
                row["method"],
                f"{100 * row['mean']:.1f}",
                *(_judged(row, words[row["method"]]) if row["method"] in words else ("reference", "–", "–")),
                f"{row['peak_memory_bytes'] / 2**30:.1f} GiB",
                f"{row['seconds_total'] / 60:.0f} min",
            )
            for row in rows
        ),
    )


def _judged(row: dict[str, Any], word: str) -> tuple[str, str, str]:
    points = (100 * row[name] for name in ("difference", "difference_ci95_low", "difference_ci95_high"))
    difference = "{:+.1f} [{:+.1f} to {:+.1f}]".format(*points).replace("-", "−")
    return difference, f"{row['p_holm']:.3f}", word


def _counts(study: Study) -> str:
    """Return how often each arm is better, equivalent or worse."""
    frame = study.table("verdict_counts")
    return table(tuple(frame.columns), (tuple(map(str, row)) for row in frame.itertuples(index=False)))


def _unread(folder: str, names: list[str]) -> set[str]:
    """Return what a report does not link to: all but pages, tables and figures."""
    return {name for name in names if Path(folder, name).is_file() and Path(name).suffix not in _LINKED}


def _folder(app: Sphinx, entry: GalleryStudy) -> Path:
    return Path(app.doctreedir) / "gallery" / entry.name
