"""A report in short, as a piece of HTML that a notebook shows: it brings its style, and no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradgate.printable import visible
from gradgate.report.drawing import Drawing
from gradgate.report.page import TEMPLATES
from gradgate.report.table import Entry, Table

_SHOWN = 2  # figures at once; the others unfold


@dataclass(frozen=True)
class Headline:
    """The words of a fragment.

    Attributes:
        heading: a line above the answer.
        answer: in a sentence.
        remarks: sentences that add to it.
        lines: code or a command.
    """

    heading: str
    answer: str
    remarks: Sequence[str] = ()
    lines: Sequence[str] = ()


def render_fragment(
    headline: Headline, tables: Sequence[tuple[Table, tuple[str, ...]]], drawings: Sequence[Drawing]
) -> str:
    """Render words, tables with the columns to show, and figures.

    Figures are images, not inline SVG: several fragments are on one page, and ids must not meet.
    """
    figures = [(drawing, _address(drawing)) for drawing in drawings]
    text = TEMPLATES.get_template("fragment.html.j2").render(
        headline=headline,
        tables=[(table, *_columns(table, keys)) for table, keys in tables],
        shown=figures[:_SHOWN],
        folded=figures[_SHOWN:],
        style=Markup(_style()),
    )
    return visible(text)


def _columns(table: Table, keys: tuple[str, ...]) -> tuple[list[tuple[str, bool]], list[list[Entry]]]:
    """Return the titles of the named columns with whether each has numbers, and their entries row by row."""
    places = [next(index for index, column in enumerate(table.columns) if column.key == key) for key in keys]
    titles = [(table.columns[place].title, table.columns[place].numeric) for place in places]
    return titles, [[row[place] for place in places] for row in table.rows]


def _address(drawing: Drawing) -> str:
    return f"data:image/svg+xml;base64,{b64encode(drawing.svg.encode()).decode()}"


def _style() -> str:
    assert TEMPLATES.loader is not None
    return TEMPLATES.loader.get_source(TEMPLATES, "fragment.css")[0]
