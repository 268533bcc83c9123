"""Claims on what analyses of a study's runs have found, against folders whose every number is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.landscape import LandscapeRow
from gradgate.analysis.representations import RepresentationRow
from gradgate.papers.check import ClaimVerdict, check_studies
from support.study_folder import write_study

ADAPTER = "houlsby:size=64"
ON_ADAPTER = ADAPTER
SEEDS = (0, 1, 2)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_study(tmp_path, methods=("full",), seeds=SEEDS)
    record = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**record, "adapters": [None, ADAPTER]}))
    return tmp_path


def verdict(study: Path, claim: str) -> ClaimVerdict:
    return next(found for found in check_studies([study], "adaptereff") if found.claim.id == claim)


def write_similarity(study: Path, falls: dict[str, float], splits: tuple[str, ...] = ("dev", "test")) -> None:
    """RSA of 1 at the embeddings, and lower by as much with each layer."""
    folder = AnalysisFolder.of(study, "representations", RepresentationRow)
    folder.claim({})
    folder.append(
        RepresentationRow(
            arm=arm, seed=seed, run="mark", split=split, tokens=50, layer=layer, layers=4,
            rsa=1 - fall * (1 + 0.01 * seed) * layer, cka=1.0,
        )
        for arm, fall in falls.items() for seed in SEEDS for layer in range(5)
        for split in splits
    )  # fmt: skip


def test_runs_with_dev_rows_of_their_own_are_measured_on_the_tasks_dev_rows(study: Path) -> None:
    write_similarity(study, {"full": 0.1, ON_ADAPTER: 0.02}, splits=("original_dev",))
    assert verdict(study, "A1").outcome.state == "holds"
    write_similarity(study, {"full": 0.01}, splits=("dev",))  # that of one method alone, as after an error
    assert verdict(study, "A1").outcome.state == "holds"


@pytest.mark.parametrize(
    ("falls", "state"),
    [
        ({"full": 0.1, ON_ADAPTER: 0.02}, "holds"),
        ({"full": 0.02, ON_ADAPTER: 0.1}, "fails"),
        ({"full": -0.02, ON_ADAPTER: -0.01}, "fails"),  # adapters are closer, but lower layers change more
    ],
)
def test_representations_settle_what_stays_closer_to_the_start(
    study: Path, falls: dict[str, float], state: str
) -> None:
    write_similarity(study, falls)
    found = verdict(study, "A1")
    assert found.outcome.state == state
    assert len(found.outcome.findings) == 4 + 2  # four layers, and how each of the two arms goes with depth


def test_representations_of_one_arm_settle_nothing(study: Path) -> None:
    assert "gradgate analyze representations" in verdict(study, "A1").outcome.findings[0].text
    write_similarity(study, {"full": 0.1})
    assert verdict(study, "A1").outcome.state == "cannot tell"


def write_landscape(study: Path, steepness: dict[str, float]) -> None:
    """Parabolas around the tuned weights."""
    folder = AnalysisFolder.of(study, "landscape", LandscapeRow)
    folder.claim({})
    folder.append(
        LandscapeRow(
            arm=arm, seed=seed, run="mark", where="line", split="dev", rows=30, x=x / 4, y=None, distance=2.0,
            loss=0.3 + (steep + 0.01 * seed) * (x / 4 - 1) ** 2,
        )
        for arm, steep in steepness.items() for seed in SEEDS for x in range(-8, 9)
    )  # fmt: skip


def test_landscapes_settle_which_minima_are_wider(study: Path) -> None:
    write_landscape(study, {"full": 8.0, ON_ADAPTER: 2.0})
    losses, widths = verdict(study, "A10").outcome.findings
    assert (losses.state, widths.state) == ("cannot tell", "holds")
    # 0.5 above: at 1 ± sqrt(0.5 / a), between points at straight lines.
    assert dict(widths.arms) == {"Fine-tune": "full", "Adapter-64": ON_ADAPTER}


@pytest.mark.parametrize("steepness", [{"full": 0.001, ON_ADAPTER: 0.001}, {"full": 0.001, ON_ADAPTER: 2.0}])
def test_minima_that_are_wider_than_the_line_settle_nothing(study: Path, steepness: dict[str, float]) -> None:
    """The width of one is a lower bound, so a difference of two would be that of the ends of the line."""
    write_landscape(study, steepness)
    _, widths = verdict(study, "A10").outcome.findings
    assert (widths.state, "on which each minimum ends" in widths.text) == ("cannot tell", True)


def test_an_analysis_that_cannot_be_read_settles_nothing(study: Path) -> None:
    write_similarity(study, {"full": 0.1, ON_ADAPTER: 0.02})
    file = study / "analyses" / "representations" / "representations.csv"
    file.write_text("arm,seed\nfull,0\n")
    assert verdict(study, "A1").outcome.state == "cannot tell"
