"""Finished runs in Python: the model in hand, predictions as frames, scores, plans and analyses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import gradgate as gg
from gradgate.errors import DataError, RunError, UsageError
from support.kind_folders import SAVE

TEXTS = ["a good day", "a bad, bad day", "the weather"]
EVERY_ORDER = (
    "import gradgate as gg, gradgate.methods",
    "import gradgate.methods, gradgate as gg",
    "from gradgate import methods; import gradgate as gg, gradgate",
)


@pytest.fixture(scope="module")
def run(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> gg.Run:
    return gg.train(**settings | {"steps": 2}, out=tmp_path_factory.mktemp("runs") / "full", quiet=True)


def test_loaded_model_gives_what_the_run_predicts(run: gg.Run) -> None:
    model, tokenizer = run.load()
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS, return_tensors="pt", padding=True)).logits
    found = run.predict(TEXTS)
    assert list(found.columns) == ["label", "probability.bad", "probability.good"]
    assert np.allclose(found.iloc[:, 1:].to_numpy(float), logits.double().softmax(-1).numpy(), atol=1e-12)
    assert list(found["label"]) == [model.config.id2label[int(best)] for best in logits.argmax(-1)]


def test_rows_in_every_form_are_the_same_rows(run: gg.Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text\n" + "\n".join(json.dumps(text) for text in TEXTS))
    dicts = [{"text": text} for text in TEXTS]
    expected = run.predict(TEXTS)
    for rows in (tmp_path / "rows.csv", dicts, pd.DataFrame(dicts), tuple(TEXTS), [[text] for text in TEXTS]):
        pd.testing.assert_frame_equal(run.predict(rows), expected)
    kept = run.predict([{"text": text, "id": number} for number, text in enumerate(TEXTS)], keep="id")
    assert list(kept["id"]) == [0, 1, 2]


def test_wrong_rows_are_named(run: gg.Run) -> None:
    with pytest.raises(UsageError, match="rows='a good day': there is no such file"):
        run.predict("a good day")
    with pytest.raises(DataError, match="The rows, row 2 has 2 texts; expected 1"):
        run.predict([["a"], ["a", "b"]])
    with pytest.raises(DataError, match="The rows are empty"):
        run.predict([])
    with pytest.raises(UsageError, match="rows is a int; expected texts"):
        run.predict(7)
    with pytest.raises(DataError, match=r"^rows has no column 'text'"):
        run.predict([{"words": "a good day"}])
    unlabelled = [{"text": text} for text in TEXTS]
    with pytest.raises(DataError, match=r"rows has no column 'label'; its columns are 'text'\. Name one with label="):
        run.evaluate(unlabelled)
    with pytest.raises(UsageError, match="texts without labels"):
        run.evaluate(TEXTS)
    with pytest.raises(UsageError, match=r"^rows= has no rows"):
        run.evaluate([])


def test_run_shows_itself(run: gg.Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.show()
    assert "accuracy" in capsys.readouterr().out


def test_labelled_rows_are_scored(run: gg.Run, tmp_path: Path) -> None:
    found = run.predict(TEXTS)["label"]
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, found, strict=True)]
    before = sorted(file for file in run.path.rglob("*"))
    assert run.evaluate(rows)["tests"]["test"]["accuracy"] == 1.0
    assert sorted(file for file in run.path.rglob("*")) == before
    assert run.evaluate(out=tmp_path / "scores")["tests"] == run.scores["tests"]
    assert gg.evaluate(run.path, pd.DataFrame(rows), quiet=True)["tests"]["test"]["accuracy"] == 1.0


def test_unfinished_run_says_how_to_finish_it(run: gg.Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    for ask in (lambda: gg.Run(tmp_path).load(), lambda: gg.predict(tmp_path, TEXTS), lambda: gg.evaluate(tmp_path)):
        with pytest.raises(RunError, match=r"has not finished\. Run its command again"):
            ask()
    with pytest.raises(RunError, match=r"holds no run: .* is missing"):
        gg.Run(tmp_path / "nowhere").predict(TEXTS)
    with pytest.raises(UsageError, match="7 is a int; expected a run or the folder of one"):
        gg.predict(7, TEXTS)  # type: ignore[arg-type]


def test_adapter_of_peft_is_loaded_as_its_library_knows_it(settings: dict[str, Any], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["query", "value"])
    adapted = gg.train(**settings | {"steps": 2, "lr": 1e-2}, adapter=config, out=tmp_path / "run", quiet=True)
    model, tokenizer = adapted.load()
    merged, _ = adapted.load(merge=True)
    assert isinstance(model, peft.PeftModel)
    assert type(merged).__name__ == "BertForSequenceClassification"
    assert not any("lora" in name for name, _ in merged.named_parameters())
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        logits = model(**batch).logits
        assert torch.allclose(merged(**batch).logits, logits, atol=1e-5)
    shares = adapted.predict(TEXTS).iloc[:, 1:].to_numpy(float)
    assert np.allclose(shares, logits.double().softmax(-1).numpy(), atol=1e-12)


def test_one_of_several_tasks_is_loaded_and_predicts(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    SAVE["multi-label"](tmp_path / "sets")
    tasks = f"  - {{task: '{settings['task']}', name: moods}}\n  - {{task: '{tmp_path}/sets', name: sets}}\n"
    (tmp_path / "both.yaml").write_text(f"kind: multitask\ntasks:\n{tasks}")
    own = settings | {"task": tmp_path / "both.yaml", "steps": 2}
    run = gg.train(**own, out=tmp_path / "run", quiet=True)
    for task in ("moods", "sets"):
        found = run.evaluate(of_task=task, out=tmp_path / f"{task}-scores")
        assert found["tests"] == run.scores["tasks"][task]["tests"]
    assert list(run.predict(TEXTS, of_task="moods").columns)[1:] == ["probability.bad", "probability.good"]
    assert all(isinstance(labels, list) for labels in run.predict(TEXTS, of_task="sets")["label"])
    with pytest.raises(
        UsageError, match=r"several tasks at once \(moods, sets\).*own. Did you mean 'moods'\? .*of_task="
    ):
        run.load(of_task="mood")


def test_pairs_are_two_texts_per_row(settings: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"a": f"row {number}", "b": "good" if number % 2 else "bad", "label": number % 2} for number in range(40)]
    own = {name: value for name, value in settings.items() if name != "task"} | {"steps": 2}
    run = gg.train(**own, task=rows, text="a", text_pair="b", out=tmp_path / "run", quiet=True)
    pairs = [("row 1", "good"), ("row 2", "bad")]
    dicts = [dict(zip("ab", pair, strict=True)) for pair in pairs]
    pd.testing.assert_frame_equal(run.predict(pairs), run.predict(dicts))


def test_numbers_and_tags_are_predicted(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tags = settings | {"task": SAVE["token-classification"](tmp_path / "data"), "steps": 2}
    found = gg.train(**tags, out=tmp_path / "tags", quiet=True).predict(["a good day"])
    assert list(found.columns) == ["predicted"]
    assert len(found["predicted"][0]) == 3


def test_plan_is_that_of_the_command() -> None:
    found = gg.plan(method="gradual:every=2", steps=8)
    assert found.steps == 8
    assert [phase.step for phase in found.phases] == [0, 1, 3, 5]  # the papers' step i is decided before it
    assert gg.plan(method="full", adapter="lora:r=2", steps=4).mean_share < 0.1
    with pytest.raises(UsageError, match="steps= is missing"):
        gg.plan(method="full")


def test_analysis_is_that_of_the_command(run: gg.Run, tmp_path: Path) -> None:
    (found,) = gg.analyze("representations", run, tokens=20, out=tmp_path / "out", quiet=True)
    assert "RSA" in repr(found)
    assert "layer" in found.table().columns
    assert found.figures
    assert list((tmp_path / "out").glob("*.csv"))
    with pytest.raises(UsageError, match=r"no analysis 'landscap'\. Did you mean 'landscape'"):
        gg.analyze("landscap", run)
    with pytest.raises(UsageError, match="fisher takes no settings, got tokens"):
        gg.analyze("fisher", run, tokens=5)


@pytest.mark.parametrize("imports", EVERY_ORDER)
def test_methods_is_the_module_and_the_catalogue(imports: str) -> None:
    names: dict[str, Any] = {}
    exec(imports, names)
    assert names["gg"].methods is names["gradgate"].methods
    assert {each.name for each in names["gg"].methods()} >= {"full", "gradual"}
    assert names["gg"].methods.Full().name == "full"
