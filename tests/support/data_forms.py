"""Files in the forms that people have, with invented contents: each as it should be, and with one thing broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.answer_forms import (
    alpaca,
    answers,
    arc,
    dolly,
    hellaswag,
    messages,
    mmlu,
    parts,
    prompts,
    questions,
    sharegpt,
    squad,
    summaries,
    trl,
    weighted,
)
from support.table_forms import (
    accepted,
    class_texts,
    columns_of,
    csv_of,
    excel,
    fasttext,
    hub_clone,
    languages,
    nan_words,
    nested,
    objects,
    pairs,
    parquet,
    pretty,
    quoted_breaks,
    saved,
    scores,
    several_labels,
    spaced,
    spam,
    split_folders,
    splits,
)
from support.tagged_forms import bioes, conll2003, conllu, token_lists, token_rows
from support.ticket_rows import QUEUES, lines


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
