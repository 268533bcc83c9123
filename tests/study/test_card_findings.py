"""What the card of a run says beyond its folder: intervals over its rows, and what its study may say of its method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradgate.runs.card import CardSource, model_card
from gradgate.runs.folder import RunFolder
from gradgate.study.card_findings import card_findings
from gradgate.study.verdicts import study_verdicts
from support.study_folder import write_study

ARM = "gradual:every=40"
CLEAR = {"full": (0.5, 0.52, 0.49), ARM: (0.7, 0.73, 0.68)}
UNCLEAR = {"full": (0.5, 0.6, 0.7), ARM: (0.7, 0.55, 0.6)}


def source_of(path: Path) -> CardSource:
    """What the card of a run of a written study is made from; such runs have no record of their task."""
    study = json.loads((path.parents[2] / "study.json").read_text())
    record = json.loads((path / "run.json").read_text())
    fingerprint = {"fingerprint": "0", "task": study["task"], "train_examples": 100}
    (path / "run.json").write_text(json.dumps(record | fingerprint))
    return CardSource.of(RunFolder(path))


def card_of(path: Path) -> str:
    source = source_of(path)
    card = model_card(source, library="transformers", usage="", findings=card_findings(source, RunFolder(path)))
    return card.replace("\\", "")


@pytest.mark.parametrize(("scores", "word"), [(CLEAR, "better"), (UNCLEAR, "inconclusive")])
def test_card_says_what_the_verdict_says(scores: dict[str, tuple[float, ...]], word: str, tmp_path: Path) -> None:
    study = write_study(tmp_path / "tones", scores=scores)
    (verdict,) = (each.record() for each in study_verdicts(study))
    assert verdict["word"] == word
    card = card_of(study / "runs/method-1/seed-0")
    assert "one of the study tones" in card
    low, high = verdict["interval_corrected"]
    assert (
        f"- {ARM} compared with full, macro_f1 on test, 3 common seeds: {word}; mean difference "
        f"{verdict['difference']:+.2f} points, corrected 95 % interval {low:+.2f} to {high:+.2f}, p = "
        f"{verdict['p_corrected']:.3g} (Holm, 1 tests)."
    ) in card
    assert f"- {ARM} compared with full" in card_of(study / "runs/method-0/seed-1")


def test_card_without_common_seeds_says_no_more_than_that(tmp_path: Path) -> None:
    study = write_study(tmp_path / "tones", scores={ARM: (0.7,)})
    card = card_of(study / "runs/method-1/seed-0")
    assert "one of the study tones" in card
    assert "0 common seeds: inconclusive." in card


def test_a_run_of_its_own_has_no_study(tmp_path: Path) -> None:
    study = write_study(tmp_path / "tones", scores=CLEAR)
    run = study / "runs/method-1/seed-0"
    source = source_of(run)
    alone = run.rename(tmp_path / "alone")
    assert card_findings(source, RunFolder(alone)).study is None


def rows(right: int, wrong: int) -> str:
    lines = [{"gold": "yes", "predicted": "yes"}] * right + [{"gold": "no", "predicted": "yes"}] * wrong
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_intervals_are_of_stored_rows_that_give_the_score(tmp_path: Path) -> None:
    study = write_study(tmp_path / "tones", scores={"full": (0.8,)}, metric="accuracy")
    run = study / "runs/method-0/seed-0"
    (run / "predictions").mkdir()
    (run / "predictions/test.jsonl").write_text(rows(80, 20))  # 0.8, as recorded
    (run / "predictions/dev.jsonl").write_text(rows(10, 10))  # not the recorded 0.81
    found = card_findings(source_of(run), RunFolder(run)).intervals
    assert found.keys() == {"test"}
    assert found["test"] == pytest.approx((0.72, 0.87), abs=0.015)
    card = card_of(run)
    low, high = found["test"]
    assert f"| {low:.4f}\u00a0to\u00a0{high:.4f} |" in card
    (run / "predictions/test.jsonl").unlink()
    assert "There is no interval: it needs" in card_of(run)
    assert "accuracy is not" not in card_of(run)


def test_an_arm_with_a_rate_of_its_own_has_its_own_verdict(tmp_path: Path) -> None:
    scores = {"full": (0.8, 0.82, 0.81), "head": (0.5, 0.52, 0.49), "head:lr=0.01": (0.6, 0.63, 0.62)}
    study = write_study(tmp_path / "tones", list(scores), scores=scores)
    for name, lr in (("head", 2e-5), ("head:lr=0.01", 0.01)):
        for file in (study / "runs" / f"method-{list(scores).index(name)}").glob("*/run.json"):
            record = json.loads(file.read_text())
            record["config"] |= {"method": "head", "lr": lr}
            file.write_text(json.dumps(record))
    card = card_of(study / "runs/method-2/seed-0")
    assert "- head:lr=0.01 compared with full" in card
    assert "- head compared with full" not in card
