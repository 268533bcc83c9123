"""`gradgate analyze forgetting`: any text over the steps of a training, and what `--keep-checkpoints` keeps for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from gradgate.analysis.finished import Loader
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.forgetting import NO_COURSE, ForgettingRow, curves, forgetting_folder, texts_of
from gradgate.analysis.forgetting_course import measure
from gradgate.analysis.runs import find_runs
from gradgate.errors import UsageError
from gradgate.layers import named_parameters
from gradgate.report import write_report
from gradgate.report.sections.analyzed.forgetting_course import ForgettingCourseSection, course_tables, draw_courses
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import Silent
from gradgate.settings.analysis import ComputeSettings
from gradgate.settings.forgetting import read_forgetting
from gradgate.settings.run import make_config
from gradgate.study.results import read_study
from gradgate.training.run import train
from gradgate.training.weight_history import put_weights, weight_files
from support.command_line import Command
from support.generators import save_generator, save_prompts
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run
from support.study_folder import write_study

pytest.importorskip("trl")
pytest.importorskip("sacrebleu")

HERE = ComputeSettings(device="cpu", batch_size=4)
TEXT = "the film was good\na sad day\nnot the poor user\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Six steps, dev after every second one."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "other.txt").write_text(TEXT)
    model, data = save_generator(folder / "model"), save_prompts(folder / "data")
    usual = {"model": str(model), "task": str(data), "max_length": 32, "batch_size": 4, "lr": 1e-2, "steps": 6}
    return usual | {"eval_every": 2, "save_every": 2, "skip_test": True, "max_new_tokens": 3, "device": "cpu"}


@pytest.fixture(scope="module")
def runs(base: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that kept every score on dev and measured the text itself, and one that kept nothing."""
    folder = tmp_path_factory.mktemp("runs")
    other = str(Path(base["model"]).parent / "other.txt")
    train(make_config(**base, keep_checkpoints=True, forgetting=other), folder / "kept")
    train(make_config(**base, method="freeze:layers=1"), folder / "plain")
    return folder


def measured(paths: list[Path], out: Path, text: Path | str) -> list[ForgettingRow]:
    (group,) = find_runs(paths, lambda text: None)
    return measure(group.runs, forgetting_folder(out), read_forgetting(str(text)), HERE, Silent())


def test_each_kept_step_is_measured_between_what_the_run_measured(
    runs: Path, base: dict[str, Any], tmp_path: Path
) -> None:
    text = Path(base["model"]).parent / "other.txt"
    rows = measured([runs / "kept"], tmp_path / "out", text)
    scores = json.loads((runs / "kept/scores.json").read_text())
    assert sorted(row.step for row in rows) == [0, 2, 4, 6]
    assert rows[0].value == scores["forgetting"]["before"]
    assert rows[-1].best
    assert (rows[-1].step, rows[-1].value) == (scores["best_step"], scores["forgetting"]["after"])
    again = measured([runs / "kept"], tmp_path / "out", text)
    assert again == rows
    assert len((tmp_path / "out/forgetting.csv").read_text().splitlines()) == 5


def test_another_text_is_measured_beside_the_first(runs: Path, base: dict[str, Any], tmp_path: Path) -> None:
    text, task = Path(base["model"]).parent / "other.txt", Path(base["task"]) / "test.jsonl"
    older = measured([runs / "plain"], tmp_path / "out", text)
    rows = measured([runs / "plain"], tmp_path / "out", task)
    assert [(row.step == 0, row.best, row.text) for row in rows] == [(True, False, str(task)), (False, True, str(task))]
    text.write_text(TEXT + "one more\n")
    try:
        newer = measured([runs / "plain"], tmp_path / "out", text)
    finally:
        text.write_text(TEXT)
    assert len(newer) == len(older) == 2
    assert {row.fingerprint for row in newer} != {row.fingerprint for row in older}
    assert len(curves(forgetting_folder(tmp_path / "out").read(), str(text))["freeze:layers=1"][0]) == 1


def test_divergence_and_loss_of_one_text_are_kept_apart(runs: Path, base: dict[str, Any], tmp_path: Path) -> None:
    text = str(Path(base["model"]).parent / "other.txt")
    loss = measured([runs / "kept"], tmp_path / "out", text)
    moved = measured([runs / "kept"], tmp_path / "out", f"{text}:metric=kl")
    assert {(row.text, row.metric, row.higher_is_better) for row in moved} == {(f"{text}:metric=kl", "kl", False)}
    assert [(row.step, row.best) for row in moved] == [(row.step, row.best) for row in loss]
    assert moved[0].value == 0.0
    assert all(row.value > 1e-6 for row in moved[1:])
    stored = forgetting_folder(tmp_path / "out").read()
    assert texts_of(stored) == (text, f"{text}:metric=kl")
    assert curves(stored, text)["full"][0] == [loss[0].value]
    assert curves(stored, f"{text}:metric=kl")["full"][0] == [0.0]
    assert measured([runs / "kept"], tmp_path / "out", text) == loss, "nothing is measured again"
    first, second = draw_courses(stored, ["full"])
    assert (first.title, second.title) == (
        f"Loss on other text during training: {text}",
        f"KL divergence on other text during training: {text}:metric=kl",
    )
    assert [table.title for table in course_tables(stored)] == [
        f"loss on {text} during training",
        f"KL divergence on {text}:metric=kl during training",
    ]


def test_the_divergence_is_that_of_the_run(base: dict[str, Any], tmp_path: Path) -> None:
    """Of prompts, with kept steps, an adapter, and rows of new tokens that the seed drew."""
    tokenizer = AutoTokenizer.from_pretrained(save_generator(tmp_path / "model"))
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(tmp_path / "model")
    setting = f"{Path(base['task']) / 'dev.jsonl'}:metric=kl"
    own = {"model": str(tmp_path / "model"), "open_new_tokens": True, "adapter": "pfeiffer:reduction=2", "seed": 5}
    config = make_config(**base | own, keep_checkpoints=True, forgetting=setting)
    scores = train(config, tmp_path / "run")
    torch.manual_seed(0)
    rows = measured([tmp_path / "run"], tmp_path / "out", setting)
    assert (rows[0].value, rows[-1].value) == (0.0, scores["forgetting"]["after"])
    torch.manual_seed(0)
    loss = measured([tmp_path / "run"], tmp_path / "out", base["task"])
    torch.manual_seed(1)
    assert measured([tmp_path / "run"], tmp_path / "again", base["task"])[0] == loss[0]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"method": "gradual:every=2"}, marks=pytest.mark.slow, id="gradual"),
        pytest.param({"adapter": "pfeiffer:reduction=2"}, id="adapter"),
        pytest.param({"method": "mixout:p=0.5"}, id="mixout"),
    ],
)
def test_what_is_kept_is_the_model_of_that_step_and_changes_no_bit(
    base: dict[str, Any], own: dict[str, Any], tmp_path: Path
) -> None:
    train(make_config(**base, **own), tmp_path / "plain")
    config = make_config(**base, **own, keep_checkpoints=True)
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(5))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "plain")
    kept = weight_files(RunFolder(tmp_path / "run"))
    assert list(kept) == [2, 4, 6]
    (group,) = find_runs([tmp_path / "run"], lambda text: None)
    found = Loader(HERE).load(group.runs[0].files.path)
    model = found.start()
    best = json.loads((tmp_path / "run/scores.json").read_text())["best_step"]
    put_weights(model, kept[best])
    mine, trained = named_parameters(model), named_parameters(found.found.model)
    assert mine.keys() == trained.keys()
    assert all(torch.equal(mine[name], trained[name]) for name in mine)


def test_only_what_was_open_is_kept(base: dict[str, Any], tmp_path: Path) -> None:
    train(make_config(**base | {"steps": 2}, method="freeze:layers=1", keep_checkpoints=True), tmp_path / "run")
    (file,) = weight_files(RunFolder(tmp_path / "run")).values()
    assert not any("layers.0" in name or "embed" in name for name in load_file(file))


def test_the_command_says_how_to_get_more_points(
    runs: Path, base: dict[str, Any], command: Command, tmp_path: Path
) -> None:
    text = str(Path(base["model"]).parent / "other.txt")
    said = command("analyze", "forgetting", str(runs / "plain"), "--text", text, "--out", str(tmp_path / "out"))
    assert said.code == 0, said.err
    assert NO_COURSE.replace("keep_checkpoints=True", "--keep-checkpoints") in said.out
    assert {"forgetting.csv", "forgetting-course.svg"} <= {path.name for path in (tmp_path / "out").iterdir()}
    said = command("analyze", "forgetting", str(runs / "plain"), "--text", "absent.txt", "--out", str(tmp_path / "no"))
    assert said.code == 1
    assert "absent.txt is missing" in said.err


def test_a_run_without_a_loss_of_language_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    train(make_config(**settings | {"steps": 1}), tmp_path / "run")
    (tmp_path / "other.txt").write_text(TEXT)
    with pytest.raises(UsageError, match="is classification, so its model has a task head instead of"):
        measured([tmp_path / "run"], tmp_path / "out", tmp_path / "other.txt")


def test_the_report_has_the_course(tmp_path: Path, draw_only: Any) -> None:
    draw_only(ForgettingCourseSection)
    write_study(tmp_path, ("full", "head"), scores={"full": [0.8], "head": [0.7]})
    folder = AnalysisFolder.of(tmp_path, "forgetting", ForgettingRow)
    same: dict[str, Any] = {"fingerprint": "f", "metric": "loss", "higher_is_better": False, "seed": 0}
    marks = {cell.arm.name: cell.mark for cell in read_study(tmp_path).cells if cell.seed == 0}
    folder.claim({})
    moved = same | {"metric": "kl", "arm": "full", "text": "a.txt:metric=kl", "run": marks["full"]}
    folder.append(
        ForgettingRow(step=step, best=step == 8, value=value, **moved)
        for step, value in ((0, 0.0), (4, 0.0004), (8, 0.125))
    )
    folder.append(
        ForgettingRow(arm=arm, run=marks[arm], text=text, step=step, best=step == 8, value=value, **same)
        for text in ("a.txt", "b.txt")
        for arm, values in (("full", (2.0, 3.0, 2.5)), ("head", (2.0, 2.0, 2.0)))
        for step, value in zip((0, 4, 8), values, strict=True)
    )
    written = write_report(tmp_path)
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"forgetting-course.svg", "forgetting-course-2.svg", "forgetting-course.csv"} <= names
    page = " ".join(written.html.read_text(encoding="utf-8").split())
    assert (
        "loss on a.txt: full goes from 2.0000 to 2.5000 with its best weights, worst at step 4 with 3.0000; head"
        in page
    )
    tables = (tmp_path / "tables").glob("forgetting-course*.md")
    assert sum("0.0004" in table.read_text(encoding="utf-8") for table in tables) == 1
    assert "kl on a.txt:metric=kl: full goes from 0 to 0.125 with its best weights." in page
    assert (
        "KL divergence on a.txt:metric=kl: the mean Kullback-Leibler divergence KL(pretrained || trained) of the "
        "distributions of the next token, in nats per token; 0 for the pretrained model." in page
    )
