"""Curves, orders and correlations from traces whose every number is known, as the command writes them."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gradgate.analysis.fisher import (
    FisherRun,
    correlation,
    find_tracked,
    moving_average,
    order_of,
    top_down,
    tracked_runs,
)
from gradgate.api.analyses import Fisher
from gradgate.errors import RunError, UsageError
from gradgate.measure.track import FisherRecord
from gradgate.report import write_report
from gradgate.report.sections.analyzed.fisher import FisherSection
from gradgate.report.sections.analyzed.fisher_figures import draw_curves
from gradgate.report.sections.analyzed.fisher_tables import caption, curve_table, order_table, schedules_caption
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.results import read_study
from support.command_line import Command
from support.study_folder import write_study

LAYERS = ("layers.0", "layers.1", "layers.2", "layers.3")
SCHEDULES = ("full", "gradual:every=40", "fun:every=40", "random:every=40", "order:layers=0/1/2/3")


def record(step: int, traces: Sequence[float], opened: int = 4) -> FisherRecord:
    """``opened`` layers are open, from the top."""
    named = dict(zip(LAYERS, map(float, traces), strict=True))
    return FisherRecord(step=step, epoch=step / 40, batches=2, open=LAYERS[4 - opened :], traces=named)


def hill(height: float) -> list[FisherRecord]:
    """A schedule that opens one layer at a time, and whose normalised trace goes 1, height, 2."""
    top = [(0, 0, 0, 1), (1, 5, height, height), (0, 2, 4, 2)]
    return [record(step, traces, opened) for step, traces, opened in zip((0, 40, 80), top, (1, 2, 4), strict=True)]


def write_traces(folder: Path, records: Sequence[FisherRecord]) -> None:
    (folder / "fisher.jsonl").write_text("".join(f"{json.dumps(each.line())}\n" for each in records))


@pytest.fixture(autouse=True)
def _own_figures_alone(draw_only: Callable[..., None]) -> None:
    draw_only(FisherSection)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures of the command alone; test_the_command_writes_what_it_finds draws them."""
    monkeypatch.setattr(Fisher, "drawings", lambda *_: [])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Schedules whose peaks rank as their scores; full opens everything and stays at 1."""
    scores = {name: [0.5 + 0.05 * place, 0.52 + 0.05 * place] for place, name in enumerate(SCHEDULES)}
    folder = write_study(tmp_path / "study", SCHEDULES, (0, 1), scores)
    for place, _ in enumerate(SCHEDULES):
        for seed in (0, 1):
            flat = [record(step, (1, 1, 1, 1)) for step in (0, 40, 80)]
            write_traces(folder / f"runs/method-{place}/seed-{seed}", hill(3 + place) if place else flat)
    return folder


def test_the_trace_is_normalised_by_the_open_layers() -> None:
    run = FisherRun("fun", 0, tuple(hill(6)))
    assert run.normalised.tolist() == [1, 6, 2]
    assert run.window == 1
    assert (run.peak, run.area, run.hill) == (6, pytest.approx(3.75), pytest.approx(2 / 3))
    assert run.early == 1  # the first third of 80 steps has one measurement
    assert run.is_schedule


def test_while_the_head_learns_alone_there_is_no_value() -> None:
    run = FisherRun("lpft", 0, (record(0, (1, 1, 1, 1), 0), record(5, (1, 2, 3, 6))))
    assert np.isnan(run.normalised[0])
    assert run.peak == 3
    assert caption([run]) == "Per open layer, tr(F) of lpft peaks at 3 at step 5 and ends at 3."


def test_the_moving_average_is_centred_and_narrower_at_the_ends() -> None:
    values = np.array([0.0, 3.0, 6.0, np.nan, 9.0])
    assert moving_average(values, 3)[:3].tolist() == [1.5, 3.0, 4.5]
    assert np.isnan(moving_average(values, 3)[3])
    assert FisherRun("full", 0, tuple(record(step, (1, 1, 1, 1)) for step in range(200))).window == 10
    assert FisherRun("full", 0, tuple(record(step, (1, 1, 1, 1)) for step in range(30))).window == 3


def test_fun_opens_the_largest_trace_first_and_of_equal_ones_the_higher_layer() -> None:
    measured = record(0, (5, 7, 7, 1), opened=1)
    assert order_of(measured) == ("layers.2", "layers.1", "layers.0", "layers.3")
    assert top_down(measured) == pytest.approx(1)
    assert top_down(record(0, (7, 6, 5, 9))) == pytest.approx(-1)


def test_schedules_correlate_with_their_scores(study: Path) -> None:
    runs = tracked_runs(read_study(study))
    found = correlation(runs, lambda run: run.peak)
    assert found is not None
    assert found[0] == pytest.approx(1)
    assert "the peak 1.00 (p = 0)" in schedules_caption(runs)
    assert "over 4 schedules" in schedules_caption(runs)  # full is none
    fewer = [run for run in runs if not run.arm.startswith("order")]
    assert correlation(fewer, lambda run: run.peak) is None
    assert schedules_caption(fewer).startswith("A correlation with the score needs at least four schedules")


def test_the_report_has_a_section_with_tables_and_figures(study: Path) -> None:
    page = write_report(study).html.read_text()
    assert "Fisher information during training" in page
    assert "fun:every=40 peaks at 5 at step 40 and ends at 2" in page
    for name in ("fisher", "fisher-layers", "fisher-order", "fisher-schedules"):
        assert (study / "tables" / f"{name}.csv").is_file()
    for name in ("fisher", "fisher-layers", "fisher-schedules"):
        assert (study / "figures" / f"{name}.svg").is_file()
        assert (study / "figures" / f"{name}.pdf").is_file()
    rows = list(csv.DictReader((study / "tables/fisher.csv").read_text().splitlines()))
    assert rows[4 * 3 + 1] | {"epoch": ""} == {
        "method": "fun:every=40",
        "seed": "0",
        "step": "40",
        "epoch": "",
        "batches": "2",
        "open_layers": "2",
        "normalised": "5.0",
        "moving_average": "5.0",
        "window": "1",
    }


def test_a_study_that_tracked_nothing_has_no_section(tmp_path: Path) -> None:
    folder = write_study(tmp_path, scores={"full": [0.5]})
    assert "Fisher" not in write_report(folder).html.read_text()
    with pytest.raises(RunError, match=r"No finished run of the study in .* has tracked .*: train with track='fisher"):
        find_tracked([folder])


def test_a_damaged_file_is_said_on_the_page(study: Path) -> None:
    (study / "runs/method-1/seed-0/fisher.jsonl").write_text("{}\n")
    assert "fisher.jsonl is damaged in line 1" in write_report(study).html.read_text()


def test_the_command_writes_what_it_finds(study: Path, command: Command) -> None:
    said = command("analyze", "fisher", str(study))
    assert said.code == 0
    assert "fun:every=40 peaks at 5 at step 40 and ends at 2" in " ".join(said.out.split())
    written = {path.name for path in (study / "analyses/fisher").iterdir()}
    assert {"fisher.csv", "fisher-order.csv", "fisher.svg", "fisher.pdf", "fisher-layers.svg"} <= written


@pytest.mark.usefixtures("undrawn")
def test_the_command_takes_single_runs(study: Path, command: Command, tmp_path: Path) -> None:
    one, two = str(study / "runs/method-1/seed-0"), str(study / "runs/method-2/seed-0")
    assert command("analyze", "fisher", one, "-q").code == 0
    assert (study / "runs/method-1/seed-0/analyses/fisher/fisher.csv").is_file()
    refused = command("analyze", "fisher", one, two)
    assert (refused.code, "which needs --out" in refused.err) == (2, True)
    assert command("analyze", "fisher", one, two, "--out", str(tmp_path / "both"), "-q").code == 0
    twice = command("analyze", "fisher", one, one, "--out", str(tmp_path / "twice"))
    assert (twice.code, "with seed 0; expected runs that differ" in " ".join(twice.err.split())) == (2, True)
    shutil.copytree(study / "runs/method-1/seed-0", tmp_path / "other")
    run = json.loads((tmp_path / "other/run.json").read_text())
    (tmp_path / "other/run.json").write_text(json.dumps({**run, "config": {**run["config"], "model": "another"}}))
    other = command("analyze", "fisher", two, str(tmp_path / "other"), "--out", str(tmp_path / "third"))
    assert (other.code, "expected runs of the same pretrained model" in " ".join(other.err.split())) == (2, True)
    table = json.loads(command("analyze", "fisher", one, "--json").out)["fisher-order"]
    assert [row["order"] for row in table] == ["3/2/1/0", "1/3/2/0", "2/3/1/0"]


@pytest.mark.parametrize(
    ("folder", "message"),
    [("nothing", "holds neither a run nor a study"), ("study/runs/method-0/seed-1", "has not tracked its Fisher")],
)
def test_what_cannot_be_analyzed_is_said(study: Path, command: Command, folder: str, message: str) -> None:
    (study / "runs/method-0/seed-1/fisher.jsonl").unlink()
    said = command("analyze", "fisher", str(study.parent / folder))
    assert (said.code, message in " ".join(said.err.split())) == (1, True)


def test_tables_of_many_steps_are_thinned_and_their_csv_is_whole() -> None:
    run = FisherRun("full", 0, tuple(record(step, (1, 2, 3, 4)) for step in range(101)))
    table = curve_table([run])
    assert (len(table.rows), len(table.records)) == (21, 101)
    assert [row[0].value for row in table.rows[::10]] == [0, 50, 100]
    assert order_table([run]).rows[0][1].text == "3/2/1/0"


def test_a_wide_range_has_plain_numbers_on_a_logarithmic_axis() -> None:
    records = [record(step, [10.0**power] * 4) for step, power in ((0, -2), (40, -1), (80, 1))]
    drawing = draw_curves([FisherRun("full", 0, tuple(records))], ["full"], "Seen.")
    assert ">0.01</text>" in drawing.svg
    assert "mathdefault" not in drawing.svg


@pytest.mark.usefixtures("undrawn")
def test_records_of_a_study_of_several_tasks_say_which(study: Path, command: Command, tmp_path: Path) -> None:
    conditions = Conditions((TaskChoice("moods"), TaskChoice("news")), ("toy-bert",))
    conditions.write(both := tmp_path / "both")
    for path in conditions.paths(both):
        shutil.copytree(study, path)
    tables = json.loads(command("analyze", "fisher", str(both), "--json").out)
    assert {row["part"] for row in tables["fisher-order"]} == {"moods__toy-bert", "news__toy-bert"}
    assert len({json.dumps(row) for row in tables["fisher-order"]}) == len(tables["fisher-order"])
    alone = json.loads(command("analyze", "fisher", str(study), "--json").out)
    assert not any("part" in row for row in alone["fisher-order"])


def test_a_study_of_several_tasks_that_version_0_1_began_is_found(study: Path) -> None:
    conditions = Conditions((TaskChoice("moods"), TaskChoice("news")), ("toy-bert",))
    conditions.write(both := study.parent / "both")
    (both / "parts.json").rename(both / "axes.json")
    for path in conditions.paths(both):
        shutil.copytree(study, path)
    assert [group.part for group in find_tracked([both])] == ["moods__toy-bert", "news__toy-bert"]
    with pytest.raises(UsageError, match=r"both is a study, and 2 folders were named"):
        find_tracked([both, study])
