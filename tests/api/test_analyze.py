"""``gg.analyze``: rows of each analysis, what is measured once, and studies and runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import RunError, UsageError
from gradgate.settings.run import make_config
from gradgate.study.compare import compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from support.trained_here import trained_here


@pytest.fixture(scope="module")
def study(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> gg.Study:
    base, folder = make_config(**settings | {"steps": 2, "lr": 1e-2}), tmp_path_factory.mktemp("analyzed") / "study"
    with trained_here():
        compare(StudyRequest(base, ["full", "head"], [0]), folder, SilentStudy())
    return gg.Study(folder)


def test_a_frozen_encoder_represents_as_before(study: gg.Study, tmp_path: Path) -> None:
    (found,) = gg.analyze("representations", study, tokens=40, out=tmp_path / "out", quiet=True)
    table = found.table().set_index(["method", "measure", "layer"])["mean"]
    assert (table["head"] == 1.0).all()
    assert (table["full"]["rsa"][1:] < 1.0).all()
    assert list(found.figures) == ["representations"]
    assert found.figures["representations"].svg.startswith(("<svg", "<?xml"))


def test_what_was_measured_is_read(study: gg.Study, tmp_path: Path) -> None:
    (first,) = gg.analyze("representations", study, tokens=40, out=tmp_path / "out", quiet=True)
    file = tmp_path / "out" / "representations.csv"
    rsa = str(first.found[0].rsa)
    file.write_text(file.read_text().replace(rsa, "0.125", 1))
    (second,) = gg.analyze("representations", study, tokens=40, out=tmp_path / "out", quiet=True)
    assert second.found[0].rsa == 0.125
    with pytest.raises(RunError, match=r"other settings \(seed: 0 there, 1 here\)\. Pass another out="):
        gg.analyze("representations", study.path, tokens=40, seed=1, out=tmp_path / "out", quiet=True)


def test_the_line_joins_the_start_and_the_end(study: gg.Study, tmp_path: Path) -> None:
    (found,) = gg.analyze(
        "landscape", study, rows=8, points=5, plane=3, low=-0.5, high=1.5, out=tmp_path / "out", quiet=True
    )
    assert found.folder == tmp_path / "out"
    assert {file.suffix for file in found.folder.iterdir()} >= {".csv", ".svg", ".pdf"}
    assert str(found.folder) in repr(found)
    with pytest.raises(UsageError, match="There is no table 'nothing'"):
        found.table("nothing")


def test_runs_share_a_folder_that_is_named(study: gg.Study, tmp_path: Path) -> None:
    runs = sorted(file.parent for file in study.path.rglob("run.json"))
    with pytest.raises(UsageError, match="2 runs were named, which needs out="):
        gg.analyze("representations", runs, tokens=40, quiet=True)
    (found,) = gg.analyze("representations", runs, tokens=40, out=tmp_path / "both", quiet=True)
    assert set(found.table()["method"]) == {"full", "head"}


def test_wrong_requests_are_named(study: gg.Study, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^low=0\.0: expected a number less than 0"):
        gg.analyze("landscape", study, low=0.0)
    with pytest.raises(UsageError, match=r"token.* Did you mean 'tokens'"):
        gg.analyze("representations", study, token=5)
    with pytest.raises(RunError, match="nowhere"):
        gg.analyze("fisher", tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"^No run was named; expected a study"):
        gg.analyze("fisher", [])
    with pytest.raises(UsageError, match=r"^There is no analysis 3\. Expected one of representations"):
        gg.analyze(3, study)  # type: ignore[arg-type]
