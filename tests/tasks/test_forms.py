"""The forms that people's data have: read without flags, said, and refused with the place of a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import disable_progress_bars

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from gradgate.tasks.forms import FORMS as ROW_FORMS
from gradgate.tasks.tables import check_files
from gradgate.tasks.understood import understand
from gradgate.tasks.unlabelled import examples_of, load_unlabelled, read_file
from support.command_line import Command
from support.data_forms import FORMS
from support.table_forms import named_rows, tickets
from support.ticket_rows import at, lines, queues, rows, table, texts


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    disable_progress_bars()


@pytest.mark.parametrize("form", FORMS)
def test_a_form_needs_no_flags(form: str, tmp_path: Path) -> None:
    sample = FORMS[form]
    spec = find_task(sample.write(tmp_path, False))
    found = understand(spec)
    assert spec.kind == sample.kind
    assert set(found.labels) == set(sample.labels or ())
    assert re.search(sample.said, " ".join([found.form, *found.notes]))
    assert len(found.examples) == 3
    assert found.lengths


@pytest.mark.parametrize("form", FORMS)
def test_what_is_shown_is_what_trains(form: str, tmp_path: Path) -> None:
    spec = find_task(FORMS[form].write(tmp_path, False))
    check_files(spec)
    data = load_task(spec)
    found = understand(spec)
    assert sum(data.rows.values()) == sum(count for counts in found.rows.values() for count in counts.values())
    assert set(data.notes) <= set(found.notes)


@pytest.mark.parametrize("form", FORMS)
def test_a_fault_is_named_by_every_command(form: str, tmp_path: Path) -> None:
    path = FORMS[form].write(tmp_path, True)
    for read in (understand, load_task):
        with pytest.raises(DataError, match=FORMS[form].fault):
            read(find_task(path))


@pytest.mark.parametrize("form", [form for form, own in ROW_FORMS.items() if own.kind is not None])
def test_the_example_of_a_form_has_it(form: str, tmp_path: Path) -> None:
    own = ROW_FORMS[form]
    example = dict(own.example)
    many = [{name: f"{cell} {n}" if own.weak else cell for name, cell in example.items()} for n in range(12)]
    path = tmp_path / "t.jsonl"
    path.write_text(lines(many) if form != "token rows" else lines([many[0], many[0]] * 6))
    assert find_task(path).form == form


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "preferences": (
        {"prompt": "a b c", "chosen": "d", "rejected": "e"},
        r"preferences \(columns .*DPOTrainer",
    ),
    "triplets": ({"anchor": "a b c", "positive": "d e f"}, r"triplets \(columns .*sentence-transformers"),
    "translations": ({"translation": {"en": "a", "de": "b"}}, r"translations.*text='translation\.en'"),
    "spans": ({"text": "Anna sings", "entities": [[0, 4, "PER"]]}, r"spans \(columns .*tokens and tags"),
    "running text": ({"text": "words and words"}, r"running text \(columns .*nothing to predict"),
    "an image": (
        {"image": "a.png", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        r":1 has 'image', which is not read",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_other_forms_are_named(form: str, tmp_path: Path) -> None:
    row, message = REFUSED[form]
    (tmp_path / "t.jsonl").write_text(lines([row | {"id": n} for n in range(12)] if "image" in row else [row] * 12))
    with pytest.raises(DataError, match=message):
        load_task(find_task(tmp_path / "t.jsonl"))


def test_a_form_can_be_overridden(tmp_path: Path) -> None:
    found = rows(question=texts(), answer=[f"{text} indeed" for text in texts()], label=queues())
    (tmp_path / "t.jsonl").write_text(lines(found))
    spec = find_task(tmp_path / "t.jsonl", text="question", text_pair="answer", label="label")
    assert (spec.kind, spec.form) == ("classification", None)
    described = "kind: generation\nform: questions\nfiles: {train: t.jsonl}\nsplit: 80/10/10\n"
    (tmp_path / "task.yaml").write_text(described)
    spec = find_task(tmp_path / "task.yaml")
    assert load_task(spec).train[0]["contents"][1].endswith("indeed")
    (tmp_path / "task.yaml").write_text(described.replace("questions", "alpaca"))
    with pytest.raises(DataError, match=r"not in the task's form 'alpaca', which has the columns `instruction`"):
        load_task(find_task(tmp_path / "task.yaml"))
    (tmp_path / "task.yaml").write_text(described.replace("questions", "alpacca"))
    with pytest.raises(DataError, match=r"unknown form 'alpacca'.*Did you mean 'alpaca'"):
        find_task(tmp_path / "task.yaml")


@pytest.mark.parametrize("form", ["quoted line breaks", "cp1252 with empty columns", "a sheet as Unicode text"])
def test_predictions_read_what_training_reads(form: str, tmp_path: Path) -> None:
    path = FORMS[form].write(tmp_path, False)
    spec = find_task(path)
    data = load_task(spec)
    other = path.with_name(f"new{path.suffix}")
    path.rename(other)
    assert len(load_unlabelled(spec, data.labels, examples_of(spec, read_file(other, spec))).tests["test"]) == sum(
        data.rows.values()
    )


@pytest.mark.parametrize(
    "form", ["folders of texts", "folders of splits", "a folder with a file", "a clone of the hub"]
)
def test_hidden_files_are_left_out(form: str, tmp_path: Path) -> None:
    folder = FORMS[form].write(tmp_path, False)
    before = load_task(find_task(folder))
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.with_name(f"._{path.name}").write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
        path.with_name(f".#{path.name}").symlink_to("an editor's lock")
        path.with_name(f".{path.stem}.json").write_text("{}")
    assert load_task(find_task(folder)).fingerprint == before.fingerprint


def test_a_nested_column_can_be_named(tmp_path: Path) -> None:
    found = [
        {"in": {"text": text, "note": {"words": f"a note, {text}"}}, "out": {"queue": queue}}
        for text, queue in tickets(False)
    ]
    (tmp_path / "t.jsonl").write_text(lines(found))
    with pytest.raises(DataError, match=r"several could be the text \(in\.text, in\.note\.words\)"):
        find_task(tmp_path / "t.jsonl")
    data = load_task(find_task(tmp_path / "t.jsonl", text="in.note.words", label="out.queue"))
    assert data.train[0]["text"].startswith("a note, the")
    with pytest.raises(DataError, match=r"has no column 'in\.words'"):
        load_task(find_task(tmp_path / "t.jsonl", text="in.words", label="out.queue"))


def in_languages(codes: list[str]) -> str:
    own = [
        [text, queue, codes[n % len(codes)]] for n, (text, queue) in enumerate(zip(texts(90), queues(90), strict=True))
    ]
    return table(["message", "queue", "lang"], own)


@pytest.mark.parametrize("given", [{}, {"label": "language"}, {"label": "language", "text": "text"}])
def test_languages_are_labels_where_nothing_else_is(tmp_path: Path, given: dict[str, str]) -> None:
    rows = [f"number {number} of many,{('en', 'de', 'fr')[number % 3]}" for number in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["text,language", *rows]))
    spec = find_task(tmp_path / "t.csv", **given)
    assert (spec.label, spec.languages, spec.language_column) == ("language", (), None)


def test_a_column_of_languages_makes_a_split_for_each(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(in_languages(["en", "en", "de", "fr"]))
    spec = find_task(tmp_path / "t.csv")
    data = load_task(spec)
    assert (spec.languages, spec.source, spec.label) == (("en", "de", "fr"), "en", "queue")
    assert set(data.tests) == {"test", "test.de", "test.fr"} or set(data.tests) == {"test.en", "test.de", "test.fr"}
    assert set(data.languages.values()) == {"en", "de", "fr"}
    assert any("rows in en; " in note and "in de" in note for note in data.notes)
    assert load_task(find_task(tmp_path / "t.csv", source="de")).languages["train"] == "de"
    assert set(load_task(find_task(tmp_path / "t.csv", languages=["fr"])).tests) == {"test.fr"}


@pytest.mark.parametrize(
    ("codes", "message"),
    [(["de", "fr"], r"rows in de, fr, and no English.*source="), (["python", "java"], r"several could be the label")],
)
def test_languages_that_are_not_clear_are_asked_for(codes: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(in_languages(codes))
    with pytest.raises(DataError, match=message):
        find_task(tmp_path / "t.csv")


@pytest.mark.parametrize("odd", ["", "Klingon??", "n/a", "12"])
def test_a_row_without_language_is_named(odd: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(in_languages(at(["en", "de"] * 45, 3, odd)))
    with pytest.raises(DataError, match=r"t\.csv:5: 'lang' is .*, but other rows have the name or code"):
        find_task(tmp_path / "t.csv")


def test_a_task_file_can_name_the_column_of_languages(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(in_languages(["en", "de"]).replace("lang", "spoken", 1))
    described = "text: message\nlabel: queue\nlanguage_column: spoken\nfiles: {train: t.csv}\nsplit: 70/15/15\n"
    (tmp_path / "task.yaml").write_text(described)
    assert set(load_task(find_task(tmp_path)).languages.values()) == {"en", "de"}


def test_large_files_hold_out_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradgate.tasks.types.MOST_HELD_OUT", 10)
    named_rows(240).to_parquet(tmp_path / "t.parquet")
    assert load_task(find_task(tmp_path / "t.parquet")).rows == {"train": 220, "dev": 10, "test": 10}


def test_the_command_shows_rows_and_doubts(tmp_path: Path, command: Command) -> None:
    own = [[n, "0.5", text, "spam" if n % 8 == 0 else "ham"] for n, text in enumerate(texts(80))]
    own[5][2] = own[6][2]
    (tmp_path / "t.csv").write_text(table(["id", "weight", "text", "label"], own))
    said = command("tasks", str(tmp_path / "t.csv"))
    parts = ["form: a text and its label, csv", "columns: text, label; not used: id, weight", "ham 56, spam 8"]
    parts += ["text in words ", "'weight' is not used", "imbalanced", "text: the", "repeat the text of another"]
    for part in parts:
        assert part in said.out.replace("\n", " ")
    shown = json.loads(command("tasks", str(tmp_path / "t.csv"), "--json").out)["understood"]
    assert (shown["kind"], shown["labels"], len(shown["examples"])) == ("classification", {"ham": 56, "spam": 8}, 3)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_two_steps_train(form: str, tmp_path: Path, draw_only: Callable[..., None]) -> None:
    import gradgate as gg

    draw_only()
    sample = FORMS[form]
    task = str(sample.write(tmp_path, False))
    model = "sample-decoder" if sample.kind == "generation" else "sample"
    gg.train(task=task, model=model, steps=2, batch_size=4, max_length=64, out=tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "scores.json").is_file()
