"""What the documentation makes from the code: cards of methods, pages of papers, and the index of the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from gradgate_site import evidence_found
from gradgate_site.arguments import options_of
from gradgate_site.form_tables import file_table, row_table
from gradgate_site.method_cards import WORDS, card
from gradgate_site.paper_pages import paper_page
from gradgate_site.plan_pictures import timeline_of

import gradgate as gg
from gradgate.methods import MethodInfo
from gradgate.papers import papers
from gradgate.papers.check import record_studies
from gradgate.tasks.forms import FORMS
from gradgate.tasks.readers.file_forms import FILE_FORMS
from support.study_folder import write_study

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = yaml.safe_load(WORDS.read_text(encoding="utf-8"))["families"]
WORDS_OF = {name: words for family in FAMILIES for name, words in family["methods"].items()}
FORESEEN = [
    info
    for info in gg.methods()
    if not gg.method(WORDS_OF[info.name].get("example", info.name)).traits.decides_by_measuring
]


@pytest.fixture(scope="module", autouse=True)
def _numbers_of_one_study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Judging all recorded numbers takes long; tests/evidence does it."""
    results = tmp_path_factory.mktemp("results")
    scores = {"full": (0.7, 0.71, 0.72), "freeze:layers=1": (0.5, 0.52, 0.51), "graddrop:p=0.2": (0.8, 0.7, 0.75)}
    record_studies([write_study(results / "study", tuple(scores), scores=scores)], results / "real/numbers.csv")
    evidence_found.verdicts.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence_found, "RESULTS", results / "real")
        yield
    evidence_found.verdicts.cache_clear()


def test_every_method_has_words_and_no_other() -> None:
    assert WORDS_OF.keys() == {info.name for info in gg.methods()}


@pytest.mark.parametrize("info", gg.methods(), ids=lambda info: info.name)
def test_every_option_of_a_method_is_explained(info: MethodInfo) -> None:
    assert [option.name for option in options_of(info) if not option.text] == []


@pytest.mark.parametrize("info", FORESEEN, ids=lambda info: info.name)
def test_the_plan_of_a_card_can_be_foreseen(info: MethodInfo, tmp_path: Path) -> None:
    timeline = timeline_of(WORDS_OF[info.name].get("example", info.name), 1, tmp_path)
    assert 0 < timeline.mean_share <= 1


def test_a_card_has_what_its_method_says(tmp_path: Path) -> None:
    info = next(info for info in gg.methods() if info.name == "bitfit")
    page = card(info, WORDS_OF["bitfit"], tmp_path)
    assert "Only the biases and the head learn." in page
    assert "<https://arxiv.org/abs/2106.10199>" in page
    assert "gradgate plan -m bitfit" in page
    share = re.search(r"([\d.]+)% of the weights learn", page)
    assert share is not None
    assert float(share[1]) < 5  # biases and the head of the embedded model, not the groups that hold them


def test_a_card_has_the_verdicts_on_claims_of_its_method() -> None:
    found = {info.name: evidence_found.about(info) for info in gg.methods()}
    assert "test these claims of the papers" in found["graddrop"]
    assert "(real data) |" in found["graddrop"]
    assert found["bitfit"] == ""


@pytest.mark.parametrize("key", papers())
def test_the_page_of_a_paper_has_its_claims(key: str) -> None:
    page = paper_page(papers()[key])
    claims = re.findall(r"^\| ([A-Z]\d+) \|", page, re.MULTILINE)
    assert claims == [f"{claims[0][0]}{number}" for number in range(1, len(claims) + 1)]
    assert papers()[key].link in page


def test_the_reference_lists_every_public_name() -> None:
    listed = (ROOT / "docs/api/index.md").read_text(encoding="utf-8").split()
    modules = {"adapters", "deltas", "gates", "methods"}
    assert {*gg.__all__} - modules - {*listed} == set()


def test_every_form_of_data_is_in_a_table() -> None:
    tables = file_table(FILE_FORMS.items()) + row_table(FORMS.values())
    assert all(f"| {name} |" in tables for name in (*FILE_FORMS, *FORMS))
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in row_table(FORMS.values()).splitlines()} == {6}
