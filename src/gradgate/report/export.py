"""A table as CSV, Markdown, LaTeX, and on the terminal."""

from __future__ import annotations

import re
from typing import Any, Literal

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from gradgate.printable import csv_table, visible
from gradgate.report.table import Column, Entry, Table

_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "[": "{[}",  # a row that starts with a bracket would be an argument of the line break before it
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "µ": r"\textmu{}",
    "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

_RANKS = {"best": "Bold: best.", "second": "Italic: second best."}
# Longer names break on a narrow terminal.
_NAME_WIDTH = 20


def to_csv(table: Table) -> str:
    """Return the records with full precision as CSV; a missing value is an empty field.

    Text that a spreadsheet would take for a formula gets an apostrophe in front. Numbers stay as they are.
    """
    return csv_table(table.records)


def to_markdown(table: Table) -> str:
    """Return the rounded rows as a pipe table."""
    lines = [
        [_markdown(column.title) for column in table.columns],
        ["---:" if column.numeric else "---" for column in table.columns],
        *([_markdown_entry(entry) for entry in row] for row in table.rows),
    ]
    ranks = [_RANKS[rank] for rank in ("best", "second") if rank in table.ranks]
    notes = (*([" ".join(ranks)] if ranks else []), *map(_markdown, table.notes))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "".join(f"\n{note}\n" for note in notes)


def to_latex(table: Table) -> str:
    """Return the rounded rows as a ``tabular`` for the booktabs package, with its notes; the best row is bold."""
    rows = [[_latex_entry(entry, index in table.best) for entry in row] for index, row in enumerate(table.rows)]
    lines = [
        "% \\usepackage{booktabs}",
        rf"\begin{{tabular}}{{{''.join(map(_alignment, table.columns))}}}",
        r"\toprule",
        _latex_row([_latex(column.title) for column in table.columns]),
        r"\midrule",
        *(_latex_row(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {_latex(note)}}}" for note in table.notes),
    ]
    return "\n".join(lines) + "\n"


def to_terminal(table: Table, keys: tuple[str, ...], width: int) -> RichTable:
    """Return the rounded rows of the named columns; drop the last columns if ``width`` characters are too few."""
    places = [next(index for index, column in enumerate(table.columns) if column.key == key) for key in keys]
    widths = [_least_width(table, place) for place in places]
    while len(places) > 2 and sum(widths) + 3 * len(widths) + 1 > width:
        places, widths = places[:-1], widths[:-1]
    shown = RichTable(title=Text(visible(table.title)), title_justify="left")
    for place, least in zip(places, widths, strict=True):
        column = table.columns[place]
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        shown.add_column(Text(visible(column.title)), justify=justify, overflow="fold", min_width=least)
    for number, row in enumerate(table.rows):
        shown.add_row(
            *(Text(visible(row[place].line)) for place in places), style="bold" if number in table.best else None
        )
    return shown


def _least_width(table: Table, place: int) -> int:
    """Return the width that a column needs on a terminal: headings and names may break at spaces, numbers may not."""
    column = table.columns[place]
    longest = max((cell_len(row[place].line) for row in table.rows), default=0)
    # A heading may hold a name too.
    words = (min(cell_len(word), _NAME_WIDTH) for word in column.title.split())
    return max(*words, longest if column.numeric else min(longest, _NAME_WIDTH), 1)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&$])", r"\\\1", " ".join(visible(text).split()))


def _markdown_entry(entry: Entry) -> str:
    around = {"best": "**", "second": "*", "": ""}[entry.rank]
    return f"{around}{_markdown(entry.text)}{around}{f' {_markdown(entry.detail)}' if entry.detail else ''}"


def _latex_entry(entry: Entry, bold: bool) -> str:
    if bold:
        return rf"\textbf{{{_latex(entry.line)}}}"
    command = {"best": "textbf", "second": "underline", "": ""}[entry.rank]
    text = rf"\{command}{{{_latex(entry.text)}}}" if command else _latex(entry.text)
    return f"{text} {_latex(entry.detail)}" if entry.detail else text


def _alignment(column: Column[Any]) -> str:
    return "r" if column.numeric else "l"


def _latex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in " ".join(visible(text).split()))


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
