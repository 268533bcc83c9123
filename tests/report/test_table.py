"""Tables: each column says once what is shown and what is exported."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gradgate.report.export import to_csv, to_markdown
from gradgate.report.formats import ScoreFormat
from gradgate.report.table import (
    Column,
    Entry,
    Table,
    fields_of,
    interval_fields,
    ranked,
    records_of,
    significance,
    spread_entry,
    spread_fields,
    step_column,
    text_column,
)
from gradgate.statistics import Summary, summarize


@dataclass(frozen=True)
class City:
    name: str
    degrees: float
    days: int


CITIES = [City("Berlin", 21.25, 3), City("Oslo", 14.5, 2), City("Rome", 30.0, 1)]
COLUMNS: tuple[Column[City], ...] = (
    text_column("city", "City", of=lambda city: city.name),
    Column("days", raw=lambda city: city.days),
    Column(
        "warmth", "Degrees", show=lambda city: f"{city.degrees:.0f}", raw=lambda city: city.degrees, field="degrees"
    ),
    Column("warm", "Warm", show=lambda city: Entry("yes" if city.degrees > 20 else "no", detail=f"({city.days})")),
)


@pytest.fixture
def weather() -> Table:
    return Table.of("weather", "Weather", CITIES, COLUMNS, best=[2], notes=["One day was missing."])


def test_columns_are_shown_and_exported_by_accessor(weather: Table) -> None:
    assert [column.key for column in weather.columns] == ["city", "warmth", "warm"]
    assert [entry.line for entry in weather.rows[0]] == ["Berlin", "21", "yes (3)"]
    assert weather.records[0] == {"city": "Berlin", "days": 3, "degrees": 21.25}
    assert to_csv(weather).splitlines()[:2] == ["city,days,degrees", "Berlin,3,21.25"]
    assert (weather.best, weather.notes) == ({2}, ("One day was missing.",))


def test_shown_text_sorts_by_its_raw_value(weather: Table) -> None:
    assert [row[1].value for row in weather.rows] == [21.25, 14.5, 30.0]
    assert weather.rows[0][2].value is None


def test_hidden_columns_are_still_exported() -> None:
    table = Table.of("weather", "Weather", CITIES, COLUMNS, hidden={"warmth"})
    assert [column.key for column in table.columns] == ["city", "warm"]
    assert table.records[1]["degrees"] == 14.5
    assert "Degrees" not in to_markdown(table)


def test_records_may_have_other_rows() -> None:
    days = [(city.name, day) for city in CITIES for day in range(city.days)]
    fields: tuple[Column[tuple[str, int]], ...] = (
        Column("city", raw=lambda row: row[0]),
        Column("day", raw=lambda row: row[1]),
    )
    table = Table.of("weather", "Weather", CITIES, COLUMNS, records=records_of(days, fields))
    assert len(table.rows) == 3
    assert [record["day"] for record in table.records] == [0, 1, 2, 0, 1, 0]


def test_ranks_are_those_of_the_named_columns(weather: Table) -> None:
    ranked = weather.ranked(["warmth"], higher_is_better=True)
    assert [row[1].rank for row in ranked.rows] == ["second", "", "best"]
    assert [row[1].rank for row in weather.ranked(["warmth"], higher_is_better=False).rows] == ["second", "best", ""]
    assert not any(row[0].rank or row[2].rank for row in ranked.rows)
    assert ranked.records == weather.records


def test_rows_in_another_order_take_the_best_along(weather: Table) -> None:
    turned = weather.with_order([2, 0])
    assert [row[0].text for row in turned.rows] == ["Rome", "Berlin"]
    assert turned.best == {0}
    assert turned.records == weather.records


def test_groups_of_fields_are_exported_in_order() -> None:
    columns: tuple[Column[Summary], ...] = (
        *spread_fields(lambda row: row),
        *interval_fields("range", lambda row: None),
        *fields_of(lambda row: {"first": row.values[0], "last": row.values[-1]}, ("last", "first")),
    )
    (record,) = records_of([summarize([1.0, 2.0, 3.0])], columns)
    assert list(record) == [
        "n", "mean", "sd", "ci95_low", "ci95_high", "range_low", "range_high", "last", "first",
    ]  # fmt: skip
    assert (record["n"], record["mean"], record["sd"], record["range_low"]) == (3, 2.0, 1.0, None)
    assert (record["last"], record["first"]) == (3.0, 1.0)


def test_a_summary_without_values_is_a_dash() -> None:
    metric = ScoreFormat.fitting("macro_f1")
    assert spread_entry(None, metric) == spread_entry(summarize([]), metric) == Entry("–")
    assert spread_entry(summarize([0.5]), metric) == Entry("50.0", 0.5)
    assert step_column().entry(40) == Entry("40", 40)


def test_level_methods_share_their_rank_and_two_have_no_second() -> None:
    entries = [Entry("a", 0.5), Entry("b", 0.5), Entry("–"), Entry("c", 0.4)]
    assert [entry.rank for entry in ranked(entries, higher_is_better=True)] == ["best", "best", "", ""]
    assert [entry.rank for entry in ranked(entries, higher_is_better=False)] == ["", "", "", "best"]
    assert not any(entry.rank for entry in ranked(entries[:3], higher_is_better=True))


@pytest.mark.parametrize(
    ("p", "stars"), [(None, ""), (0.05, ""), (0.049, "*"), (0.01, "*"), (0.009, "**"), (0.0, "***")]
)
def test_stars_are_for_p_below_their_level(p: float | None, stars: str) -> None:
    assert significance(p) == stars
