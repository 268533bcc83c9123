"""The scoreboard: a row per claim and source, limits next to each verdict, and a grid that reads without colour."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evidence.limits import limits_of
from evidence.scoreboard import PAGE, TABLE, scoreboard_cells, scoreboard_page
from evidence.studies import Study, read_studies
from evidence.verdicts import AUTHORS, Checked
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims import claims, find_claim
from gradgate.papers.claims.base import Claim, ClaimCheck, ClaimOutcome, State
from gradgate.papers.scoreboard import FILE, SCOREBOARD, SOURCES, ScoreboardRow, scoreboard

SST2 = {"task": "sst2"}
CLAIM = Claim("E1", "elsa", "a < b & c")


def verdict(state: State, source: str = "t", stand_in: bool = False, parts: tuple[str, ...] = ()) -> ClaimVerdict:
    finding = ClaimCheck(state, "x = 1", "above 0", compared=True, tasks=("RTE",), seeds=5)
    return ClaimVerdict(CLAIM, ClaimOutcome(state, (finding,)), source, (), parts, stand_in)


def rows(checked: Checked, *studies: Study) -> dict[str, ScoreboardRow]:
    return {cell.row.source: cell.row for cell in scoreboard_cells([checked], studies)}


def test_every_claim_has_a_row_per_source_and_the_package_has_the_same_table() -> None:
    assert FILE.read_bytes() == TABLE.read_bytes()
    found = SCOREBOARD.read(TABLE)
    assert [(row.claim, row.source) for row in found] == [(claim.id, s) for claim in claims() for s in SOURCES]
    assert {row.verdict for row in found} <= {"holds", "fails", "cannot tell"}
    assert all(row.note for row in found)


def test_a_verdict_on_short_training_or_rates_at_the_edge_says_so_in_its_line() -> None:
    limited = {study.name for study in read_studies() if limits_of(study)}
    assert limited >= {"real-adapters-citation_intent", "real-freezing-ncbi_disease"}
    e8 = scoreboard()["E8"]["real"]
    assert e8.verdict == "holds"
    assert "short training (" in e8.note
    assert "rates at the edge (" in e8.note
    line = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("<tr><td>E8<"))
    assert "<small>other tasks, short training, rates at the edge, changed after scores on test</small>" in line


def test_what_collapsed_runs_change_is_in_the_note_and_a_changed_verdict_in_the_cell() -> None:
    with_all = verdict("cannot tell", parts=("x/s.csv",))
    steady = ClaimOutcome("holds", (ClaimCheck("holds", "x = 2", "above 0", compared=True),))
    checked = Checked(CLAIM, (), {"real": (replace(with_all, without_collapsed=steady),)})
    cell = next(cell for cell in scoreboard_cells([checked], []) if cell.row.source == "real")
    assert cell.row.note.endswith("; without collapsed runs, holds: x = 2, claimed above 0")
    assert cell.small_print == ("own rates", "holds without collapsed runs")


def test_no_claim_needs_a_number_of_seeds_that_only_a_difference_near_none_would_need() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert max(int(number) for number in re.findall(r"about (\d+) (?:seed|run)s", page)) <= 100
    assert not re.search(r"about \d+,\d+ (?:seed|run)s", page)
    assert "more than 100 seeds" in page.partition("## What would decide the rest")[2]


def test_a_verdict_that_no_task_belongs_to_is_counted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert not scoreboard()["E7"]["printed"].tasks  # sizes of models decide it
    counted = next(line for line in page.splitlines() if line.startswith("| printed |")).split(" | ")
    assert int(counted[1]) == sum(by["printed"].verdict == "holds" for by in scoreboard().values())


def test_a_paper_that_contradicts_itself_decides_nothing() -> None:
    found = rows(Checked(CLAIM, (verdict("holds", "Table 3"), verdict("fails", "Table A.3")), {}))
    assert found["printed"].verdict == "cannot tell"
    assert "holds in Table 3; fails in Table A.3" in found["printed"].note


def test_what_nothing_compares_has_no_tasks_and_says_what_is_lacking() -> None:
    found = rows(Checked(CLAIM, (), {}))
    assert {(row.verdict, row.seeds, row.tasks) for row in found.values()} == {("cannot tell", 0, 0)}
    assert found["authors"].note == "no runs of the authors are here"


@pytest.mark.parametrize("own", ["holds", "fails"])
def test_the_papers_tasks_come_before_others(own: State) -> None:
    other: State = "fails" if own == "holds" else "holds"
    found = rows(Checked(CLAIM, (), {"real": (verdict(own), verdict(other, stand_in=True))}))
    assert (found["real"].verdict, found["real"].seeds, found["real"].tasks) == (own, 5, 1)
    assert found["real"].note.endswith(f"the paper's tasks; own rates; other tasks, {other}: x = 1, claimed above 0")


def test_limits_of_the_study_follow_the_number() -> None:
    study = Study(
        name="s", title="", paper="elsa", data="real", differs="", short_training="9 steps", compare={"task": "sst2"}
    )
    checked = Checked(CLAIM, (), {"real": (verdict("holds", stand_in=True, parts=("x/s.csv",)),)})
    cell = next(cell for cell in scoreboard_cells([checked], [study]) if cell.row.source == "real")
    assert cell.row.note.endswith("; other tasks; own rates; short training (9 steps)")
    assert cell.small_print == ("other tasks", "own rates", "short training")


def test_numbers_of_other_tasks_have_the_limits_of_their_own_studies() -> None:
    long, short = (
        Study(
            name=name, title="", paper="elsa", data="real", differs="", short_training=steps, compare={"task": "sst2"}
        )
        for name, steps in (("long", ""), ("short", "9 steps"))
    )
    own = verdict("holds", parts=("x/long.csv",))
    others = verdict("cannot tell", stand_in=True, parts=("x/short.csv",))
    cells = scoreboard_cells([Checked(CLAIM, (), {"real": (own, others)})], [long, short])
    (note,) = (cell.row.note for cell in cells if cell.row.source == "real")
    assert note.endswith("; own rates; other tasks, cannot tell: x = 1, claimed above 0; short training (9 steps)")


@pytest.mark.parametrize("state", ["holds", "cannot tell"])
def test_the_authors_runs_are_named_as_what_they_are(state: State) -> None:
    (cell,) = (
        cell
        for cell in scoreboard_cells([Checked(CLAIM, (), {AUTHORS: (verdict(state),)})], [])
        if cell.row.source == AUTHORS
    )
    assert cell.small_print[0] == "GLUE alone"


def test_printed_numbers_from_elsewhere_say_where_they_are_from() -> None:
    found = find_claim("A5")
    cells = scoreboard_cells([Checked(found, (replace(verdict("fails"), claim=found),), {})], [])
    assert cells[0].small_print == ("on GLUE; the paper shows it in a figure without numbers",)


def test_the_grid_is_escaped_and_each_cell_has_a_sign_and_a_word() -> None:
    checked = Checked(CLAIM, (verdict("fails"),), {"real": (verdict("holds"),)})
    page = scoreboard_page([checked], scoreboard_cells([checked], []))
    grid = page[page.index("<table") : page.index("</table>")]
    assert "a &lt; b &amp; c" in grid
    assert re.findall(r'<td class="([a-z-]+)"[^>]*>([^<]*)<', grid) == [
        ("fails", "✗ fails"),
        ("nothing", "–"),
        ("holds", "✓ holds"),
        ("nothing", "–"),
    ]


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scoreboard.csv"
    file.write_text("claim,source,verdict,seeds,tasks,note\nE1,printed,maybe,0,0,x\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"line 2: verdict: expected .*, got 'maybe'"):
        SCOREBOARD.read(file)
