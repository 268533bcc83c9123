"""Every real data set, by name and folder: the rows of its README, with the quirks of its source."""

from __future__ import annotations

from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import count_rows, find_task, load_task
from support.crossed import some_fast


def codes(text: str) -> list[str]:
    return text.split()


XCOPA = codes("et ht id it qu sw ta th tr vi zh")
XNLI = codes("ar bg de el en es fr hi ru sw th tr ur vi zh")
WIKIANN = codes(
    "af ar bg de el en es et eu fa fi fr he hi hu id it ja ka kk ko ml mr nl pl pt ru sw ta te tl tr uk ur vi yo zh"
)
UD = {
    **dict.fromkeys(codes("en de ar hi ru tr vi zh nl bg pl pt th ur"), 500),
    "es": 427,
    "fr": 416,
    "it": 482,
    "el": 456,
}


def english(**rows: int) -> dict[str, dict[str, int]]:
    return {split: {"en": count} for split, count in rows.items()}


# Task, folder, rows by split and language as the README has them.
REAL: list[tuple[str, str, dict[str, dict[str, int]]]] = [
    ("udpos", "ud", {"train": {"en": 5000}, "dev": {"en": 2001}, "test": UD}),
    (
        "xquad",
        "xquad",
        {"test": dict.fromkeys(codes("ar de el en es hi ro ru th tr vi zh"), 1190)},
    ),
    ("xcopa", "xcopa", {"dev": dict.fromkeys(XCOPA, 100), "test": dict.fromkeys(XCOPA, 500)}),
    ("copa", "copa", english(train=400, dev=100)),
    ("chemprot", "tae/chemprot", english(train=4169, dev=2427, test=3469)),
    ("citation_intent", "tae/citation_intent", english(train=1688, dev=114, test=139)),
    ("sciie", "tae/sciie", english(train=3219, dev=455, test=974)),
    ("scicite", "tae/scicite", english(train=3000, dev=500, test=1000)),
    ("sst2", "glue/SST-2", english(train=10_000, dev=872)),
    ("sst2_sentences", "glue/SST-2-sentences", english(train=6920, dev=872, test=1821)),
    ("cola", "glue/CoLA", english(train=8551, dev=1043, test=1063)),
    ("mrpc", "glue/MRPC", english(train=3668, dev=408, test=1725)),
    ("rte", "glue/RTE", english(train=2490, dev=277, test=300)),
    ("stsb", "glue/STS-B", english(train=5749, dev=1500, test=1379)),
    ("qnli", "glue/QNLI", english(dev=2000)),
    ("wnli", "glue/WNLI", english(train=635, dev=71, test=146)),
    ("agnews", "agnews", english(test=4000)),
    ("ncbi_disease", "ner/ncbi_disease", english(train=3000, dev=500, test=500)),
    ("bc5cdr", "ner/bc5cdr", english(train=3000, dev=500, test=500)),
    ("sciie_ner", "ner/sciie", english(train=1861, dev=275, test=500)),
    (
        "masakhaner",
        "ner/masakhaner2",
        {"test": dict.fromkeys(codes("hau ibo kin lug luo pcm swa wol yor"), 400)},
    ),
    ("wikiann", "wikiann", {"train": {"en": 3000}, "dev": {**dict.fromkeys(WIKIANN, 400), "yo": 100}}),
    ("xnli", "xnli", {"train": {"en": 6000}, "dev": dict.fromkeys(XNLI, 300), "test": dict.fromkeys(XNLI, 750)}),
    ("pawsx", "pawsx", {"dev": dict.fromkeys(codes("de en es fr ja ko zh"), 1000)}),
    ("mlqa", "mlqa", {"dev": {"ar": 150, "de": 150, "en": 150, "es": 149, "hi": 147, "vi": 150, "zh": 150}}),
]


SLOW = {"udpos": pytest.mark.slow, "wikiann": pytest.mark.slow}  # seconds, most of them for their train files


@pytest.mark.parametrize(
    ("name", "folder", "rows"), [pytest.param(*case, marks=SLOW.get(case[0], ()), id=case[0]) for case in REAL]
)
def test_rows_are_those_of_the_readme(shared: Path, name: str, folder: str, rows: dict[str, dict[str, int]]) -> None:
    assert count_rows(find_task(name, data=shared / "data" / folder)) == rows
    assert find_task(str(shared / "data" / folder)).name == name


# What trains as it stands, and the splits that it is tested on.
TRAINABLE: dict[str, tuple[str, ...]] = {
    "udpos": tuple(f"test.{language}" for language in UD),
    "ncbi_disease": ("test",),
    "bc5cdr": ("test",),
    "sciie_ner": ("test",),
    "wikiann": tuple(f"dev.{language}" for language in WIKIANN if language != "en"),
    "xnli": tuple(f"test.{language}" for language in XNLI),
    "xquad": tuple(f"test.{language}" for language in codes("ar de el en es hi ro ru th tr vi zh")),
    "copa": (),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in TRAINABLE])
def test_a_set_with_train_loads_whole(shared: Path, name: str) -> None:
    folder = next(folder for task, folder, _ in REAL if task == name)
    data = load_task(find_task(name, data=shared / "data" / folder))
    assert set(data.tests) == set(TRAINABLE[name])


# Sets without a train file: one of another set in the same form.
LENT: dict[str, dict[str, Any]] = {
    "mlqa": {"train_file": "xquad/xquad.en.json"},
    "xcopa": {"train_file": "copa/en/train.jsonl", "dev_file": "copa/en/val.jsonl"},
    "pawsx": {"train_file": "pawsx/en/dev.tsv"},
    "masakhaner": {"train_file": "wikiann/en/train.tsv", "dev_file": "wikiann/en/dev.tsv"},
    "qnli": {"train_file": "glue/QNLI/dev.tsv"},
    "agnews": {"train_file": "agnews/test.csv", "dev_file": "agnews/test.csv"},
    "xquad": {"train_file": "xquad/xquad.en.json", "dev_file": "mlqa/dev/dev-context-en-question-en.json"},
}


@some_fast("name", list(LENT), [name for name in LENT if name != "xquad"])
def test_a_set_without_train_takes_a_train_file(shared: Path, name: str, tmp_path: Path) -> None:
    folder, rows = next((folder, rows) for task, folder, rows in REAL if task == name)
    files = {
        flag: copy(shared / "data" / file, tmp_path / f"{flag}{Path(file).suffix}") for flag, file in LENT[name].items()
    }
    if name == "masakhaner":  # DATE is a type of MasakhaNER that WikiANN does not have
        with pytest.raises(DataError, match=r"test\.txt:\d+: the test\.\w+ split has the label 'B-DATE'"):
            load_task(find_task(name, data=shared / "data" / folder, **files))
        return
    data = load_task(find_task(name, data=shared / "data" / folder, **files))
    split = "test" if "test" in rows else "dev"
    tests = {test.partition(".")[2] or "en": len(found) for test, found in data.tests.items()}
    if split == "dev":
        tests = {"en": rows["dev"]["en"], **tests}
    assert tests == rows[split]


def test_questions_of_xcopa_are_those_of_the_language_that_has_them_right(shared: Path) -> None:
    files = {"train_file": shared / "data/copa/en/train.jsonl", "dev_file": shared / "data/copa/en/val.jsonl"}
    data = load_task(find_task("xcopa", data=shared / "data/xcopa", languages=["th", "tr", "et"], **files))
    asked = {split: [row.rpartition("What was")[2] for row in rows["premise"][:]] for split, rows in data.tests.items()}
    assert asked["test.th"] == asked["test.tr"] == asked["test.et"]
    assert {" the cause?", " the effect?"} == set(asked["test.th"])


def test_xnli_has_the_labels_of_multinli_for_train(shared: Path) -> None:
    data = load_task(find_task("xnli", data=shared / "data/xnli", languages=["sw"]))
    assert data.labels == ("entailment", "neutral", "contradiction")
    assert data.train[0]["label"] == 1
    assert set(data.tests["test.sw"]["label"][:]) == {0, 1, 2}


def test_xquad_without_train_is_cut_by_article(shared: Path) -> None:
    data = load_task(find_task("xquad", data=shared / "data/xquad", languages=["en", "de"]))
    contexts = [set(rows["context"][:]) for rows in (data.train, data.dev, data.tests["test.en"])]
    assert contexts[0].isdisjoint(contexts[1] | contexts[2])
    assert contexts[1].isdisjoint(contexts[2])
    assert len(data.train) + len(data.dev) + len(data.tests["test.en"]) == 1190
    assert data.tests["test.en"]["id"][:] == data.tests["test.de"]["id"][:]
    assert any("first 32 articles of the en test file" in note for note in data.notes)


def test_document_lines_are_no_sentences(shared: Path) -> None:
    data = load_task(find_task("bc5cdr", data=shared / "data/ner/bc5cdr"))
    assert data.labels == ("O", "B-Entity", "I-Entity")
    assert not any(word.startswith("-DOCSTART-") for words in data.train["tokens"][:] for word in words)
