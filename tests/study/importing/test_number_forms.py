"""Numbers are read as people and spreadsheets write them, or not at all if they may be two."""

from __future__ import annotations

import pytest

from gradgate.study.importing.number_forms import read_number, read_rows, settle_commas

NUMBERS = {
    "80.1%": 0.801, "80,1 %": 0.801, "0,812": 0.812, "1,00E-05": 1e-5, "1.234,5": 1234.5, "1,234.5": 1234.5,
    "1 234,5": 1234.5, "1.234.567": 1234567.0, "81,234": None, "0.81 ± 0.02": None, "%": None, "1,2,3": None,
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_with_marks(text: str) -> None:
    assert read_number(text) == NUMBERS[text]


@pytest.mark.parametrize("text", ["1000", "1,000", "1.000", "1 000", "1000.0"])
def test_numbers_of_rows_are_whole(text: str) -> None:
    assert read_rows(text) == 1000


@pytest.mark.parametrize(
    ("delimiter", "other", "read"),
    [
        (";", "a", "81.234"),
        (",", "a", "81234"),
        ("\t", "a", "81,234"),
        ("\t", "0,5%", "81.234"),
        ("\t", "0.5", "81234"),
    ],
)
def test_the_table_says_what_a_comma_is(delimiter: str, other: str, read: str) -> None:
    row: dict[str, str | None] = {"score": "81,234", "other": other}
    settle_commas([row], delimiter)
    assert row == {"score": read, "other": other}
