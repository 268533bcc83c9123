"""The language adapters of the evidence: which texts they learn from, and what is recorded of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence import studies
from evidence.language_adapters import ROWS, PretrainedLanguage, language_hours, perplexities, pretrained
from evidence.running import settings_here
from evidence.studies import Study
from gradgate.files import read_json

SENTENCES = {
    "en": ("One red bird sings.", "Two birds fly.", "A cat sleeps. "),
    "de": ("Ein Vogel singt.", "Zwei.", "Eins"),
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    for language, (first, second, third) in SENTENCES.items():
        (tmp_path / "texts" / language).mkdir(parents=True)
        table = f"premise\thypothesis\tlabel\n{first}\t{second}\t0\n{first}\t{third}\t1\n"
        (tmp_path / "texts" / language / "dev.tsv").write_text(table, encoding="utf-8")
        (tmp_path / "texts" / language / "train.tsv").write_text("another\n", encoding="utf-8")
    below = {
        "texts": str(tmp_path / "texts"),
        "files": ["dev.tsv"],
        "columns": ["premise", "hypothesis"],
        "settings": {"kind": "pfeiffer+inv:reduction=2", "steps": 300, "max_length": 8},
        "quick": {"steps": 2},
    }
    compare = {"model": "sample", "languages": "en,de", "threads": 1}
    return Study(name="a", title="a", data="real", differs="", language_adapters=below, compare=compare)


@pytest.mark.slow
def test_each_language_has_an_adapter_of_its_own_sentences(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert settings_here(study, "quick", out)["language_adapters"] == str(out / "languages" / "{language}")
    assert (out / "languages" / "en.txt").read_text(encoding="utf-8") == (
        "One red bird sings.\nTwo birds fly.\nA cat sleeps.\n"
    )
    rows = list(pretrained(out, ["en", "de"]))
    assert [(row.language, row.texts, row.steps) for row in rows] == [("en", 3, 2), ("de", 3, 2)]
    assert all(row.perplexity > 1 and row.seconds > 0 for row in rows)
    assert read_json(out / "languages" / "de" / "run.json")["config"]["threads"] == 1


def test_adapters_that_two_studies_share_count_once(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "RUNS", tmp_path)
    other, without = (study.model_copy(update={"name": name}) for name in ("b", "c"))
    english, german, hindi = (PretrainedLanguage(code, 9, 300, 90.4, 1800) for code in ("en", "de", "hi"))
    ROWS.write(study.languages, [english, german])
    ROWS.write(other.languages, [english, hindi])
    assert language_hours([study, other, without]) == pytest.approx(1.5)
    assert perplexities(study) == "Perplexity of the language adapters on held-out texts: en 90, de 90."
    assert perplexities(without) == ""


def test_a_machine_without_the_texts_skips_the_study(study: Study, tmp_path: Path) -> None:
    assert study.missing is None
    (tmp_path / "texts").rename(tmp_path / "moved")
    assert study.missing == str(tmp_path / "texts")
