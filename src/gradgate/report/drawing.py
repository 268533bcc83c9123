"""How figures look and are written: one palette, one size, deterministic and accessible SVG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from gradgate.printable import visible
from gradgate.report.formats import shortened

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# As wide as a phone with type of 9 to 10.5 points: readable there as it is, and in one column of print.
WIDTH = 340 / 72
# The page replaces these two by its own colours, so that figures follow its light and dark modes.
INK, MUTED = "#1a1c1e", "#6a7076"
PAPER = "#ffffff"
# Okabe and Ito's colours without yellow, which vanishes on white; the reference is drawn in ink. Behind them, each is
# the colour farthest from all before it in OKLab, of those that stand out on white and on the dark page.
# fmt: off
COLOURS = (
    INK, "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#96005a", "#005a00", "#783cb4",
    "#783c00", "#8778f0", "#87b400", "#3c4b69", "#a5a596", "#877800", "#b44b69", "#d287ff", "#ff8778", "#3cc3a5",
    "#008700", "#a55ab4", "#2d96b4", "#004bb4", "#0f695a", "#a50f0f", "#0f87f0", "#784b78", "#ff87c3", "#b4a5e1",
    "#a57869", "#a5963c", "#f05a69", "#965a2d", "#7878b4", "#5a5a0f", "#699600", "#4b5ad2", "#d2875a", "#8796c3",
)
# fmt: on
_PAINTED = re.compile(rf"(fill|stroke): ({'|'.join(COLOURS[1:])})")
"""A colour of a method in a style, which the dark page shows no darker than it can be seen."""
BEHIND = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}
"""Covers what is below a number."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 10.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # TrueType: publishers refuse Type 3.
    "pdf.fonttype": 42,
    "image.composite_image": False,
    # Names of methods and groups are text, never formulas.
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
}


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: of its file, without ending.
        title: a heading.
        caption: how to read it.
        text: what it shows, in words and numbers, for those who cannot see it.
        table: the name of the table that holds its numbers.
        svg: a file of its own, on white.
        pdf: the same, for LaTeX.
        inline: the same for a page: ids of its own, the page's ink, no background.
    """

    name: str
    title: str
    caption: str
    text: str
    table: str
    svg: str = field(repr=False)
    pdf: bytes = field(repr=False)
    inline: str = field(repr=False)

    def _repr_svg_(self) -> str:
        """Return the SVG that a notebook shows."""
        return self.svg


@dataclass(frozen=True)
class Style:
    """Colour, marker and line of one method, the same in every figure."""

    colour: str
    marker: str
    dash: str | tuple[float, tuple[float, ...]]


def style_of(index: int) -> Style:
    """Return the style of the method at this place in the study: forty colours, then again with another dash."""
    return Style(
        COLOURS[index % len(COLOURS)],
        MARKERS[index % len(MARKERS)],
        DASHES[(index // len(COLOURS) + index // 7) % len(DASHES)],
    )


@contextmanager
def styled(height: float) -> Iterator[Figure]:
    """Create an empty figure of the common width and ``height`` inches; restore matplotlib's settings afterwards."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def finish(figure: Figure, name: str, title: str, caption: str, text: str, table: str) -> Drawing:
    """Write a figure as SVG and PDF. To be called inside :func:`styled`."""
    with warnings.catch_warnings():
        # A name in a script that the font lacks has boxes in the PDF; the SVG has the text itself.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        svg, pdf = _to_svg(figure, name), _to_pdf(figure)
    root = ElementTree.fromstring(svg)
    _describe(root, name, visible(title), visible(text))
    inline = ElementTree.tostring(_for_page(root), encoding="unicode")
    root.insert(2, ElementTree.Element(f"{{{SVG}}}rect", width="100%", height="100%", fill=PAPER))
    return Drawing(
        name, title, caption, text, table, ElementTree.tostring(root, encoding="unicode") + "\n", pdf, inline
    )


def _to_svg(figure: Figure, name: str) -> str:
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return buffer.getvalue()


def _to_pdf(figure: Figure) -> bytes:
    """Convert to PDF after the SVG is written, and keep its layout."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")
    figure.savefig(buffer, format="pdf", metadata=dict.fromkeys(("CreationDate", "Creator", "Producer")))
    return buffer.getvalue()


def wrapped(label: str) -> str:
    """Wrap a label of the vertical axis into lines that fit the height of the lowest figure."""
    return fill(shortened(label, 70), 26)


def legend_label(name: str, width: int) -> str:
    """Return a name for a legend; matplotlib leaves out names that begin with an underscore."""
    label = shortened(name, width)
    return f" {label}" if label.startswith("_") else label


def legend_below(figure: Figure) -> Legend:
    """Put a legend below the axes, where it hides nothing."""
    return figure.legend(loc="outside lower left", fontsize=10, handlelength=2.4, borderaxespad=0.2)


def _describe(root: ElementTree.Element, name: str, title: str, text: str) -> None:
    """Give the drawing a title and a description for those who cannot see it, and ids that no other drawing has."""
    for defs in root.findall(f"{{{SVG}}}defs"):
        if defs.find(f"{{{SVG}}}style") is not None:
            root.remove(defs)  # its rule for "*" would reach the whole page
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    for element in root.iter():
        for key, value in element.items():
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif key in ("href", f"{{{XLINK}}}href") and value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
            else:
                element.set(key, value.replace("url(#", f"url(#{name}-"))
    root.set("role", "img")
    root.set("aria-label", f"{title}. {text}")
    for place, (tag, content) in enumerate((("title", title), ("desc", text))):
        element = ElementTree.Element(f"{{{SVG}}}{tag}")
        element.text = content
        root.insert(place, element)


def _for_page(drawing: ElementTree.Element) -> ElementTree.Element:
    """Return a copy with plain HTML5 names that takes its ink from the page and its width from the container.

    Its colours are at least as light as the page's ``--least``; browsers that cannot compute colours show them as
    they are.
    """
    root = deepcopy(drawing)
    root.attrib = {key: value for key, value in root.items() if key not in ("width", "height", "version")}
    root.remove(root[0])  # the page has the title as a heading; here it would be a tooltip
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        element.attrib = {
            key.removeprefix(f"{{{XLINK}}}"): _PAINTED.sub(
                r"\1: \2; \1: oklch(from \2 max(l, var(--least, 0)) c h)", value
            )
            .replace(INK, "currentColor")
            .replace(MUTED, "var(--muted)")
            .replace(PAPER, "var(--paper)")
            for key, value in element.items()
        }
    return root
