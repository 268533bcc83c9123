"""Files in the forms that people have, with invented contents: each as it should be, and with one thing broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ticket_rows import QUEUES, ROWS, THINGS, at, lines, queues, table, texts


@dataclass(frozen=True)
class Sample:
    """A form of data.

    Attributes:
        write: puts the data into a folder, and returns what to name as the task; True writes it with a fault.
        kind: of the task that it is.
        fault: what the error of the broken one says, as a regular expression.
        labels: of train; None if outputs are not classes.
        said: what ``gradgate tasks`` says of it, as a regular expression.
    """

    write: Callable[[Path, bool], Path]
    kind: str
    fault: str
    labels: tuple[str, ...] | None = None
    said: str = ""


def one_file(name: str, make: Callable[[bool], str | bytes]) -> Callable[[Path, bool], Path]:
    """A form that is one file; ``make`` returns its content, with a fault if it is told to."""

    def write(folder: Path, broken: bool) -> Path:
        content = make(broken)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return write


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


def sentence(number: int) -> list[tuple[str, str, str]]:
    name, place = ("Anna", "Ben", "Clara")[number % 3], ("Oslo", "New York", "Lima")[number % 3]
    where = place.split()
    ends = ["S-LOC"] if len(where) == 1 else ["B-LOC", "E-LOC"]
    found = [(name, "PROPN", "S-PER"), ("lives", "VERB", "O"), ("in", "ADP", "O")]
    return [*found, *((word, "PROPN", tag) for word, tag in zip(where, ends, strict=True)), (f"n{number}", "NUM", "O")]


def bioes(broken: bool) -> str:
    blocks = ["\n".join(f"{word} {tag}" for word, _, tag in sentence(n)) for n in range(ROWS)]
    blocks = [f"# id {n} domain=train\n{block}" for n, block in enumerate(blocks)]
    return "\n\n".join(at(blocks, 3, "Anna S-PER\nlives\nhere O") if broken else blocks) + "\n"


def iob(tag: str) -> str:
    return tag.replace("S-", "B-").replace("E-", "I-")


def conll2003(broken: bool) -> str:
    blocks = ["\n".join(f"{word} {pos} I-NP {iob(tag)}" for word, pos, tag in sentence(n)) for n in range(ROWS)]
    blocks = at(blocks, 3, "Anna PROPN I-NP B-PER\nlives VERB O") if broken else blocks
    return "-DOCSTART- -X- -X- O\n\n" + "\n\n".join(blocks) + "\n"


def conllu(broken: bool) -> str:
    blocks = []
    for number in range(ROWS):
        own = [
            f"{n}\t{word}\t{word}\t{pos}\t_\t_\t0\troot\t_\t_" for n, (word, pos, _) in enumerate(sentence(number), 1)
        ]
        blocks.append(f"# sent_id = {number}\n" + "\n".join(own))
    content = "\n\n".join(blocks) + "\n\n"
    return content.replace("\tVERB\t_\t_\t0", "\tVERB\t_\t0", 1) if broken else content


def token_lists(broken: bool) -> str:
    found = [
        {
            "id": str(n),
            "tokens": [word for word, _, _ in sentence(n)],
            "ner_tags": [iob(tag) for _, _, tag in sentence(n)],
        }
        for n in range(ROWS)
    ]
    return lines(at(found, 2, {**found[2], "ner_tags": ["O"]}) if broken else found)


def token_rows(broken: bool) -> str:
    own = [
        [f"Sentence: {n + 1}" if place == 0 else "", word, pos, iob(tag)]
        for n in range(ROWS)
        for place, (word, pos, tag) in enumerate(sentence(n))
    ]
    return table(["Sentence #", "Word", "POS", "Tag"], at(own, 7, ["", "here", "ADV", ""]) if broken else own)


def fasttext(several: bool) -> Callable[[bool], str]:
    def make(broken: bool) -> str:
        own = [f"__label__{queue} {'__label__urgent ' if several and n % 2 else ''}{text}"
               for n, (text, queue) in enumerate(tickets(False))]  # fmt: skip
        return "\n".join(at(own, 4, "no label here at all") if broken else own) + "\n"

    return make


def question(number: int) -> tuple[str, str, str, int]:
    name = ("Anna", "Ben", "Clara")[number % 3]
    context = f"In {1900 + number} {name} bought the {THINGS[number % 8]}."
    return f"Who bought it in {1900 + number}?", context, name, context.index(name)


def squad(broken: bool) -> str:
    articles = []
    for number in range(ROWS):
        asked, context, answer, begin = question(number)
        begin += 1 if broken and number == 3 else 0
        qas = [{"id": f"q{number}", "question": asked, "answers": [{"text": answer, "answer_start": begin}]}]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": context, "qas": qas}]})
    return json.dumps({"version": "1.1", "data": articles}, indent=1)


def answers(broken: bool) -> str:
    found = []
    for number in range(ROWS):
        asked, context, answer, begin = question(number)
        own = {"text": [answer], "answer_start": [begin]}
        found.append({"id": f"q{number}", "question": asked, "context": context, "answers": own})
    return lines(at(found, 3, {**found[3], "answers": {"text": ["Zoe"], "answer_start": [3]}}) if broken else found)


def asked(number: int) -> str:
    return f"What is {number} and {number + 1}?"


def alpaca(broken: bool) -> str:
    found = [{"instruction": "Add.", "input": f"{n} and {n + 1}", "output": f"It is {2 * n + 1}."} for n in range(ROWS)]
    return json.dumps(at(found, 3, {**found[3], "output": 7}) if broken else found, indent=2)


def dolly(broken: bool) -> str:
    found = [{"instruction": asked(n), "context": "", "response": f"It is {2 * n + 1}.", "category": "open_qa"}
             for n in range(ROWS)]  # fmt: skip
    return lines(at(found, 3, {**found[3], "response": ""}) if broken else found)


def sharegpt(broken: bool) -> str:
    found = [
        {"id": f"c{n}", "system": "Be brief.", "conversations": [
            {"from": "human", "value": asked(n)}, {"from": "gpt", "value": f"It is {2 * n + 1}."}]}
        for n in range(ROWS)
    ]  # fmt: skip
    if broken:
        found[3]["conversations"][1]["from"] = "martian"  # type: ignore[index]
    return json.dumps(found, indent=2)


def chat(number: int, **further: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": asked(number)}, {"role": "assistant", "content": f"It is {2 * number + 1}."}]
    turns[-1] |= further
    return {"messages": turns}


def messages(broken: bool) -> str:
    found = [chat(n) for n in range(ROWS)]
    call = {"function_call": {"name": "add", "arguments": "{}"}}
    return lines(at(found, 3, chat(3, **call)) if broken else found)


def weighted(broken: bool) -> str:
    found = [chat(n, weight=n % 2) for n in range(ROWS)]
    for row in found:
        row["messages"] += [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "The same."}]
    return lines(at(found, 3, chat(3, weight=0.5)) if broken else found)


def parts(broken: bool) -> str:
    found = [
        {"messages": [
            {"role": "user", "content": [{"type": "text", "text": asked(n)}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"It is {2 * n + 1}."}]},
        ]}
        for n in range(ROWS)
    ]  # fmt: skip
    if broken:
        found[3]["messages"][0]["content"].append({"type": "image_url", "image_url": {"url": "a.png"}})  # type: ignore[attr-defined]
    return lines(found)


def trl(broken: bool) -> str:
    found = [{"prompt": chat(n)["messages"][:1], "completion": chat(n)["messages"][1:]} for n in range(ROWS)]
    return lines(at(found, 3, {**found[3], "prompt": [{"role": "user"}]}) if broken else found)


def prompts(broken: bool) -> str:
    found = [{"prompt": asked(n), "completion": f" It is {2 * n + 1}.", "label": True} for n in range(ROWS)]
    return lines(at(found, 3, {**found[3], "label": False}) if broken else found)


def questions(broken: bool) -> str:
    found = [{"question": asked(n), "answer": f"Add them: {n} and {n + 1} is {2 * n + 1}. #### {2 * n + 1}"}
             for n in range(ROWS)]  # fmt: skip
    return lines(at(found, 3, {**found[3], "answer": None}) if broken else found)


def summaries(broken: bool) -> str:
    own = [[text * 3, f"About {n}"] for n, text in enumerate(texts())]
    return table(["article", "highlights"], at(own, 3, ["", "nothing"]) if broken else own)


def mmlu(broken: bool) -> str:
    found = [
        {"question": asked(n), "choices": [str(2 * n), str(2 * n + 1), str(2 * n + 2)], "answer": 1 + n % 2}
        for n in range(ROWS)
    ]
    return lines(at(found, 3, {**found[3], "answer": 3}) if broken else found)


def arc(broken: bool) -> str:
    found = [
        {"id": n, "question": asked(n), "choices": {"text": [str(2 * n), str(2 * n + 1)], "label": ["A", "B"]},
         "answerKey": "BA"[n % 2]}
        for n in range(ROWS)
    ]  # fmt: skip
    return lines(at(found, 3, {**found[3], "choices": {"text": ["1"], "label": ["A"]}}) if broken else found)


def hellaswag(broken: bool) -> str:
    found = [{"ctx": text, "endings": ["and it ends.", "and begins."], "label": str(n % 2)}
             for n, text in enumerate(texts())]  # fmt: skip
    return lines(at(found, 3, {**found[3], "label": "C"}) if broken else found)


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


def unpacked(folder: Path, broken: bool) -> Path:
    """A folder with one file of any name."""
    (folder / "download").mkdir()
    one_file("final_v2.jsonl", lambda fault: lines(objects(fault)))(folder / "download", broken)
    return folder / "download"


TICKETS = tuple(sorted(QUEUES))
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
EMPTY = r":\d+: the label is empty|:\d+ has no"
FORMS: dict[str, Sample] = {
    "csv": Sample(one_file("t.csv", csv_of()), "classification", EMPTY, TICKETS),
    "csv with sep=": Sample(
        one_file("t.csv", csv_of(";", "sep=;\n")), "classification", EMPTY, TICKETS, "sets the delimiter ';'"
    ),
    "quoted line breaks": Sample(
        one_file("t.csv", quoted_breaks), "classification", r"t\.csv:\d+ is malformed", TICKETS
    ),
    "cp1252 with empty columns": Sample(
        one_file("spam.csv", spam),
        "classification",
        r"spam\.csv:4 is not UTF-8.*encoding",
        ("ham", "spam"),
        "read as cp1252",
    ),
    "decimal commas": Sample(
        one_file("t.csv", scores),
        "regression",
        r"t\.csv:2: 'score' is .*a number with a unit",
        None,
        "commas in 'score'",
    ),
    "quotes after spaces": Sample(
        one_file("t.csv", spaced),
        "classification",
        r"t\.csv:26 is malformed|t\.csv:26 has",
        TICKETS,
        "spaces before quotes",
    ),
    "comment lines": Sample(
        one_file("t.csv", nan_words), "classification", r"t\.csv:10: 'queue' is 'NaN'", TICKETS, "2 comment lines"
    ),
    "a sheet as Unicode text": Sample(
        one_file("t.txt", excel), "classification", r"t\.txt is a zip archive", TICKETS, "UTF-16"
    ),
    "JSON lines": Sample(one_file("t.jsonl", lambda fault: lines(objects(fault))), "classification", EMPTY, TICKETS),
    "pretty-printed JSON": Sample(
        one_file("t.json", pretty(lambda found: found)), "classification", r"t\.json:\d+ is not JSON", TICKETS
    ),
    "JSON under data": Sample(
        one_file("t.json", pretty(lambda found: {"version": 2, "data": found})),
        "classification",
        r"t\.json:\d+ is not JSON",
        TICKETS,
    ),
    "JSON of columns": Sample(
        one_file("t.json", lambda fault: json.dumps(columns_of(objects(fault)))),
        "classification",
        r"t\.json, row 5: the label is empty",
        TICKETS,
    ),
    "JSON of splits": Sample(
        one_file("t.json", splits),
        "classification",
        r"t\.json, row 3: the test split has the label 'other'",
        TICKETS,
        "an object of splits|JSON object of splits",
    ),
    "parquet": Sample(parquet, "classification", r"cannot be read as a Parquet file", TICKETS),
    "save_to_disk": Sample(saved, "classification", r"saved/train has no .*arrow", TICKETS, "DatasetDict"),
    "a clone of the hub": Sample(
        hub_clone,
        "classification",
        r"train-00001-of-00002\.parquet is a Git LFS pointer.*git lfs pull",
        TICKETS,
        "by its README",
    ),
    "folders of splits": Sample(split_folders, "classification", EMPTY, TICKETS, "a folder per split"),
    "folders of texts": Sample(
        class_texts, "classification", r"2_7\.txt is an image", ("neg", "pos"), "unsup is left out"
    ),
    "a folder with a file": Sample(unpacked, "classification", EMPTY, TICKETS),
    "BIOES": Sample(
        one_file("ner.conll", bioes), "token-classification", r"ner\.conll:\d+ has 1 columns", TAGS, "read as IOB2"
    ),
    "CoNLL-2003": Sample(
        one_file("eng.txt", conll2003), "token-classification", r"eng\.txt:\d+ has 3 columns, expected 4", TAGS
    ),
    "CoNLL-U": Sample(
        one_file("en.conllu", conllu),
        "token-classification",
        r"en\.conllu:3 has 9 tab-separated",
        ("ADP", "NUM", "PROPN", "VERB"),
    ),
    "lists of tokens": Sample(
        one_file("t.jsonl", token_lists), "token-classification", r"t\.jsonl:3 has \d tokens and 1 tags", TAGS
    ),
    "tokens by row": Sample(
        one_file("ner.csv", token_rows), "token-classification", r"ner\.csv:9 has no tag", TAGS, "make 24 sentences"
    ),
    "fastText": Sample(one_file("t.txt", fasttext(False)), "classification", r"t\.txt:5 has no label", TICKETS),
    "fastText with several labels": Sample(
        one_file("t.txt", fasttext(True)), "multi-label", r"t\.txt:5 has no label", (*TICKETS, "urgent")
    ),
    "SQuAD": Sample(
        one_file("qa.json", squad),
        "question-answering",
        r"qa\.json, row 4 .*the answer 'Ben|the answer 'Anna' is not at",
    ),
    "answers": Sample(
        one_file("qa.jsonl", answers), "question-answering", r"qa\.jsonl:4 .*'Zoe' is not at character 3"
    ),
    "Alpaca": Sample(
        one_file("alpaca.json", alpaca), "generation", r"row 4: 'output' is not text but int", None, "alpaca"
    ),
    "Dolly": Sample(one_file("dolly.jsonl", dolly), "generation", r"dolly\.jsonl:4 has no response", None, "alpaca"),
    "ShareGPT": Sample(
        one_file("sg.json", sharegpt), "generation", r"row 4, message 3 is from 'martian'", None, "messages"
    ),
    "messages": Sample(one_file("chat.jsonl", messages), "generation", r"chat\.jsonl:4, message 2 has 'function_call'"),
    "weights of turns": Sample(
        one_file("chat.jsonl", weighted), "generation", r"chat\.jsonl:4, message 2 has weight 0\.5"
    ),
    "messages in parts": Sample(
        one_file("chat.jsonl", parts), "generation", r"message 1 has a part of type 'image_url'"
    ),
    "TRL's pairs of turns": Sample(one_file("chat.jsonl", trl), "generation", r"chat\.jsonl:4, message 1.*content"),
    "prompts": Sample(one_file("p.jsonl", prompts), "generation", r"p\.jsonl:4: 'label' is false.*KTO"),
    "questions": Sample(one_file("gsm.jsonl", questions), "generation", r"gsm\.jsonl:4 has no response"),
    "summaries": Sample(one_file("cnn.csv", summaries), "generation", r"cnn\.csv:5: the response has no prompt"),
    "choices": Sample(one_file("mmlu.jsonl", mmlu), "multiple-choice", r"mmlu\.jsonl:4: the label '3' is not a choice"),
    "choices with names": Sample(
        one_file("arc.jsonl", arc), "multiple-choice", r"arc\.jsonl:4 has 1 choices, but the first row has 2"
    ),
    "endings": Sample(
        one_file("hs.jsonl", hellaswag), "multiple-choice", r"hs\.jsonl:4: the answer 'C' is not one of the 2"
    ),
    "languages": Sample(
        one_file("reviews.csv", languages), "classification", r"no English.*source=", TICKETS, "rows in en"
    ),
    "nested columns": Sample(
        one_file("n.jsonl", nested), "classification", r"n\.jsonl:4 has no 'userInput\.text'", TICKETS
    ),
    "several labels": Sample(
        one_file("m.jsonl", several_labels), "multi-label", r"m\.jsonl:4.*Spans|spans", (*TICKETS, "urgent")
    ),
    "an accepted option": Sample(
        one_file("p.jsonl", accepted(False)),
        "classification",
        r"p\.jsonl:4: 'answer' is 'ignore', and 1 of 24 rows were not accepted",
        TICKETS,
        "an accepted option",
    ),
    "accepted options": Sample(
        one_file("p.jsonl", accepted(True)), "multi-label", r"Keep the rows with answer accept: by `format", TICKETS
    ),
    "pairs": Sample(
        one_file("nli.tsv", pairs), "classification", r"nli\.tsv:5 has 2 columns, expected 3", ("entailment", "neutral")
    ),
}
