"""What a release says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import gradgate
from gradgate.papers.published import papers

ROOT = Path(__file__).resolve().parent.parent


def test_the_citation_names_the_papers() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert {(each["title"], each["url"]) for each in cited} == {
        (paper.title, paper.link) for paper in papers().values()
    }


@pytest.mark.slow
def test_a_wheel_works_without_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("build")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)], check=True)
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.startswith(f"gradgate-{gradgate.__version__}-")
    # The dependencies are those of this environment; gradgate itself is the wheel's alone.
    site = next(path for path in sys.path if path.endswith("site-packages"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    own = tmp_path / "wheel"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(own)], check=True)
    code = (
        "import sys; "
        f"sys.path[:0] = [{str(own)!r}]; sys.path.append({site!r}); "
        "from gradgate.__main__ import main; main()"
    )
    for words in (["--version"], ["methods"], ["train", "--steps", "2", "--train-size", "40", "--languages", "en"]):
        done = subprocess.run(
            [str(python), "-I", "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/latest/scores.json").is_file()
