"""The gallery of results: committed scores of others, imported by the command that the page shows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from gradgate_site.result_gallery import section

import gradgate as gg
from evidence.foreign import SCORES, record, source
from evidence.gallery.studies import GalleryStudy, read_gallery
from gradgate.cli import main
from support.pages import lines_of

ROOT = Path(__file__).resolve().parents[2]
GALLERY = read_gallery()
LARGE = ("elsa-freezing", "setfit-few-shot")


@pytest.mark.parametrize(
    "entry",
    [pytest.param(each, id=each.name, marks=pytest.mark.slow if each.name in LARGE else ()) for each in GALLERY],
)
def test_the_command_of_a_study_gives_what_its_section_says(
    entry: GalleryStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = section(entry, entry.imported(tmp_path / "imported"))
    command = lines_of(text.partition("```console\n")[2])[0].command
    (tmp_path / "evidence").symlink_to(ROOT / "evidence")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    answer = gg.Study(tmp_path / entry.out).answer
    assert f"**{answer}**" in text
    assert entry.source in text
    assert f'href="results/{entry.name}/report.html"' in text


def test_every_study_of_the_gallery_may_be_committed() -> None:
    assert {entry.licence for entry in GALLERY} == {"Apache-2.0"}
    assert all(entry.scores.stat().st_size < 500_000 for entry in GALLERY)


def test_the_arms_of_the_decoder_have_their_verdicts(tmp_path: Path) -> None:
    entry = GALLERY[0]
    lines = section(entry, entry.imported(tmp_path / "imported")).splitlines()
    words = {line.split(" | ")[0].strip("| "): line.split(" | ")[4] for line in lines if line.startswith("| ")}
    assert words["lora rank64-rslora"] == "non-inferior"  # corrected over all 23 arms, not the best of them alone
    assert words["full"] == "–"


@pytest.mark.skipif(not (source() / "setfit" / "runs.csv").is_file(), reason="results are not in GRADGATE_SHARED")
def test_the_committed_scores_are_those_of_the_sources(tmp_path: Path) -> None:
    record(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["peft.csv", "setfit.csv"]
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (SCORES / file.name).read_bytes()
