"""Make sentences with a tag per word in the forms that people keep them in; the broken ones have a fault."""

from __future__ import annotations

from support.ticket_rows import ROWS, at, lines, table


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
