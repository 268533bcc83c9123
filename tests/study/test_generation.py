"""Studies of generation: the learning rate of each method is searched where none is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.report import write_report
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.study_file import read_study_file
from support.generators import save_generator, save_prompts

pytest.importorskip("trl")
pytest.importorskip("sacrebleu")

pytestmark = pytest.mark.usefixtures("here")


class Notes(SilentStudy):
    """Keeps what a study says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def settings(folder: Path, **changes: Any) -> RunConfig:
    held = {"model": str(save_generator(folder / "llama")), "task": str(save_prompts(folder / "data")), "device": "cpu"}
    return make_config(**held | {"steps": 1, "max_length": 32, "batch_size": 4, "max_new_tokens": 1} | changes)


def test_rates_are_searched_where_none_is_given(tmp_path: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    notes, base = Notes(), settings(tmp_path)
    assert compare(StudyRequest(base, ["full"], [0]), tmp_path / "study", notes) == RunCounts(1, 0)
    search = read_study_file(tmp_path / "study").search
    assert search is not None
    assert [setting["lr"] for setting in search.settings] == [2e-5, 1e-4, 5e-4, 2e-3, 1e-2]
    assert set(search.chosen) == {"full"}
    assert any("lr= is not set" in note for note in notes.said)
    page = write_report(tmp_path / "study").html.read_text()
    best = [{each.setting["lr"] for each in found if each.dev == found[0].dev} for found in search.results.values()]
    assert ("rate tried" in page) == any(rates in ({2e-5}, {1e-2}) for rates in best)
    assert "lr=2e-5,1e-4,5e-4,2e-3,1e-2" in page
    again = Notes()
    assert compare(StudyRequest(base, ["full"], [0]), tmp_path / "study", again) == RunCounts(1, 0)
    assert not any("No lr" in note for note in again.said)


@pytest.mark.parametrize(("changes", "methods"), [({"lr": 5e-5}, ["full"]), ({}, ["full", "lora:r=2,lr=1e-3"])])
def test_a_rate_that_is_given_is_taken(changes: dict[str, Any], methods: list[str], tmp_path: Path) -> None:
    assert (
        compare(StudyRequest(settings(tmp_path, **changes), methods, [0]), tmp_path / "study", SilentStudy()).failed
        == 0
    )
    assert read_study_file(tmp_path / "study").search is None
