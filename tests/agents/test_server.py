"""An agent asks the judge: a real client lists the tools and calls each; known answers, and what is refused."""

from __future__ import annotations

import csv
import json
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from scipy import stats

from support.study_folder import write_study

pytest.importorskip("mcp", reason="needs the extra mcp")

from support.agent_client import COMMAND, Call, Reply, Session, ask, ask_here, environment
from support.command_line import Command

READING = {"is_better", "noise_floor", "study_import", "study_verdicts", "memory", "methods"}
FULL, LORA, HEAD = [0.70, 0.72, 0.71, 0.73, 0.705], [0.75, 0.76, 0.74, 0.77, 0.755], [0.71, 0.70, 0.73, 0.72, 0.715]
SCORES = {"full": FULL, "lora": LORA, "head": HEAD}
CALLS: dict[str, Call] = {
    "better": ("is_better", {"a": "lora", "b": "full", "scores": SCORES, "metric": "accuracy"}),
    "worse": ("is_better", {"a": "full", "b": "lora", "results": "results.csv"}),
    "lower": ("is_better", {"a": "lora", "b": "full", "scores": SCORES, "metric": "loss"}),
    "inconclusive": ("is_better", {"a": "head", "b": "full", "scores": SCORES, "metric": "accuracy", "margin": 0.1}),
    "equivalent": ("is_better", {"a": "head", "b": "full", "scores": SCORES, "metric": "accuracy", "margin": 5}),
    "by seed": (
        "is_better",
        {
            "a": "b",
            "b": "a",
            "scores": {"a": {"7": 0.5, "8": 0.6, "9": 0.7}, "b": {"9": 0.8, "7": 0.61}},
            "metric": "f1",
        },
    ),
    "unpaired": (
        "is_better",
        {"a": "b", "b": "a", "scores": {"a": FULL, "b": LORA[:4]}, "metric": "accuracy", "paired": False},
    ),
    "collapsed": (
        "is_better",
        {"a": "b", "b": "a", "scores": {"a": LORA, "b": [0.80, 0.82, 0.79, 0.83, 0.2]}, "metric": "accuracy"},
    ),
    "one run": ("is_better", {"a": "b", "b": "a", "scores": {"a": [0.5], "b": [0.9]}, "metric": "accuracy"}),
    "study": ("is_better", {"a": "gradual:every=40", "b": "full", "results": "study"}),
    "floor": ("noise_floor", {"results": "results.csv"}),
    "floor of one arm": ("noise_floor", {"results": "one.csv"}),
    "rows without a score": ("is_better", {"a": "lora", "b": "full", "results": "lost.csv"}),
    "floor without a score": ("noise_floor", {"results": "lost.csv"}),
    "recorded floor": ("noise_floor", {"task": "rte", "metric": "accuracy", "seeds": 5}),
    "import": ("study_import", {"results": "results.csv", "reference": "head"}),
    "other columns": (
        "study_import",
        {"results": "odd.csv", "columns": {"arm": "wer", "score": "wert", "seed": "lauf"}},
    ),
    "verdicts": ("study_verdicts", {"study": "study"}),
    "memory": ("memory", {"method": ["full", "head"], "gpu": 8, "settings": {"optim": "sgd"}}),
    "methods": ("methods", {}),
    "method": ("methods", {"name": "gradual"}),
}
REFUSED: dict[str, tuple[Call, str]] = {
    "training": (("compare", {"method": ["full", "head"]}), "compare trains, and this server only reads"),
    "a recommendation": (("recommend", {}), "'gradgate mcp --allow-training'"),
    "an unknown tool": (("is_beter", {}), "There is no tool 'is_beter'. Did you mean 'is_better'"),
    "a tool that is not offered": (("compar", {}), "There is no tool 'compar'. Tools: is_better"),
    "an unknown argument": (("methods", {"nam": "full"}), "There is no setting 'nam'. Did you mean 'name'"),
    "no argument": (("is_better", {}), "a= is missing"),
    "an empty argument": (
        ("is_better", {"a": "", "b": "full", "results": "results.csv"}),
        "a= has an empty value; pass one.",
    ),
    "no method": (("memory", {"method": []}), "method=[]: expected at least 1 item."),
    "a margin without results": (
        ("noise_floor", {"task": "rte", "metric": "accuracy", "margin": 0}),
        "margin= is for results=",
    ),
    "a metric that no row has": (
        ("study_import", {"results": "results.csv", "metric": "f1"}),
        "no score has this metric. Metrics: accuracy.",
    ),
    "a wrong path": (("noise_floor", {"results": "nope.csv"}), "results='nope.csv' does not exist"),
    "a device": (("study_import", {"results": "/dev/zero"}), "results='/dev/zero' is not a file or folder"),
    "an address": (("study_import", {"results": "https://example.org/r.csv"}), "does not exist"),
    "a wrong file": (("study_import", {"results": "text.csv"}), "text.csv: no column"),
    "a pickle": (("study_import", {"results": "scores.pkl"}), "not UTF-8"),
    "a wrong column": (
        ("study_import", {"results": "results.csv", "columns": {"arm": "x"}}),
        "arm='x': results.csv has no",
    ),
    "an unknown setting of columns": (("study_import", {"results": "results.csv", "columns": {"arms": "x"}}), "'arms'"),
    "no study": (("study_verdicts", {"study": "."}), "holds no study"),
    "a study again": (("study_import", {"results": "study"}), "is a study already"),
    "an unknown arm": (("is_better", {"a": "lorra", "b": "full", "results": "results.csv"}), "Did you mean 'lora'"),
    "an arm without a score": (
        ("is_better", {"a": "big", "b": "full", "results": "lost.csv"}),
        "a='big' has no score. big: none of its 3 runs has a score",
    ),
    "one arm": (("is_better", {"a": "full", "b": "full", "results": "results.csv"}), "are one arm"),
    "no metric": (("is_better", {"a": "a", "b": "b", "scores": {"a": [1], "b": [2]}}), "metric= is missing"),
    "a metric that is not there": (
        ("is_better", {"a": "lora", "b": "full", "results": "results.csv", "metric": "f1"}),
        "metric='f1': no score has this metric. Metrics: accuracy",
    ),
    "no results": (("is_better", {"a": "a", "b": "b"}), "Expected one of results= and scores="),
    "lists of other lengths": (
        ("is_better", {"a": "a", "b": "b", "metric": "f1", "scores": {"a": [0.1, 0.2], "b": [0.3]}}),
        "lists of different lengths (a has 2, b has 1)",
    ),
    "an unrecorded task": (("noise_floor", {"task": "nothing", "metric": "f1"}), "No spread of f1 on task='nothing'"),
    "remote code": (("memory", {"settings": {"trust_remote_code": True}}), "cannot be passed by an agent"),
    "a hub name without a network": (("memory", {"model": "nobody/nothing"}), "only models in the cache are found"),
    "an unknown method": (("memory", {"method": ["gradul"]}), "Did you mean 'gradual'"),
    "an argument passed twice": (
        ("memory", {"batch_size": 8, "settings": {"batch_size": 4}}),
        "batch_size= is also in",
    ),
}


def write_results(file: Path, scores: Mapping[str, Sequence[float | str]], names: tuple[str, str, str]) -> None:
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(names)
        rows.writerows((arm, seed, score) for arm, own in scores.items() for seed, score in enumerate(own))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("agent")
    write_results(place / "results.csv", SCORES, ("arm", "seed", "accuracy"))
    write_results(place / "one.csv", {"full": FULL}, ("arm", "seed", "accuracy"))
    lost = {"full": [70.0, 72.0, 71.0, ""], "lora": [75.0, 76.0, 74.0, 77.0], "big": ["nan"] * 3}
    write_results(place / "lost.csv", lost, ("arm", "seed", "accuracy"))
    write_results(place / "odd.csv", SCORES, ("wer", "lauf", "wert"))
    (place / "text.csv").write_text("colour,note\nred,warm\n")
    (place / "scores.pkl").write_bytes(b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR.")
    write_study(place / "study", scores={"full": [0.7, 0.8, 0.9], "gradual:every=40": [0.6, 0.7, 0.8]})
    return place


@pytest.fixture(scope="module")
def session(folder: Path) -> Session:
    before = contents(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = ask_here([*CALLS.values(), *(call for call, _ in REFUSED.values())])
    assert contents(folder) == before, "a tool wrote a file"
    return found


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def replies(session: Session) -> dict[str, Reply]:
    return dict(zip([*CALLS, *REFUSED], session.replies, strict=True))


def test_only_tools_that_read_are_listed(session: Session) -> None:
    assert set(session.tools) == READING
    assert all(tool.annotations.read_only_hint for tool in session.tools.values())
    assert all(tool.input_schema["additionalProperties"] is False for tool in session.tools.values())
    assert "noise_floor" in session.instructions


@pytest.mark.parametrize("name", CALLS)
def test_each_tool_answers_with_a_text_and_numbers(replies: dict[str, Reply], name: str) -> None:
    assert not replies[name].failed, replies[name].text
    assert replies[name].text
    assert replies[name].record


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_to_do(replies: dict[str, Reply], name: str) -> None:
    assert replies[name].failed
    assert REFUSED[name][1] in replies[name].text
    assert ("columns={" in replies[name].text) == (name in ("a wrong column", "a wrong file"))
    assert "defect" not in replies[name].text


def test_a_better_arm_has_the_t_test_of_scipy_with_holms_correction(replies: dict[str, Reply]) -> None:
    found = replies["better"].record
    (only,) = found["comparisons"]
    p_lora, p_head = (float(stats.ttest_rel(own, FULL).pvalue) for own in (LORA, HEAD))
    assert p_lora < p_head
    assert found["verdict"] == "better"
    assert only["family"] == 2
    assert only["difference"] == pytest.approx(4.2)
    assert only["p"] == pytest.approx(p_lora)
    assert only["p_corrected"] == pytest.approx(2 * p_lora)
    assert only["collapsed"] == [0, 0]
    assert "+4.2 points of accuracy" in replies["better"].text
    assert "better than full" in replies["better"].text


def test_a_file_is_judged_against_the_named_arm(replies: dict[str, Reply]) -> None:
    (only,) = replies["worse"].record["comparisons"]
    assert (only["word"], only["reference"], only["family"]) == ("worse", "lora", 2)
    assert only["difference"] == pytest.approx(-4.2)


def test_a_loss_is_better_if_it_is_lower(replies: dict[str, Reply]) -> None:
    assert replies["lower"].record["verdict"] == "worse"


def test_what_is_not_shown_is_inconclusive_with_the_seeds_that_would_decide(replies: dict[str, Reply]) -> None:
    (only,) = replies["inconclusive"].record["comparisons"]
    assert only["word"] == "inconclusive"
    assert only["seeds_needed"] > 5
    assert "inconclusive; about" in replies["inconclusive"].text
    assert replies["equivalent"].record["verdict"] == "equivalent"
    assert "equivalent to full within 5 points" in replies["equivalent"].text


def test_scores_by_seed_are_paired_by_seed(replies: dict[str, Reply]) -> None:
    (only,) = replies["by seed"].record["comparisons"]
    assert only["pairs"] == 2
    assert only["difference"] == pytest.approx(100 * ((0.61 - 0.5) + (0.8 - 0.7)) / 2)
    assert {each["kind"] for each in replies["by seed"].record["warnings"]} >= {"unequal_seeds"}


def test_scores_that_nothing_pairs_are_compared_by_welchs_test(replies: dict[str, Reply]) -> None:
    (only,) = replies["unpaired"].record["comparisons"]
    assert only["p"] == pytest.approx(float(stats.ttest_ind(LORA[:4], FULL, equal_var=False).pvalue))


def test_a_collapsed_run_is_said(replies: dict[str, Reply]) -> None:
    (only,) = replies["collapsed"].record["comparisons"]
    assert only["collapsed"] == [1, 0]
    assert only["word"] == "inconclusive"
    assert only["word_without_collapsed"] == "better"
    assert "1 of 5 runs of b" in replies["collapsed"].text


def test_one_run_decides_nothing(replies: dict[str, Reply]) -> None:
    assert replies["one run"].record["verdict"] == "inconclusive"
    assert "one_seed" in {each["kind"] for each in replies["one run"].record["warnings"]}


def test_a_trained_study_is_judged_as_its_command_judges_it(
    replies: dict[str, Reply], folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    expected = json.loads(command("study", "verdicts", "study", "--json").out)
    assert [{**each, "sentence": None} for each in replies["verdicts"].record["verdicts"]] == [
        {**each, "sentence": None} for each in expected
    ]
    assert replies["study"].record["comparisons"][0]["difference"] == pytest.approx(-10)


def test_the_noise_floor_is_the_spread_over_seeds(replies: dict[str, Reply]) -> None:
    (condition,) = replies["floor"].record["conditions"]
    by_arm = {each["arm"]: each for each in condition["arms"]}
    assert by_arm["full"]["sd"] == pytest.approx(100 * stats.tstd(FULL))
    of_lora, of_head = (stats.tstd([x - y for x, y in zip(own, FULL, strict=True)]) for own in (LORA, HEAD))
    assert condition["sd_of_differences"] == pytest.approx(50 * (of_lora + of_head))
    each = condition["comparisons"][0]
    # 80 % power of the paired t-test at 0.05 over the two tests, by the noncentral t distribution.
    effect, bound = each["detectable"] / each["sd"] * 5**0.5, stats.t.ppf(1 - 0.0125, 4)
    power = stats.nct.sf(bound, 4, effect) + stats.nct.cdf(-bound, 4, effect)
    assert power == pytest.approx(0.8, abs=1e-6)
    assert "80 % power" in replies["floor"].text


@pytest.mark.parametrize("name", ["rows without a score", "floor without a score"])
def test_a_judgement_says_which_rows_were_left_out(replies: dict[str, Reply], name: str) -> None:
    assert replies[name].record["left_out"] == [{"reason": "no score", "rows": 4}]
    assert "Left out: 4 rows: no score." in replies[name].text
    assert "Scores of accuracy are in percent; they are stored as shares of 1." in replies[name].text


def test_one_arm_alone_has_a_noise_floor(replies: dict[str, Reply]) -> None:
    (condition,) = replies["floor of one arm"].record["conditions"]
    effect, bound = condition["smallest_difference"] / (2**0.5 * 100 * stats.tstd(FULL)) * 5**0.5, stats.t.ppf(0.975, 4)
    power = stats.nct.sf(bound, 4, effect) + stats.nct.cdf(-bound, 4, effect)
    assert power == pytest.approx(0.8, abs=1e-6)


def test_a_recorded_floor_says_that_it_is_not_yours(replies: dict[str, Reply]) -> None:
    assert replies["recorded floor"].record["recorded"]["difference"] > 0
    assert "This is not from runs of yours" in replies["recorded floor"].text


def test_an_import_gives_what_its_command_gives(
    replies: dict[str, Reply], folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(folder)
    words = ["study", "import", "results.csv", "--reference", "head", "--out", str(tmp_path / "study"), "--json"]
    said = command(*words)
    record = dict(replies["import"].record)
    verdicts, words_of = record.pop("verdicts"), record.pop("words")
    assert record == json.loads(said.out)
    assert {each["reference"] for each in verdicts} == {"head"}
    assert sum(words_of.values()) == len(verdicts) == 2
    assert replies["other columns"].record["arms"] == ["full", "lora", "head"]


def test_memory_says_what_fits_and_methods_are_listed(replies: dict[str, Reply]) -> None:
    peaks = {each["method"]: each["peak_bytes"] for each in replies["memory"].record["estimates"]}
    assert peaks["head"] < peaks["full"]
    assert "fits 8 GiB" in replies["memory"].text
    assert len(replies["methods"].record["methods"]) > 20
    assert [each["name"] for each in replies["method"].record["methods"]] == ["gradual"]


@pytest.mark.slow
def test_a_process_that_reads_asks_no_hub_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    before = contents(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.setblocking(False)
        address = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}"}
        found = ask([*CALLS.values(), *(call for call, _ in REFUSED.values())], tmp_path, environment=address)
        with pytest.raises(BlockingIOError):
            hub.accept()
    (tmp_path / "stderr.txt").unlink()
    assert contents(tmp_path) == before
    assert [reply.failed for reply in found.replies] == [False] * len(CALLS) + [True] * len(REFUSED)


PRINTING = """
import os, subprocess, sys
from huggingface_hub import constants
print("the hub is offline:", constants.HF_HUB_OFFLINE)
print("of python, left in its buffer", end="")
os.write(1, b"of the descriptor\\n")
subprocess.run([sys.executable, "-c", "print('of a child')"])
"""


def test_standard_output_carries_the_protocol_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PRINTING)
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "methods", "arguments": {}}},
    ]
    process = subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env=environment() | {"GRADGATE_METHODS": str(tmp_path / "own.py")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.writelines(f"{json.dumps(line)}\n" for line in lines)
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.stdin.close()
    rest, said = process.stdout.read(), process.stderr.read()
    assert process.wait() == 0, said
    assert [each["id"] for each in answers] == [1, 2]
    assert rest == ""
    assert answers[1]["result"]["structuredContent"]["methods"]
    for part in ("of python", "of the descriptor", "of a child", "the hub is offline: True"):
        assert part in said
