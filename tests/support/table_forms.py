"""Make tables of classes and scores in the forms that people keep them in; the broken ones have a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.ticket_rows import QUEUES, ROWS, at, lines, queues, table, texts


def tickets(broken: bool) -> list[list[Any]]:
    """Texts and queues; the broken ones lack a label in row 5."""
    own = [[text, queue] for text, queue in zip(texts(), queues(), strict=True)]
    return at(own, 4, ["a text", ""]) if broken else own


def csv_of(delimiter: str = ",", first: str = "") -> Callable[[bool], str]:
    return lambda broken: first + table(["message", "queue"], tickets(broken), delimiter)


def quoted_breaks(broken: bool) -> str:
    own = at(tickets(False), 0, ["a text\nover\n\nthree, lines", "billing"])
    content = table(["message", "queue"], own)
    return content.replace('three, lines"', "three, lines") if broken else content


def spam(broken: bool) -> bytes:
    own = [[["ham", "spam"][n % 2], text, "", "", ""] for n, text in enumerate(texts())]
    own[2] = ["ham", "привет" if broken else "it’s 5 € – naïve “friends”", " and more", "", ""]
    return table(["v1", "v2", "", "", ""], own).encode("cp1251" if broken else "cp1252")


def scores(broken: bool) -> str:
    numbers = [f"{n // 2},{n % 2}5" for n in range(ROWS)]
    if broken:
        numbers = [f"{n + 1}.{n}50,5 €" for n in range(10, 10 + ROWS)]
    return table(["text", "score"], [list(row) for row in zip(texts(), numbers, strict=True)], ";")


def spaced(broken: bool) -> str:
    own = "".join(f'"{text}", "{queue}"\n' for text, queue in tickets(False))
    return f"message, queue\n{own}" + ('"one, "two", billing\n' if broken else "")


def nan_words(broken: bool) -> str:
    own = at(tickets(False), 6, ["a text of words", "NaN"]) if broken else tickets(False)
    return "# exported by hand\n# from the shop\n" + table(["message", "queue"], own)


def excel(broken: bool) -> bytes:
    if broken:
        return b"PK\x03\x04 a workbook"
    return table(["message", "queue"], tickets(False), "\t").encode("utf-16")


def objects(broken: bool) -> list[dict[str, Any]]:
    return [{"id": n, "message": text, "queue": queue} for n, (text, queue) in enumerate(tickets(broken))]


def pretty(make: Callable[[list[dict[str, Any]]], Any]) -> Callable[[bool], str]:
    def write(broken: bool) -> str:
        content = json.dumps(make(objects(False)), indent=2)
        return content.replace('"queue": "sales"', '"queue" "sales"', 1) if broken else content

    return write


def columns_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: {str(n): row[name] for n, row in enumerate(found)} for name in found[0]}


def parquet(folder: Path, broken: bool) -> Path:
    named_rows().to_parquet(folder / "tickets.parquet")
    if broken:
        content = (folder / "tickets.parquet").read_bytes()
        (folder / "tickets.parquet").write_bytes(content[: len(content) // 2])
    return folder / "tickets.parquet"


def named_rows(count: int = ROWS) -> Any:
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=list(QUEUES))})
    return Dataset.from_dict({"text": texts(count), "label": [n % 3 for n in range(count)]}, features=features)


def saved(folder: Path, broken: bool) -> Path:
    from datasets import DatasetDict

    found = DatasetDict({"train": named_rows(), "validation": named_rows(6), "test": named_rows(6)})
    found.save_to_disk(folder / "saved")
    if broken:
        next((folder / "saved" / "train").glob("*.arrow")).unlink()
    return folder / "saved"


def hub_clone(folder: Path, broken: bool) -> Path:
    clone = folder / "tickets"
    (clone / "data").mkdir(parents=True)
    for shard in range(2):
        named_rows(12).to_parquet(clone / "data" / f"train-0000{shard}-of-00002.parquet")
    named_rows(6).to_parquet(clone / "data" / "validation-00000-of-00001.parquet")
    if broken:
        (clone / "data" / "train-00001-of-00002.parquet").write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
        )
    described = "".join(f"  - split: {name}\n    path: data/{name}-*\n" for name in ("train", "validation"))
    (clone / "README.md").write_text(
        f"---\nlicense: mit\nconfigs:\n- config_name: default\n  data_files:\n{described}---\n# Tickets\n"
    )
    return clone


def split_folders(folder: Path, broken: bool) -> Path:
    for split, own in (("train", tickets(broken)), ("test", tickets(False)[:6])):
        (folder / "data" / split).mkdir(parents=True)
        (folder / "data" / split / "data.csv").write_text(table(["message", "queue"], own))
    return folder / "data"


def class_texts(folder: Path, broken: bool) -> Path:
    for split, count in (("train", 24), ("test", 6)):
        for number, text in enumerate(texts(count)):
            place = folder / "films" / split / ("pos", "neg")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}_7.txt").write_text(text + "\n")
    (folder / "films" / "train" / "unsup").mkdir()
    (folder / "films" / "train" / "unsup" / "0_0.txt").write_text("nobody knows\n")
    if broken:
        (folder / "films" / "train" / "pos" / "2_7.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder / "films"


def fasttext(several: bool) -> Callable[[bool], str]:
    def make(broken: bool) -> str:
        own = [f"__label__{queue} {'__label__urgent ' if several and n % 2 else ''}{text}"
               for n, (text, queue) in enumerate(tickets(False))]  # fmt: skip
        return "\n".join(at(own, 4, "no label here at all") if broken else own) + "\n"

    return make


def languages(broken: bool) -> str:
    own = [
        [text, queue, ("en", "en", "de", "fr")[n % 4]]
        for n, (text, queue) in enumerate(zip(texts(72), queues(72), strict=True))
    ]
    own = [[*row[:2], row[2] if row[2] != "en" or not broken else "es"] for row in own]
    return table(["message", "queue", "lang"], own)


def nested(broken: bool) -> str:
    found = [{"userInput": {"text": text, "at": n}, "label": queue} for n, (text, queue) in enumerate(tickets(False))]
    return lines(at(found, 3, {**found[3], "userInput": {"at": 3}}) if broken else found)


def several_labels(broken: bool) -> str:
    found = [{"text": text, "labels": [queue, "urgent"] if n % 2 else [queue]}
             for n, (text, queue) in enumerate(tickets(False))]  # fmt: skip
    return lines(at(found, 3, {**found[3], "labels": [{"start": 0, "end": 3, "label": "X"}]}) if broken else found)


def accepted(several: bool) -> Callable[[bool], str]:
    def make(broken: bool) -> str:
        found = [
            {"text": text, "options": [{"id": name, "text": name.title()} for name in QUEUES], "answer": "accept",
             "accept": [queue, *(name for name in QUEUES[:1] if several and name != queue)]}
            for text, queue in tickets(False)
        ]  # fmt: skip
        return lines(at(found, 3, {**found[3], "answer": "ignore"}) if broken else found)

    return make


def pairs(broken: bool) -> str:
    own = [[text, f"{text} or not", ("entailment", "neutral")[n % 2]] for n, text in enumerate(texts())]
    return table(["premise", "hypothesis", "label"], at(own, 3, own[3][:2]) if broken else own, "\t")


def splits(broken: bool) -> str:
    found: dict[str, Any] = {"train": objects(False), "validation": objects(False)[:6], "test": objects(False)[:6]}
    if broken:
        found["test"] = at(found["test"], 2, {"message": "a text", "queue": "other"})
    return json.dumps(found, indent=2)
