"""Names, colours and intervals in figures: no two arms look alike, and many names stand next to what they name."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gradgate.report.drawing import style_of, styled
from gradgate.report.names_in_figures import MANY, folded, name_marks, spread
from gradgate.report.sections import differences
from gradgate.report.sections.cost import draw_cost
from gradgate.report.sections.differences import DifferencesSection
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import write_study


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_forty_arms_have_forty_colours_that_show_on_light_and_dark_pages() -> None:
    colours = [style_of(place).colour for place in range(40)]
    assert len({*colours}) == 40
    # The first is ink, which the page replaces by its own.
    assert all(contrast(colour, "#ffffff") > 1.9 and contrast(colour, "#1b1e22") > 1.9 for colour in colours[1:])
    assert len({(style.colour, style.dash) for style in map(style_of, range(80))}) == 80


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_labels_keep_their_order_and_their_distance(places: list[float]) -> None:
    found = spread(places, 0.05)
    assert sorted(range(len(places)), key=lambda index: found[index]) == sorted(
        range(len(places)), key=lambda index: places[index]
    )
    ordered = sorted(found)
    assert all(after - before > 0.05 - 1e-9 for before, after in pairwise(ordered))
    assert -1e-9 <= ordered[0] <= ordered[-1] <= 1 + 1e-9


def test_labels_with_room_stay_where_their_marks_are() -> None:
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])


@pytest.mark.parametrize("count", [MANY - 1, MANY])
def test_six_names_stand_next_to_their_lines_and_fewer_in_a_legend(count: int) -> None:
    with styled(3) as figure:
        axes = figure.add_subplot()
        for place in range(count):
            axes.plot([0, 1], [place, place + 1], label=f"method {place}")
        name_marks(figure)
    direct = [text.get_text() for text in axes.texts]
    assert direct == ([f"method {place}" for place in range(count)] if count >= MANY else [])
    assert bool(figure.legends) == (count < MANY)


def test_long_names_keep_what_tells_them_apart() -> None:
    assert folded("gradual:every=20,order=top-down") == "gradual:every=20,\norder=top-down"
    assert folded("head") == "head"


def test_a_crowded_figure_names_every_arm_once(tmp_path: Path) -> None:
    methods = ("full", *(f"gradual:every={steps}" for steps in range(1, 8)))
    write_study(tmp_path, methods=methods, scores={name: [0.7, 0.72, 0.71] for name in methods})
    drawing = draw_cost(summarize_study(read_study(tmp_path)))
    assert [drawing.svg.count(f">{name} (") for name in methods[1:]] == [1] * 7


def test_no_label_of_the_forest_plot_crosses_the_line_of_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {
        "full": [0.70, 0.71, 0.72],
        "gradual:every=40,order=bottom-up": [0.90, 0.93, 0.92],
        "head": [0.7, 0.8, 0.6],
    }
    write_study(tmp_path, methods=tuple(scores), scores=scores)
    found = DifferencesSection.find(summarize_study(read_study(tmp_path)))
    assert found is not None
    crossed: list[str] = []

    def look(figure: Figure, *_: object) -> None:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (axes,) = figure.axes
        lines = [axes.transData.transform(line) for each in axes.collections for line in each.get_segments()]
        assert len(lines) == 2
        assert len(axes.texts) == 4
        for text in axes.texts:
            box = text.get_window_extent(canvas.get_renderer())
            for (x, bottom), (_, top) in lines:
                if box.x0 < x < box.x1 and bottom < box.y1 and box.y0 < top:
                    crossed.append(text.get_text())

    monkeypatch.setattr(differences, "finish", look)
    found.drawings()
    assert crossed == []


def test_the_forest_plot_has_the_verdict_on_each_method_best_first(tmp_path: Path) -> None:
    scores = {"full": [0.70, 0.71, 0.72], "head": [0.50, 0.512, 0.52], "gradual:every=40": [0.80, 0.81, 0.822]}
    write_study(tmp_path, methods=tuple(scores), scores=scores)
    section = DifferencesSection.find(summarize_study(read_study(tmp_path)))
    assert section is not None
    (drawing,) = section.drawings()
    assert "gradual:every=40 +10.1, better (+" in drawing.text
    assert drawing.text.index("gradual:every=40") < drawing.text.index("head −19.9, worse (−")


def test_one_difference_needs_no_picture(tmp_path: Path) -> None:
    write_study(tmp_path, methods=("full", "head"), scores={"full": [0.70, 0.71, 0.72], "head": [0.5, 0.51, 0.53]})
    assert DifferencesSection.find(summarize_study(read_study(tmp_path))) is None
