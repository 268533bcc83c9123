"""The words that people search for are in the title, a heading or the first paragraph of the page that answers them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
TERMS = {
    "deploy": "guides/after-training",
    "serve": "guides/after-training",
    "ONNX": "guides/after-training",
    "GGUF": "guides/after-training",
    "vLLM": "guides/after-training",
    "Slurm": "guides/clusters",
    "wandb": "guides/trackers",
    "MLflow": "guides/trackers",
    "QLoRA": "guides/large-models",
    "4-bit": "guides/large-models",
    "mixed precision": "guides/large-models",
    "checkpointing": "guides/large-models",
    "gradual unfreezing": "guides/freezing",
    "LoRA": "guides/adapters",
    "DDP": "guides/many-gpus",
    "FSDP": "guides/many-gpus",
    "zero-shot": "guides/languages",
    "axolotl": "guides/integrations",
    "MCP": "guides/agents",
    "imbalanced": "guides/imbalanced",
    "class weights": "guides/imbalanced",
    "overfitting": "faq",
    "catastrophic forgetting": "faq",
    "layer-wise learning rate decay": "faq",
    "discriminative fine-tuning": "faq",
    "differential learning rates": "faq",
    "freeze embeddings": "faq",
    "which layers to freeze": "faq",
    "early stopping": "faq",
    "few-shot": "faq",
}


def places(page: Path) -> list[str]:
    """Return the headings of a page, and its first paragraph; those are what a search shows first."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    paragraphs = [block for block in re.split(r"\n{2,}", text) if block.strip() and not block.startswith(("#", "%"))]
    return [*headings, *paragraphs[:1]]


def leads(term: str, place: str) -> bool:
    """Return True if all words of a term stand in one place, in any form that begins as they do."""
    words = re.findall(r"[\w-]+", place.lower())
    return all(any(word.startswith(wanted) for word in words) for wanted in term.lower().split() if wanted != "to")


@pytest.mark.parametrize(("term", "page"), TERMS.items())
def test_a_search_leads_to_its_page(term: str, page: str) -> None:
    assert [place for place in places(DOCS / f"{page}.md") if leads(term, place)], (
        f"Name {term!r} in a heading or in the first paragraph of docs/{page}.md."
    )


def test_words_of_several_places_lead_nowhere() -> None:
    assert leads("freeze embeddings", "How do I freeze the embeddings?")
    assert not leads("freeze embeddings", "How do I freeze the head?")
    assert not leads("deploy", "After training")
