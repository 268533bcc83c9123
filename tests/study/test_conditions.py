"""Several tasks and models in one study: which runs it has, where they are, and what one queue does with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError, RunError, UsageError
from gradgate.runs.state import RunState
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.conditions import Conditions, TaskChoice, condition_folders, condition_names, read_conditions
from gradgate.study.export import records
from gradgate.study.planning import StudyRequest
from gradgate.study.pooled import read_pooled
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.search import read_space
from gradgate.study.status import read_status
from gradgate.study.workers.worker import join
from gradgate.training.run import train
from support.run_folders import assert_same_run, files
from support.tiny_folders import save_gpt2, save_texts
from support.trained_here import trained_here


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 4})


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A second task, of fewer rows."""
    folder = save_texts(tmp_path_factory.mktemp("weather"))
    rows = (folder / "train.tsv").read_text().splitlines()
    (folder / "train.tsv").write_text("\n".join(rows[:41]) + "\n")
    return str(folder)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_gpt2(tmp_path_factory.mktemp("gpt2")))


@pytest.fixture(scope="module")
def done(base: RunConfig, weather: str, gpt2: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks with two models, one method and one seed, finished. Copy it before it is changed."""
    folder = tmp_path_factory.mktemp("studies") / "done"
    parts = Conditions.of(base, [base.task, weather], [base.model, gpt2])
    with trained_here():
        counts = compare(StudyRequest(base, ["head"], [0], conditions=parts), folder, SilentStudy())
    assert counts == RunCounts(finished=4, failed=0)
    return folder


def test_every_task_is_run_with_every_model(done: Path, base: RunConfig, weather: str, gpt2: str) -> None:
    cells = [(cell["task"], cell["model"], cell["method"], cell["status"]) for cell in records(done)]
    names = [Path(base.task).name, Path(weather).name]
    assert cells == [(task, model, "head", "finished") for model in (base.model, gpt2) for task in names]
    assert len(read_status(done).runs) == 4


def test_each_run_is_what_train_alone_would_give(
    done: Path, base: RunConfig, weather: str, gpt2: str, tmp_path: Path
) -> None:
    alone = base.model_copy(update={"method": "head", "task": weather, "model": gpt2})
    train(alone, tmp_path / "run")
    part = Conditions.of(base, [base.task, weather], [base.model, gpt2]).paths(done)[3]
    assert_same_run(part / "runs/head/seed-0", tmp_path / "run")


def test_a_part_is_a_study_by_itself(done: Path, base: RunConfig) -> None:
    first = read_study(condition_folders(done)[0])
    assert first.study.model.name == base.model
    assert (first.count(RunState.FINISHED), first.study.arm_names) == (1, ("head",))


@pytest.mark.slow
def test_a_task_and_a_model_are_added_with_the_methods_and_seeds_that_are_there(
    base: RunConfig, weather: str, gpt2: str, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    compare(
        StudyRequest(base, ["head"], [0, 3], conditions=Conditions.of(base, [base.task, weather])), study, SilentStudy()
    )
    before = files(study / "parts")
    more = Conditions.of(base.model_copy(update={"model": gpt2}))
    assert compare(StudyRequest(base, ["full"], [3], conditions=more), study, SilentStudy()) == RunCounts(
        finished=16, failed=0
    )
    told = [(cell["method"], cell["seed"]) for cell in records(study)]
    assert sorted(told) == sorted([("head", 0), ("head", 3), ("full", 0), ("full", 3)] * 4)
    after = files(study / "parts")
    runs = [name for name in before if "/runs/" in f"/{name}"]
    assert runs
    assert {name: after[name] for name in runs} == {name: before[name] for name in runs}
    parts = read_conditions(study)
    assert parts is not None
    assert (len(parts.tasks), parts.models) == (2, (base.model, gpt2))


@pytest.mark.slow
def test_a_worker_takes_the_runs_of_every_part(done: Path, tmp_path: Path) -> None:
    study = Path(shutil.copytree(done, tmp_path / "study"))
    wanted = {cell["task"] + cell["model"] + cell["method"]: cell["score"] for cell in records(study)}
    for part in condition_folders(study):
        shutil.rmtree(part / "runs/head")
    (study / "study.db").unlink()
    assert join(study, None, SilentStudy()) == 0
    assert {cell["task"] + cell["model"] + cell["method"]: cell["score"] for cell in records(study)} == wanted


@pytest.mark.slow
def test_each_part_chooses_its_own_setting_of_a_search(base: RunConfig, weather: str, tmp_path: Path) -> None:
    parts = Conditions.of(base, [base.task, weather])
    space = read_space(["lr=1e-5,1e-2"])
    tally = compare(
        StudyRequest(base, ["full"], [0], conditions=parts, search=space), tmp_path / "study", SilentStudy()
    )
    assert tally == RunCounts(finished=2, failed=0)
    for part in condition_folders(tmp_path / "study"):
        search = json.loads((part / "study.json").read_text())["search"]
        assert len(search["results"]["full"]) == 2
        best = max(search["results"]["full"], key=lambda result: result["dev"])
        assert search["chosen"]["full"] == best["setting"]
    more = Path(shutil.copytree(base.task, tmp_path / "more"))
    later = Conditions.of(base.model_copy(update={"task": str(more)}))
    assert compare(StudyRequest(base, ["full"], [0], conditions=later), tmp_path / "study", SilentStudy()) == RunCounts(
        finished=3, failed=0
    )
    third = json.loads((condition_folders(tmp_path / "study")[2] / "study.json").read_text())
    assert len(third["search"]["results"]["full"]) == 2  # a part that comes later is searched as the others were


def test_one_task_and_model_need_no_parts(base: RunConfig, tmp_path: Path) -> None:
    parts = Conditions.of(base, [base.task], [base.model])
    assert [part.path for part in parts.configured(tmp_path / "study", base)] == [tmp_path / "study"]
    assert condition_folders(tmp_path / "study") == [tmp_path / "study"]


def test_the_files_of_several_tasks_are_in_folders_that_are_named_like_them(tmp_path: Path) -> None:
    for name in ("SST-2", "RTE"):
        (tmp_path / name).mkdir()
    found = Conditions.of(make_config(data=tmp_path), ["sst2", "rte", "sst2"])
    assert found.tasks == (TaskChoice("sst2", str(tmp_path / "SST-2")), TaskChoice("rte", str(tmp_path / "RTE")))
    with pytest.raises(DataError, match="named like the task mrpc, found none"):
        Conditions.of(make_config(data=tmp_path), ["sst2", "mrpc"])


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nope is not a folder"):
        Conditions.of(make_config(data=tmp_path / "nope"), ["sst2", "rte"])


def test_a_path_in_other_words_is_the_same_task(base: RunConfig, weather: str) -> None:
    folder = Path(weather)
    spelled = [f"{folder}/", f"{folder.parent}/./{folder.name}", f"{folder}/../{folder.name}"]
    assert Conditions.of(base, [weather, *spelled, base.task]).tasks == (TaskChoice(weather), TaskChoice(base.task))


def test_tasks_of_one_name_are_told_apart(tmp_path: Path, base: RunConfig) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "mood").mkdir(parents=True)
    parts = Conditions.of(base, [str(tmp_path / "a/mood"), str(tmp_path / "b/mood")])
    names = [part.name for part in parts.configured(tmp_path / "study", base)]
    assert names == [str(tmp_path / "a/mood"), str(tmp_path / "b/mood")]
    assert condition_names(["mood", "mood"], ["m", "m"]) == ["mood", "mood (2)"]
    assert condition_names(["x", "y"] * 2, ["org/m", "org/m", "n", "n"]) == ["x, m", "y, m", "x, n", "y, n"]


def test_a_setting_of_one_task_is_refused_for_several(base: RunConfig, tmp_path: Path) -> None:
    described = base.model_copy(update={"text": "body", "dev_file": Path("dev.tsv")})
    parts = Conditions.of(described, ["sst2", "rte"])
    with pytest.raises(UsageError, match="text=, dev_file=: these describe one task"):
        parts.configured(tmp_path / "study", described)


@pytest.mark.slow
def test_parts_that_were_given_other_methods_are_brought_together(done: Path, base: RunConfig, tmp_path: Path) -> None:
    study = Path(shutil.copytree(done, tmp_path / "study"))
    second = condition_folders(study)[1] / "study.json"
    record = json.loads(second.read_text())
    second.write_text(json.dumps({**record, "methods": ["bitfit", "head"]}))
    assert compare(StudyRequest(base, ["full"], [0]), study, SilentStudy()) == RunCounts(finished=12, failed=0)
    assert {read_study(part).study.methods for part in condition_folders(study)} == {
        ("head", "bitfit", "full"),
        ("bitfit", "head", "full"),
    }


def test_a_part_is_not_trained_by_itself(done: Path, base: RunConfig) -> None:
    part = condition_folders(done)[0]
    before = files(done)
    for attempt in (
        lambda: compare(StudyRequest(base, ["full"], [0]), part, SilentStudy()),
        lambda: join(part, None, SilentStudy()),
    ):
        with pytest.raises(RunError, match=r"is a part of the study .*done, which has the queue"):
            attempt()
    assert files(done) == before


@pytest.mark.usefixtures("here")
def test_data_that_has_changed_is_told_before_anything_is_written(
    base: RunConfig, weather: str, tmp_path: Path
) -> None:
    mine, study = Path(shutil.copytree(weather, tmp_path / "mine")), tmp_path / "study"
    compare(
        StudyRequest(base, ["head"], [0], conditions=Conditions.of(base, [base.task, str(mine)])), study, SilentStudy()
    )
    before = files(study)
    (mine / "dev.tsv").write_text("text\tlabel\na good day\tgood\na bad day\tbad\n")
    with pytest.raises(RunError, match="was started on other data"):
        compare(StudyRequest(base, ["full"], [0], conditions=Conditions.of(base, [weather])), study, SilentStudy())
    assert files(study) == before


@pytest.mark.usefixtures("here")
def test_a_study_of_one_task_is_not_made_one_of_several(base: RunConfig, weather: str, tmp_path: Path) -> None:
    compare(StudyRequest(base, ["head"], [0]), tmp_path / "study", SilentStudy())
    before = files(tmp_path / "study")
    with pytest.raises(RunError, match="holds a study of one task and model"):
        compare(
            StudyRequest(base, ["head"], [0], conditions=Conditions.of(base, [base.task, weather])),
            tmp_path / "study",
            SilentStudy(),
        )
    assert files(tmp_path / "study") == before


def test_other_settings_are_refused_and_change_nothing(done: Path, base: RunConfig) -> None:
    before = files(done)
    with pytest.raises(RunError, match=r"other settings \(lr: 0\.001 there, 0\.5 here\)"):
        compare(StudyRequest(base.model_copy(update={"lr": 0.5}), ["full"], [0]), done, SilentStudy())
    assert files(done) == before


def test_metrics_that_rise_and_fall_do_not_share_a_study(base: RunConfig, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for split in ("train", "dev", "test"):
        (pairs / f"{split}.csv").write_text("text,label\n" + "good day,0.5\nbad day,0.25\nwarm day,0.75\n" * 4)
    (pairs / "task.yaml").write_text(
        "name: degrees\nkind: regression\ntext: text\nlabel: label\nmetric: mse\n"
        "files: {train: train.csv, dev: dev.csv, test: test.csv}\n"
    )
    parts = Conditions.of(base, [base.task, str(pairs)])
    with pytest.raises(UsageError, match=r"accuracy of .* where it is higher and mse of degrees where it is lower"):
        compare(StudyRequest(base, ["full"], [0], conditions=parts), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_a_sweep_must_mean_the_same_methods_for_each_model(base: RunConfig, tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    deep = Path(shutil.copytree(base.model, tmp_path / "deep"))
    config = BertConfig.from_pretrained(deep, num_hidden_layers=3)
    BertModel(config).save_pretrained(deep)
    parts = Conditions.of(base, models=[base.model, str(deep)])
    with pytest.raises(UsageError, match="differ in their number of layers"):
        compare(StudyRequest(base, [], [0], sweep="freeze", conditions=parts), tmp_path / "study", SilentStudy())


def test_a_damaged_list_of_parts_is_told(done: Path, tmp_path: Path) -> None:
    study = Path(shutil.copytree(done, tmp_path / "study"))
    (study / "parts.json").write_text('{"tasks": 3}')
    with pytest.raises(RunError, match=r"parts\.json is damaged"):
        records(study)


@pytest.mark.usefixtures("here")
def test_training_sizes_are_an_axis_of_a_study(base: RunConfig, tmp_path: Path) -> None:
    study, sizes = tmp_path / "study", (8, None)
    short = base.model_copy(update={"steps": 2})
    compare(
        StudyRequest(short, ["head"], [0], conditions=Conditions.of(short, train_sizes=sizes)), study, SilentStudy()
    )
    parts = [read_study(part) for part in condition_folders(study)]
    assert [part.study.train_size for part in parts] == list(sizes)
    assert [part.study.part for part in parts] == ["8 rows", "all rows"]
    assert read_pooled(study).split_unit == "training size"
    assert [record["train_size"] for record in records(study)] == list(sizes)
    train(short.model_copy(update={"method": "head", "train_size": 8}), tmp_path / "run")
    assert_same_run(condition_folders(study)[0] / "runs/head/seed-0", tmp_path / "run")

    before = [files(part / "runs") for part in condition_folders(study)]
    assert compare(StudyRequest(short, ["head"], [0]), study, SilentStudy()) == RunCounts(finished=2, failed=0)
    assert [files(part / "runs") for part in condition_folders(study)] == before
    more = Conditions.of(short, train_sizes=[16]).merge_existing(study)
    assert more.train_sizes == (8, None, 16)
    assert more.paths(study)[:2] == condition_folders(study)


def test_one_training_size_is_a_setting_and_stays_one(base: RunConfig, weather: str, tmp_path: Path) -> None:
    one = Conditions.of(base, [base.task, weather], train_sizes=[8]).merge_existing(tmp_path / "study")
    assert one == Conditions.of(base, [base.task, weather])
    one.write(tmp_path / "study")
    with pytest.raises(RunError, match="was started with one training size, but train_size= lists 2"):
        Conditions.of(base, train_sizes=[8, 16]).merge_existing(tmp_path / "study")
    assert condition_names(["x", "y", "x"], ["m"] * 3, [8, 8, 1000]) == ["x, 8 rows", "y, 8 rows", "x, 1,000 rows"]


def test_a_size_that_the_task_does_not_have_is_refused_before_anything_runs(base: RunConfig, tmp_path: Path) -> None:
    parts = Conditions.of(base, train_sizes=[8, 1000])
    with pytest.raises(UsageError, match="train_size=1000 is not possible"):
        compare(StudyRequest(base, ["head"], [0], conditions=parts), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()
