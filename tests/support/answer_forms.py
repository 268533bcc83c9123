"""Make questions, chats and other texts with answers in the forms that people keep them in, or with a fault."""

from __future__ import annotations

import json
from typing import Any

from support.ticket_rows import ROWS, THINGS, at, lines, table, texts


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
