"""LoRA beside full fine-tuning and freezing in one study: its table, and the warning about one learning rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.methods import Full
from gradgate.report import write_report
from gradgate.report.sections import find_sections
from gradgate.report.sections.main_table import main_table
from gradgate.report.study_summary import summarize_study
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.recorded import recorded_adapter
from gradgate.settings.run import make_config
from gradgate.study.arms import cross
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.search import read_space
from gradgate.study.shared_rate import shared_rate
from gradgate.study.study_file import SearchRecord
from support.trained_here import trained_here

pytest.importorskip("peft")

SEARCHED = read_space(["lr=1e-3,1e-2"]).record()


class Noting(SilentStudy):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def done(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder, progress = tmp_path_factory.mktemp("beside") / "study", Noting()
    config = make_config(**settings | {"steps": 2})
    asked = StudyRequest(config, ["full", "freeze:layers=1"], [0], adapters=["none", "lora:r=1"])
    with trained_here():
        counts = compare(asked, folder, progress)
    assert counts == RunCounts(finished=4, failed=0)
    return folder, progress.notes


def test_every_column_holds_for_all_of_them(done: tuple[Path, list[str]]) -> None:
    rows = {str(row["method"]): row for row in main_table(summarize_study(read_study(done[0]))).records}
    assert list(rows) == ["full", "freeze:layers=1", "lora:r=1", "lora:r=1 + freeze:layers=1"]
    for column in ("parameters_trained", "bytes_stored", "seconds_per_step", "peak_memory_bytes", "trainable_share"):
        assert all(row[column] for row in rows.values()), column
    sizes = [rows[name]["bytes_stored"] for name in ("full", "freeze:layers=1", "lora:r=1")]
    assert all(isinstance(size, int) for size in sizes)
    assert sizes == sorted(sizes, key=lambda size: -int(size or 0))


def test_one_rate_for_all_is_said_at_the_start_and_in_the_report(
    done: tuple[Path, list[str]], draw_only: Callable[..., None]
) -> None:
    draw_only()
    expected = "lora:r=1 and the model itself share the learning rate of 0.001. LoRA's best rate is about 10 times that"
    assert [expected in note for note in done[1]].count(True) == 1
    sections = find_sections(summarize_study(read_study(done[0])))
    assert [expected in caution for section in sections for caution in section.cautions()].count(True) == 1
    assert "as in lora:r=8,lr=0.01" in write_report(done[0]).html.read_text()


@pytest.mark.parametrize(
    ("adapters", "search", "said"),
    [
        ([None, "lora:r=8"], None, True),
        (["dora", None, "lora:lr=1e-3"], None, True),
        ([None, "lora:r=8,lr=1e-3"], None, False),
        ([None, "lora:r=8"], SEARCHED, False),
        ([None, "lora:r=8"], read_space(["warmup=0,0.1"]).record(), True),
        (["lora:r=8", "dora"], None, False),
        ([None, "houlsby"], None, False),
        ([None, "of a later version"], None, False),
    ],
)
def test_it_is_said_where_rates_are_shared_and_nowhere_else(
    adapters: list[str | None], search: SearchRecord | None, said: bool
) -> None:
    arms = cross([Arm(Full())], [recorded_adapter(text) for text in adapters])
    assert (shared_rate(arms, 1e-4, () if search is None else search.settings) is not None) == said


def test_a_wrong_option_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    config = make_config(model=str(tmp_path / "absent"), task="sst2", data=tmp_path / "absent")
    with pytest.raises(UsageError, match=r"'lora:rank=8' has no option 'rank'\. Did you mean 'rank_pattern'"):
        compare(StudyRequest(config, ["full"], [0], adapters=["lora:rank=8"]), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()
