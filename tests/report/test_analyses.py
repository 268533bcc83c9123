"""What was analyzed is in the report: tables, figures with words beside them, and what cannot be read."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from gradgate.analysis import landscape
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.landscape import LandscapeRow
from gradgate.analysis.representations import RepresentationRow
from gradgate.report import write_report
from gradgate.report.sections.analyzed.landscape import LandscapeSection, flatness_table
from gradgate.report.sections.analyzed.landscape_figures import draw_landscape
from gradgate.report.sections.analyzed.representations import (
    RepresentationsSection,
    draw_representations,
    similarity_table,
)
from gradgate.study.results import read_study
from support.study_folder import write_study

ARMS = ("full", "gradual:every=40")


def similarity_rows(arms=ARMS):
    return [
        RepresentationRow(
            arm=arm, seed=seed, run="mark", split="dev", tokens=50, layer=layer, layers=3,
            rsa=None if (place, layer) == (1, 0) else 1 - 0.1 * (2 - place) * layer - 0.01 * seed, cka=1 - 0.05 * layer,
        )
        for place, arm in enumerate(arms) for seed in (0, 1) for layer in range(4)
    ]  # fmt: skip


def loss_rows(arms=ARMS, side=(-1.0, 0.0, 1.0), further=()):
    base = {"run": "mark", "rows": 30}
    line = [
        LandscapeRow(
            arm=arm, seed=seed, where="line", split=split, x=x, y=None, distance=2.0,
            loss=None if x == -0.5 else 0.3 + (4 if arm == "full" else 1) * (x - 1) ** 2, **base,
        )
        for arm in arms for seed in (0, 1) for split in ("train", "dev") for x in (-0.5, 0.0, 0.5, 1.0, 1.5, *further)
    ]  # fmt: skip
    plane = [
        LandscapeRow(
            arm=arm, seed=0, where="plane", split="dev", x=x, y=y, distance=None, loss=0.3 + x * x + y * y, **base
        )
        for arm in arms for x in side for y in side
    ]  # fmt: skip
    return line + plane


@pytest.fixture(autouse=True)
def _own_figures_alone(draw_only):
    draw_only(RepresentationsSection, LandscapeSection)


@pytest.fixture
def study(tmp_path):
    write_study(tmp_path, ARMS, scores={arm: [0.7, 0.8, 0.9] for arm in ARMS})
    for name, kind, rows in (
        ("representations", RepresentationRow, similarity_rows((*ARMS, "of another study"))),
        ("landscape", LandscapeRow, loss_rows()),
    ):
        folder = AnalysisFolder.of(tmp_path, name, kind)
        folder.claim({})
        marks = {(cell.arm.name, cell.seed): cell.mark for cell in read_study(tmp_path).cells}
        folder.append([replace(row, run=marks.get((row.arm, row.seed), row.run)) for row in rows])
    return tmp_path


def test_what_was_measured_on_a_run_before_it_was_trained_again_is_left_out(study, draw_only):
    draw_only()
    (file,) = (cell.files.scores_file for cell in read_study(study).cells if (cell.arm.name, cell.seed) == ("full", 0))
    file.write_text(file.read_text() + "\n")
    page = write_report(study).html.read_text(encoding="utf-8")
    for name in ("representations", "landscape"):
        assert f"trained again or removed since is left out; run 'gradgate analyze {name}' again." in html.unescape(
            page
        )
    assert "full,dev,0,rsa,1,0.99" in (study / "tables/representations.csv").read_text()  # of seed 1 alone


def test_the_report_has_what_was_analyzed(study):
    written = write_report(study)
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"representations.svg", "landscape-line.pdf", "landscape-plane.svg", "representations.csv"} <= names
    page = written.html.read_text(encoding="utf-8")
    assert "gradual:every=40 stays closest to the pretrained model" in page
    assert "the arms are not ranked" in page
    assert "of another study" not in page


def test_minima_that_are_wider_than_the_line_are_not_ranked():
    assert "widest for gradual:every=40 (1.33)" in landscape.caption(loss_rows(further=(2.0,)))
    assert landscape.caption(loss_rows()) == (
        "On dev, the loss of gradual:every=40 stays within 0.5 of that at the trained weights up to an end of the "
        "line: such widths are lower bounds, and the arms are not ranked."
    )
    alone = landscape.caption(loss_rows(arms=["gradual:every=40"]))
    assert alone == "The minimum of gradual:every=40 is at least 1.17 of its own way wide on dev."


def test_tables_have_the_means_over_seeds():
    table = similarity_table(similarity_rows(), "dev")
    assert [entry.line for entry in table.rows[1]] == ["1", "0.795 ± 0.007 (0.950)", "0.895 ± 0.007 (0.950)"]
    assert table.rows[0][2].line == "– (1.000)"
    flat = flatness_table(loss_rows())
    record = flat.records[0]
    assert (record["mean"], record["at_least"], record["distance"]) == (pytest.approx(0.5), 0, 2.0)
    assert flat.rows[1][1].text == "≥ 1.17"  # the interval reaches the end of the line at 1.5


def test_figures_say_in_words_what_they_show():
    (similar,) = draw_representations(similarity_rows(), ARMS)
    assert "full: RSA by layer from 0 up 0.995, 0.795, 0.595, 0.395" in similar.text
    assert "lowest at layer 3 of 3, with 0.395" in similar.caption
    line, plane = draw_landscape(loss_rows(), ARMS)
    assert "full: dev loss 4.300 before, 0.300 tuned; full: flatness 0.50" in line.text
    assert "full: dev loss 0.300 at the tuned weights, 1.300 to 2.300 at the edge" in plane.text


def test_a_plane_that_is_not_whole_is_not_drawn():
    rows = [row for row in loss_rows() if not (row.where == "plane" and (row.x, row.y) == (1.0, 1.0))]
    assert [drawing.name for drawing in draw_landscape(rows, ARMS)] == ["landscape-line"]


@pytest.mark.parametrize("name", ["representations", "landscape"])
def test_a_damaged_file_is_said_and_the_rest_is_there(study, name, draw_only):
    draw_only()
    file = study / "analyses" / name / f"{name}.csv"
    mark = next(cell.mark for cell in read_study(study).cells if (cell.arm.name, cell.seed) == ("full", 0))
    file.write_text(file.read_text().replace(mark, "", 1) + "nonsense\n")
    page = write_report(study).html.read_text(encoding="utf-8")
    assert f"{name}.csv, line 2: run: expected text, got None" in page
    assert "full" in page
