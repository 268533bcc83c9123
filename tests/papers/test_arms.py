"""The arms of a study under the labels of a paper: each verdict names those it used, and refuses to choose of two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradgate.papers.arms import arm_labels, model_label
from gradgate.papers.check import ClaimVerdict, check_studies
from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import together
from gradgate.papers.measured import numbers_of_study
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.study.results import read_study
from gradgate.study.study_file import StudyRecord
from support.command_line import Command
from support.study_folder import write_study


def study(methods: tuple[str, ...], adapters: tuple[str | None, ...] = (None,), **settings: object) -> StudyRecord:
    """A study of these arms."""
    task = TaskRecord(name="toy", kind="classification", metric="accuracy")
    return StudyRecord(task, ModelRecord(name="toy", parameters=200), methods, (0,), settings, adapters=adapters)


def verdict_on(folder: Path, paper: str, claim: str) -> ClaimVerdict:
    """What a study says of one claim."""
    return next(verdict for verdict in check_studies([folder], paper) if verdict.claim.id == claim)


@pytest.mark.parametrize(
    ("paper", "methods", "adapters", "labels"),
    [
        ("graddrop", ("full", "graddrop:p=0.2", "graddrop:p=0.9"), (None,), ["SFT", "GradDrop", "GradDrop"]),
        (
            "graddrop",
            ("anneal-graddrop", "anneal-graddrop:p=0.2", "anneal-layer-graddrop:p=0.2"),
            (None,),
            ["Anneal-GradDrop", "anneal-graddrop:p=0.2", "anneal-layer-graddrop:p=0.2"],
        ),
        ("graddrop", ("full",), (None, "houlsby"), ["SFT", "houlsby"]),
        ("graddrop", ("gradfreeze", "gradfreeze:order=bottom-up", "lisa"), (None,), None),
        ("elsa", ("full", "freeze:layers=3", "head"), (None,), ["baseline", "frozen 3/4", "frozen 4/4"]),
        ("fun", ("full", "gradual"), (None, "pfeiffer"), ["Full-FT", "gradual", "Ada", "Ada+GU"]),
        ("fun", ("full", "gradual"), (None,), ["Ada", "Ada+GU"]),
        (
            "adaptereff",
            ("full",),
            (None, "houlsby:size=256", "houlsby:size=256,lr=1e-4,tapt_epochs=100", "houlsby", "pfeiffer:reduction=16"),
            ["Fine-tune", "Adapter-256", "Adapter-256+TAPT", "Adapter-64", "pfeiffer:reduction=16"],
        ),
        (
            "adaptereff",
            ("mixout:p=0.9", "graddrop"),
            (None, "houlsby:size=64,non_linearity=relu"),
            [
                "Fine-tune+mixout",
                "graddrop",
                "houlsby:size=64,non_linearity=relu + mixout:p=0.9",
                "houlsby:size=64,non_linearity=relu + graddrop",
            ],
        ),
    ],
)
def test_an_arm_has_the_label_of_what_it_is(
    paper: str, methods: tuple[str, ...], adapters: tuple[str | None, ...], labels: list[str] | None
) -> None:
    found = list(arm_labels(paper, study(methods, adapters), layers=4).values())
    assert found == (labels or ["GradFreeze-TopDown", "GradFreeze-BottomUp", "lisa"])


def test_pretraining_by_the_settings_of_the_study_counts_too() -> None:
    labels = arm_labels("adaptereff", study(("full",), (None, "houlsby:size=256"), tapt_epochs=20), layers=4)
    assert list(labels.values()) == ["Fine-tune", "Adapter-256+TAPT"]
    alone = arm_labels("adaptereff", study(("full", "head"), tapt_epochs=20), layers=4)
    assert list(alone.values()) == ["Fine-tune+TAPT", "head"]
    methods = ("full", "full:tapt_epochs=20", "houlsby:size=256", "houlsby:size=256,tapt_epochs=20")
    own = arm_labels("adaptereff", study(methods), layers=4)
    assert list(own.values()) == ["Fine-tune", "Fine-tune+TAPT", "Adapter-256", "Adapter-256+TAPT"]


def test_a_verdict_names_the_arms_that_it_used(tmp_path: Path, command: Command) -> None:
    scores = {"full": [0.60, 0.61, 0.62], "graddrop:p=0.9": [0.70, 0.715, 0.722]}
    write_study(tmp_path, tuple(scores), scores=scores)
    assert verdict_on(tmp_path, "graddrop", "G1").arms == {"GradDrop": ["graddrop:p=0.9"], "SFT": ["full"]}
    code, out, _ = command("papers", str(tmp_path), "--paper", "graddrop")
    assert (code, "arms: GradDrop = graddrop:p=0.9; SFT = full" in out) == (0, True)
    code, out, _ = command("papers", str(tmp_path), "--paper", "graddrop", "--json")
    records = {record["claim"]: record for record in json.loads(out)}
    assert records["G1"]["arms"] == {"GradDrop": ["graddrop:p=0.9"], "SFT": ["full"]}


def test_two_arms_with_one_label_leave_a_claim_open(tmp_path: Path, command: Command) -> None:
    scores = {"full": [0.60, 0.61, 0.62], "graddrop:p=0.2": [0.7, 0.71, 0.72], "graddrop:p=0.9": [0.5, 0.51, 0.53]}
    write_study(tmp_path, tuple(scores), scores=scores)
    verdict = verdict_on(tmp_path, "graddrop", "G1")
    assert verdict.outcome.state == "cannot tell"
    text = verdict.outcome.findings[0].text
    assert text.endswith("two arms fit GradDrop: graddrop:p=0.2, graddrop:p=0.9")
    code, out, _ = command("papers", str(tmp_path), "--paper", "graddrop")
    assert (code, "two arms fit GradDrop: graddrop:p=0.2, graddrop:p=0.9" in " ".join(out.split())) == (0, True)


def test_a_claim_without_the_ambiguous_label_is_still_checked(tmp_path: Path) -> None:
    scores = {"full": [0.7, 0.71, 0.72], "graddrop:p=0.2": [0.7, 0.71, 0.72], "graddrop:p=0.9": [0.5, 0.51, 0.53]}
    scores |= {"graddrop-epoch": [0.8, 0.82, 0.83]}
    write_study(tmp_path, tuple(scores), scores=scores)
    assert "GradDrop-Epoch - SFT = 10.67" in verdict_on(tmp_path, "graddrop", "G5").outcome.findings[0].text


def test_the_first_of_two_arms_is_not_replaced_by_the_last(tmp_path: Path) -> None:
    scores = {"graddrop:p=0.2": [0.7], "graddrop:p=0.9": [0.5]}
    numbers = numbers_of_study("graddrop", read_study(write_study(tmp_path, tuple(scores), (0,), scores)))
    assert {names for key, names in numbers.arms.items() if key.method == "GradDrop"} == {
        ("graddrop:p=0.2", "graddrop:p=0.9")
    }


def test_an_arm_that_is_in_two_studies_is_named_with_each(tmp_path: Path) -> None:
    for name in "ab":
        write_study(tmp_path / name, ("full", "graddrop"), scores={"full": [0.5, 0.51], "graddrop": [0.6, 0.62]})
    parts = [numbers_of_study("graddrop", read_study(tmp_path / name)) for name in "ab"]
    outcome = check(find_claim("G1"), together(parts))
    where = f"graddrop in {tmp_path / 'a'}, graddrop in {tmp_path / 'b'}"
    assert outcome.findings[0].text.endswith(f"two arms fit GradDrop: {where}")


def test_two_reproductions_are_checked_together(tmp_path: Path) -> None:
    halves = {
        "fun-table2": ("Ada+GU", "gradual:every=5", "pfeiffer", [0.72, 0.73]),
        "fun-table7": ("Full-FT", "full", None, [0.6, 0.615]),
    }
    for preset, (label, method, adapter, scores) in halves.items():
        folder = tmp_path / preset
        write_study(folder / "one", (method,), (0, 1), {method: scores}, ("test.en", "test.de"), **LANGUAGES)
        study_file, runs = folder / "one" / "study.json", sorted(folder.glob("one/runs/*/seed-*/run.json"))
        study_file.write_text(json.dumps({**json.loads(study_file.read_text()), "adapters": [adapter]}))
        for file in runs:
            record = json.loads(file.read_text())
            file.write_text(json.dumps({**record, "config": {**record["config"], "adapter": adapter}}))
        run = {"labels": ["mBERT", "XNLI", "full", label], "method": method, "adapter": adapter, "study": "one"}
        (folder / "reproduction.json").write_text(
            json.dumps({"preset": preset, "scale": "sample", "runs": [run], "left_out": {}, "notes": []})
        )
    folders = [tmp_path / preset for preset in halves]
    assert {verdict_on(folder, "fun", "F1").checked for folder in folders} == {False}
    verdict = check_studies(folders, "fun")[-1]
    assert (verdict.claim.id, verdict.checked) == ("F1", True)
    assert verdict.source == f"{folders[0]} and {folders[1]}"
    assert verdict.arms == {"Ada+GU": ["pfeiffer + gradual:every=5"], "Full-FT": ["full"]}


LANGUAGES = {"languages": {"test.en": "en", "test.de": "de"}, "name": "xnli"}


def test_a_model_in_a_folder_is_called_like_it() -> None:
    assert model_label("fun", ModelRecord("/models/my-bert", 1)) == "my-bert"
    assert model_label("fun", ModelRecord("me/my-bert", 1)) == "me/my-bert"
